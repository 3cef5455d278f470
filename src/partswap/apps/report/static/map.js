// Pairs of classes: a drawing of which class leads to which, and a table with their edits and parts. For images that the
// model gets right these are nearest classes, which it need not ever mistake; for the others, what it says and the truth.

const ROWS = 12; // rows of the table before one asks for more
const FAMILIES = 40; // likewise, of the drawing
const views = new Map(); // how each of the two is sorted and unfolded

// Of the explanations that flip, as in the metrics: the others were given up. Where none does, no number is enough.
function meanEdits(list) {
  const reached = list.filter((e) => e.flipped);
  return reached.length ? mean(reached.map((e) => e.n)) : Infinity;
}
const writtenEdits = (edits) => (edits < Infinity ? edits.toFixed(1) : "–");

function pairsOf(list) {
  const found = new Map();
  for (const e of list) {
    const key = pairKey(e.from, e.to);
    if (!found.has(key)) found.set(key, { key, from: e.from, to: e.to, list: [] });
    found.get(key).list.push(e);
  }
  return [...found.values()].map((pair) => ({
    ...pair,
    n: new Set(pair.list.map((e) => e.case)).size,
    edits: meanEdits(pair.list),
    flipped: mean(pair.list.map((e) => Number(e.flipped))),
    shares: partShares(pair.list),
  }));
}

// 0 is few edits, 1 many.
function shade(edits, pairs) {
  if (edits === Infinity) return 1;
  const all = pairs.map((pair) => pair.edits).filter(Number.isFinite);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  return high > low ? (edits - low) / (high - low) : 0.5;
}
const tint = (share) => `--heat:${Math.round(20 + 80 * share)}%`;

function whereMap(pair) {
  const e = pair.list[0];
  const [rows, columns] = sources[e.source].grid;
  const hits = new Array(rows * columns).fill(0);
  for (const one of pair.list) {
    if (sources[one.source].grid[0] !== rows || sources[one.source].grid[1] !== columns) continue;
    for (const [cell] of one.edits) hits[cell] += 1;
  }
  const top = Math.max(1, ...hits);
  return s("svg", { class: "where", viewBox: `0 0 ${columns} ${rows}`, role: "img", "aria-label": "Where in the image" },
    s("rect", { width: columns, height: rows, class: "ground" }),
    hits.flatMap((n, cell) => (n ? [s("rect", { x: cell % columns, y: Math.floor(cell / columns), width: 1.02, height: 1.02,
      class: "warm", "fill-opacity": (0.15 + (0.85 * n) / top).toFixed(2) })] : [])));
}

// How often the model takes the one class of a pair for the other.
const mistakes = (data.mistakes[data.main] || []).map(([truth, said, n]) => [pairKey(truth, said), n]);
const mistaken = data.mistakes[data.main] ? new Map(mistakes) : null;
const takes = (pair) => (pair.list[0].mistake ? mistaken.get(pairKey(pair.to, pair.from)) : mistaken.get(pair.key)) || 0;

// -- the drawing: classes that lead to each other, directly or through others, are a family ---------------------------

const GAP = 78; // between columns, for arrows and their numbers
const NAME = 160; // a longer name takes several lines
const LETTER = 11.5;
const BOW = 34; // how far an arrow between two classes of a column reaches out

const pen = document.createElement("canvas").getContext("2d");
const lengthOf = (words, size = LETTER) => {
  pen.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(words).width;
};

function wrapped(name) {
  const lines = [];
  for (const word of name.split(/(?<=[-/])|\s+/)) {
    const last = lines.length - 1;
    const joined = last < 0 ? word : /[-/]$/.test(lines[last]) ? lines[last] + word : `${lines[last]} ${word}`;
    if (last >= 0 && lengthOf(joined) <= NAME) lines[last] = joined;
    else lines.push(word);
  }
  return lines;
}

function families(pairs) {
  const home = new Map();
  const root = (k) => (home.get(k) === k ? k : root(home.get(k)));
  for (const { from, to } of pairs) for (const k of [from, to]) if (!home.has(k)) home.set(k, k);
  for (const { from, to } of pairs) home.set(root(from), root(to));
  const groups = new Map();
  for (const k of home.keys()) groups.set(root(k), { members: [], pairs: [] });
  for (const k of home.keys()) groups.get(root(k)).members.push(k);
  for (const pair of pairs) groups.get(root(pair.from)).pairs.push(pair);
  const sized = [...groups.values()].map((group) => ({ ...group, ...arranged(group) }));
  return sized.sort((a, b) => b.columns - a.columns || b.lines - a.lines); // wide ones first: the others share lines
}

// What most others are taken for stands on the right, those that lead to it to the left of it, and so on.
function arranged({ members, pairs }) {
  const into = new Map(members.map((k) => [k, []]));
  const touching = new Map(members.map((k) => [k, []]));
  for (const { from, to, n } of pairs) {
    into.get(to).push([from, n]);
    touching.get(from).push(to);
    touching.get(to).push(from);
  }
  const weight = (k) => into.get(k).length * 1000 + into.get(k).reduce((sum, [, n]) => sum + n, 0);
  const first = [...members].sort((a, b) => weight(b) - weight(a))[0];
  const places = new Map();
  let lines = 0;
  const seen = new Set([first]);
  const place = (k, depth) => {
    const next = [...into.get(k).map(([from]) => from), ...touching.get(k)].filter((one) => !seen.has(one) && seen.add(one));
    const start = lines;
    next.forEach((one) => place(one, depth + 1));
    if (!next.length) lines += 1;
    const ys = next.map((one) => places.get(one).y);
    places.set(k, { depth, y: ys.length ? (ys[0] + ys[ys.length - 1]) / 2 : start });
  };
  place(first, 0);
  const deepest = Math.max(...[...places.values()].map(({ depth }) => depth));
  return { places, lines, columns: deepest + 1 };
}

const meet = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;

// The curve of an arrow: its ends, and where its number may stand, the middle first.
function curve(pair, spot, wide, mutual) {
  const [a, b] = [spot(pair.from), spot(pair.to)];
  const forth = a.x < b.x; // towards the right, as most are
  const shift = mutual ? (forth ? -7 : 7) : 0;
  const beside = a.x === b.x;
  const [x1, x2] = beside ? [a.x + wide, a.x + wide] : forth ? [a.x + wide, b.x] : [a.x, b.x + wide];
  const [y1, y2] = [a.y + shift, b.y + shift];
  const bow = beside ? BOW : (x2 - x1) / 2;
  const way = Math.sign(bow) * (beside ? -1 : 1);
  const middle = [x1 + bow, x2 - way * Math.abs(bow)];
  const point = (t) => ({
    x: (1 - t) ** 3 * x1 + 3 * (1 - t) ** 2 * t * middle[0] + 3 * (1 - t) * t ** 2 * middle[1] + t ** 3 * x2,
    y: (1 - t) ** 2 * (1 + 2 * t) * y1 + t ** 2 * (3 - 2 * t) * y2,
  });
  const path = (end) => `M${x1} ${y1}C${middle[0]} ${y1} ${middle[1]} ${y2} ${end} ${y2}`;
  return { x2, y2, way, path, points: [0.5, 0.35, 0.65, 0.2, 0.8, 0.1, 0.9].map(point) };
}

// The number of an arrow where it stands on no name and on no other number; where there is no room the table has it.
function numbered(points, number, taken) {
  const [width, height] = [lengthOf(number, 10.5) + 6, 13];
  // On the curve, or just above or below it.
  for (const { x, y } of [0, -height, height].flatMap((shift) => points.map((p) => ({ x: p.x, y: p.y + shift })))) {
    const box = { x: x - width / 2, y: y - height / 2, width, height };
    if (taken.some((other) => meet(box, other))) continue;
    taken.push(box);
    return s("text", { x, y: y + 4, "text-anchor": "middle" }, number);
  }
  return null;
}

function family(group, pairs, state, act) {
  const { places, lines, columns } = group;
  const names = new Map(group.members.map((k) => [k, wrapped(classes[k])]));
  const wide = Math.max(...[...names.values()].flat().map((words) => lengthOf(words))) + 22;
  const rows = Math.max(...[...names.values()].map((words) => words.length));
  const [tall, row] = [8 + 14 * rows, 16 + 14 * rows];
  const known = new Map(group.pairs.map((pair) => [pair.key, pair]));
  const spot = (k) => ({ x: (columns - 1 - places.get(k).depth) * (wide + GAP) + 2, y: places.get(k).y * row + row / 2 + 3 });
  const taken = group.members.map((k) => ({ x: spot(k).x, y: spot(k).y - tall / 2, width: wide, height: tall }));
  const beside = group.pairs.some((pair) => spot(pair.from).x === spot(pair.to).x);
  const [width, height] = [columns * (wide + GAP) - GAP + 4 + (beside ? BOW : 0), lines * row + 6];
  const most = Math.max(...pairs.map((pair) => pair.n));
  const arrows = group.pairs.map((pair) => {
    const { x2, y2, way, path, points } = curve(pair, spot, wide, known.has(pairKey(pair.to, pair.from)));
    const thick = 1.2 + (3 * pair.n) / most;
    const tip = 4 + thick;
    const never = mistaken && !takes(pair);
    return s("g", { class: never ? "arrow never" : "arrow", style: tint(shade(pair.edits, pairs)), "data-on": isChosen(pair, state),
      onclick: () => act(filterOf(pair)) },
    s("title", {}, `${classes[pair.from]} → ${classes[pair.to]}: ${count(pair.n, "image")}, `
      + (pair.edits < Infinity ? `${writtenEdits(pair.edits)} edits on average` : "none flips")),
    s("path", { class: "reach", d: path(x2) }),
    s("path", { class: "line", "stroke-width": thick, d: path(x2 - way * tip) }),
    s("path", { class: "tip", d: `M${x2} ${y2}l${-way * tip * 1.5} ${-tip * 0.8}v${tip * 1.6}z` }),
    numbered(points, writtenEdits(pair.edits), taken));
  });
  const boxes = group.members.map((k) => {
    const { x, y } = spot(k);
    const into = group.pairs.find((pair) => pair.to === k);
    const only = filterOf(into || group.pairs.find((pair) => pair.from === k));
    return s("g", { class: "class", onclick: () => act(into ? { ...only, from: "" } : { ...only, to: "" }) },
      s("rect", { x, y: y - tall / 2, width: wide, height: tall, rx: 7 }),
      s("text", { "text-anchor": "middle" }, names.get(k).map((words, j) =>
        s("tspan", { x: x + wide / 2, y: y + 4 + 14 * (j - (names.get(k).length - 1) / 2) }, words))));
  });
  return s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, style: `min-width:${Math.round(0.85 * width)}px`, "aria-hidden": "true" }, arrows, boxes);
}

// What shows the explanations of a pair in the gallery.
const filterOf = (pair) => ({ from: classes[pair.from], to: classes[pair.to],
  ...(mixed ? { is: pair.list[0].mistake ? "wrong" : "right" } : {}) });
const isChosen = (pair, state) => state.from === classes[pair.from] && state.to === classes[pair.to];

function drawing(pairs, view, state, act, again) {
  const all = families(pairs);
  const few = view.families ? all : all.slice(0, FAMILIES);
  return h("figure", { class: "families" }, h("div", { class: "flow", tabindex: 0, role: "region",
    "aria-label": "Drawing of the pairs of classes; the table below has the same" }, few.map((group) => family(group, pairs, state, act))),
    all.length > few.length && h("button", { type: "button", class: "plain", onclick: () => again({ families: true }) },
      `Show all ${all.length} groups`));
}

function pairsTable(pairs, view, state, act, again) {
  const sorts = { n: (a, b) => b.n - a.n || a.key - b.key, edits: (a, b) => b.edits - a.edits || a.key - b.key, flipped: (a, b) => a.flipped - b.flipped,
    takes: (a, b) => takes(b) - takes(a),
    name: (a, b) => classes[a.from].localeCompare(classes[b.from]) || classes[a.to].localeCompare(classes[b.to]) };
  const list = pairs.flatMap((pair) => pair.list);
  const shares = [...partShares(list)].sort((a, b) => b[1] - a[1]).slice(0, 12).map(([part]) => part);
  const top = Math.max(0.2, ...pairs.flatMap((pair) => shares.map((part) => pair.shares.get(part) || 0)));
  const rows = [...pairs].sort(sorts[view.order]);
  const most = Math.max(1, ...rows.map((pair) => pair.edits).filter(Number.isFinite));
  const column = (order, title, kind = "") => h("th", { scope: "col", class: kind, "aria-sort": view.order === order ? "descending" : null },
    h("button", { type: "button", onclick: () => again({ order }) }, title, view.order === order && h("span", { "aria-hidden": "true" }, " ▾")));
  const visible = view.all ? rows : rows.filter((pair, k) => k < ROWS || isChosen(pair, state));
  const table = h("table", {}, h("thead", {}, h("tr", {}, column("name", "classes"), column("n", "images", "n"), column("edits", "mean edits", "n"),
    column("flipped", "flipped", "n"), mistaken && column("takes", "mistaken", "n"), h("th", { scope: "col" }, "where"),
    shares.map((part) => h("th", { scope: "col", class: "part" },
      h("button", { type: "button", title: `Edits of the ${parts[part]}`, onclick: () => act({ part: parts[part] }) }, parts[part]))))),
  h("tbody", {}, visible.map((pair) => h("tr", { "data-on": isChosen(pair, state) },
    h("th", { scope: "row" }, h("button", { type: "button", "aria-pressed": String(isChosen(pair, state)),
      onclick: () => act(filterOf(pair)) },
    classes[pair.from], h("span", { class: "to" }, " → "), classes[pair.to])),
    h("td", { class: "n" }, pair.n),
    h("td", { class: "n edits" }, h("span", {}, writtenEdits(pair.edits)),
      pair.edits < Infinity && h("i", { style: `width:${((56 * pair.edits) / most).toFixed(0)}px` })),
    h("td", { class: "n" }, `${Math.round(100 * pair.flipped)} %`),
    mistaken && h("td", { class: "n" }, takes(pair) || h("small", {}, "never")),
    h("td", {}, whereMap(pair)),
    shares.map((part) => {
      const share = pair.shares.get(part) || 0;
      return h("td", { class: share ? "heat part" : "part", style: share ? tint(share / top) : null,
        title: `${parts[part]}: ${percent(share)} of the edits` }, share ? Math.round(100 * share) : "");
    })))));
  const hints = [rows.some((pair) => pair.flipped < 1) && "Mean edits: of the explanations that flip.", mistaken && (list[0].mistake ? "Mistaken: how many images of the split the model gets wrong in this way."
    : "Mistaken: how many images of the first class, of the whole split, the model takes for the second."),
    shares.length && "Under the parts: per cent of a pair’s edits that touch the part in the query."].filter(Boolean);
  return h("div", { class: "pairs" },
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Pairs of classes" }, table),
    hints.length > 0 && h("p", { class: "hint" }, hints.join(" ")),
    rows.length > ROWS && h("button", { type: "button", class: "plain", onclick: () => again({ all: !view.all }) },
      view.all ? "Show fewer" : `Show all ${count(rows.length, "pair")}`));
}

function drawPairs(section, list, state, act) {
  const view = views.get(section) || { order: "n", all: false, families: false };
  const pairs = pairsOf(list);
  const again = (change) => {
    views.set(section, { ...view, ...change });
    drawPairs(section, list, state, act);
  };
  $(".map", section).replaceChildren(drawing(pairs, view, state, act, again), pairsTable(pairs, view, state, act, again));
  section.querySelectorAll(".flow, .scroll").forEach(hintAtMore);
  return pairs;
}

function drawMap(all, state, act, shown) {
  // Of one method: means over several would speak of none.
  const main = shown.includes(data.main) ? data.main : shown[0];
  const mine = all.filter((e) => e.source === main);
  const [right, wrong] = [false, true].map((mistake) => mine.filter((e) => e.mistake === mistake));
  document.querySelectorAll(".map-of").forEach((one) => {
    one.textContent = several ? `Drawn from the explanations of ${sources[main].title}.` : "";
  });
  $("[data-of=wrong]").hidden = !wrong.length;
  $("#map").hidden = $("[data-to=map]").hidden = !right.length;
  if (wrong.length) drawPairs($("[data-of=wrong]"), wrong, state, act);
  if (!right.length) return;
  const pairs = drawPairs($("#map"), right, state, act);
  $("#never").textContent = mistaken
    ? `of these ${count(pairs.length, "pair")}, the model ever takes the one for the other in ${pairs.filter(takes).length}; dashed arrows are the rest.`
    : "the run does not say which of these the model ever takes for each other.";
}

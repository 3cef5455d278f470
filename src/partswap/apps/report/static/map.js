// The map of confusions: a drawing of what is taken for what, and pairs of classes with their edits and parts.

const ROWS = 12; // rows of the table before one asks for more
const FAMILIES = 40; // likewise, of the drawing
let mapped = { order: "n", all: false, families: false };

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
    edits: mean(pair.list.map((e) => e.n)),
    flipped: mean(pair.list.map((e) => Number(e.flipped))),
    shares: partShares(pair.list),
  }));
}

// 0 is few edits, 1 many.
function shade(edits, pairs) {
  const all = pairs.map((pair) => pair.edits);
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

// -- the drawing: classes that are confused with each other, directly or through others, are a family ----------------

const COLUMN = 192;
const GAP = 52; // between columns, for arrows
const LINE = 30;

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

function family(group, pairs, state, act) {
  const { places, lines, columns } = group;
  const [width, height] = [columns * COLUMN - GAP + 4, lines * LINE + 16];
  const spot = (k) => ({ x: (columns - 1 - places.get(k).depth) * COLUMN + 2, y: places.get(k).y * LINE + LINE / 2 + 3 });
  const known = new Set(group.pairs.map((pair) => pair.key));
  const most = Math.max(...pairs.map((pair) => pair.n));
  const arrows = group.pairs.map((pair) => {
    const [a, b] = [spot(pair.from), spot(pair.to)];
    const mutual = known.has(pairKey(pair.to, pair.from));
    const forth = a.x < b.x; // towards the right, as most are
    const shift = mutual ? (forth ? -5 : 6) : 0;
    const [x1, x2] = a.x === b.x ? [a.x + COLUMN - GAP, a.x + COLUMN - GAP] : forth ? [a.x + COLUMN - GAP, b.x] : [a.x, b.x + COLUMN - GAP];
    const [y1, y2] = [a.y + shift, b.y + shift];
    const bow = a.x === b.x ? 34 : (x2 - x1) / 2;
    const way = Math.sign(bow) * (a.x === b.x ? -1 : 1);
    const width = 1.2 + (3 * pair.n) / most;
    const tip = 4 + width;
    const on = state.from === classes[pair.from] && state.to === classes[pair.to];
    return s("g", { class: "arrow", style: tint(shade(pair.edits, pairs)), "data-on": on,
      onclick: () => act({ from: classes[pair.from], to: classes[pair.to] }) },
    s("title", {}, `${classes[pair.from]} → ${classes[pair.to]}: ${count(pair.n, "image")}, ${pair.edits.toFixed(1)} edits on average`),
    s("path", { class: "reach", d: `M${x1} ${y1}C${x1 + bow} ${y1} ${x2 - way * Math.abs(bow)} ${y2} ${x2} ${y2}` }),
    s("path", { class: "line", "stroke-width": width,
      d: `M${x1} ${y1}C${x1 + bow} ${y1} ${x2 - way * Math.abs(bow)} ${y2} ${x2 - way * tip} ${y2}` }),
    s("path", { class: "tip", d: `M${x2} ${y2}l${-way * tip * 1.5} ${-tip * 0.8}v${tip * 1.6}z` }),
    s("text", { x: forth ? x1 + 5 : x1 - 20, y: forth ? y1 - 5 : y1 + 14 }, pair.edits.toFixed(1)));
  });
  const names = group.members.map((k) => {
    const { x, y } = spot(k);
    return s("g", { class: "class", onclick: () => act(group.pairs.some((pair) => pair.to === k) ? { to: classes[k], from: "" } : { from: classes[k], to: "" }) },
      s("title", {}, classes[k]),
      s("rect", { x, y: y - 11, width: COLUMN - GAP, height: 22, rx: 7 }),
      s("text", { x: x + (COLUMN - GAP) / 2, y: y + 4, "text-anchor": "middle" }, clipped(classes[k], 20)));
  });
  return s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" }, arrows, names);
}

function drawing(pairs, state, act, again) {
  const all = families(pairs);
  const few = mapped.families ? all : all.slice(0, FAMILIES);
  return h("figure", { class: "families" }, h("div", { class: "flow", tabindex: 0, role: "region",
    "aria-label": "Drawing of the confusions; the table below has the same" }, few.map((group) => family(group, pairs, state, act))),
    all.length > few.length && h("button", { type: "button", class: "plain", onclick: () => again({ families: true }) },
      `Show all ${all.length} groups`));
}

function clipped(name, most) {
  return name.length <= most ? name : `${name.slice(0, most - 1)}…`;
}

function drawMap(all, state, act, shown) {
  // Of one method: means over several would speak of none.
  const main = shown.includes(data.main) ? data.main : shown[0];
  const list = all.filter((e) => e.source === main);
  $("#map-of").textContent = several ? `Drawn from the explanations of ${sources[main].title}.` : "";
  const pairs = pairsOf(list);
  const sorts = { n: (a, b) => b.n - a.n || a.key - b.key, edits: (a, b) => b.edits - a.edits, flipped: (a, b) => a.flipped - b.flipped,
    name: (a, b) => classes[a.from].localeCompare(classes[b.from]) || classes[a.to].localeCompare(classes[b.to]) };
  const shares = [...partShares(list)].sort((a, b) => b[1] - a[1]).slice(0, 12).map(([part]) => part);
  const top = Math.max(0.2, ...pairs.flatMap((pair) => shares.map((part) => pair.shares.get(part) || 0)));
  const rows = pairs.sort(sorts[mapped.order]);
  const most = Math.max(1, ...rows.map((pair) => pair.edits));
  const again = (change) => {
    mapped = { ...mapped, ...change };
    drawMap(all, state, act, shown);
  };
  const column = (order, title, kind = "") => h("th", { scope: "col", class: kind, "aria-sort": mapped.order === order ? "descending" : null },
    h("button", { type: "button", onclick: () => again({ order }) }, title, mapped.order === order && h("span", { "aria-hidden": "true" }, " ↓")));
  const chosen = (pair) => state.from === classes[pair.from] && state.to === classes[pair.to];
  const visible = mapped.all ? rows : rows.filter((pair, k) => k < ROWS || chosen(pair));
  const table = h("table", {}, h("thead", {}, h("tr", {}, column("name", "classes"), column("n", "images", "n"), column("edits", "mean edits", "n"),
    column("flipped", "flipped", "n"), h("th", { scope: "col" }, "where"),
    shares.map((part) => h("th", { scope: "col", class: "part" },
      h("button", { type: "button", title: `Edits of the ${parts[part]}`, onclick: () => act({ part: parts[part] }) }, parts[part]))))),
  h("tbody", {}, visible.map((pair) => h("tr", { "data-on": chosen(pair) },
    h("th", { scope: "row" }, h("button", { type: "button", "aria-pressed": String(chosen(pair)),
      onclick: () => act({ from: classes[pair.from], to: classes[pair.to] }) },
    classes[pair.from], h("span", { class: "to" }, " → "), classes[pair.to])),
    h("td", { class: "n" }, pair.n),
    h("td", { class: "n edits" }, h("span", {}, pair.edits.toFixed(1)), h("i", { style: `width:${((56 * pair.edits) / most).toFixed(0)}px` })),
    h("td", { class: "n" }, `${Math.round(100 * pair.flipped)} %`),
    h("td", {}, whereMap(pair)),
    shares.map((part) => {
      const share = pair.shares.get(part) || 0;
      return h("td", { class: share ? "heat part" : "part", style: share ? tint(share / top) : null,
        title: `${parts[part]}: ${percent(share)} of the edits` }, share ? Math.round(100 * share) : "");
    })))));
  $(".map").replaceChildren(...[drawing(pairs, state, act, again), h("div", { class: "pairs" },
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Pairs of classes" }, table),
    shares.length > 0 && h("p", { class: "hint" }, "Under the parts: per cent of a pair’s edits that touch the part in the query."),
    rows.length > ROWS && h("button", { type: "button", class: "plain", onclick: () => again({ all: !mapped.all }) },
      mapped.all ? "Show fewer" : `Show all ${count(rows.length, "pair")}`))].filter(Boolean));
}

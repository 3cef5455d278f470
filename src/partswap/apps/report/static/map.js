// The map of confusions: pairs of classes with their edits and parts, and a matrix of all pairs.

const ROWS = 12; // rows of the table before one asks for more
const MATRIX = 80; // classes up to which a matrix can be read
let mapped = { order: "n", all: false };

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

// Classes that are confused with each other, directly or through others, stand together.
function families(pairs) {
  const home = new Map();
  const root = (k) => (home.get(k) === k ? k : root(home.get(k)));
  for (const { from, to } of pairs) for (const k of [from, to]) if (!home.has(k)) home.set(k, k);
  for (const { from, to } of pairs) home.set(root(from), root(to));
  const groups = new Map();
  for (const k of home.keys()) groups.set(root(k), [...(groups.get(root(k)) || []), k]);
  return [...groups.values()].sort((a, b) => b.length - a.length).flatMap((group) => group.sort((a, b) => a - b));
}

// 0 is few edits, 1 many.
function shade(edits, pairs) {
  const all = pairs.map((pair) => pair.edits);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  return high > low ? (edits - low) / (high - low) : 0.5;
}
const tint = (share) => `--heat:${Math.round(22 + 78 * share)}%`;

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

function matrix(pairs, state, act) {
  const order = families(pairs);
  if (order.length > MATRIX || order.length < 3) return null;
  const place = new Map(order.map((k, position) => [k, position]));
  const n = order.length;
  const label = n <= 26;
  const margin = label ? n * 0.34 : 0;
  const mark = (pair) => s("rect", { x: margin + place.get(pair.to) + 0.06, y: place.get(pair.from) + 0.06, width: 0.88,
    height: 0.88, rx: 0.14, class: "cell heat", style: tint(shade(pair.edits, pairs)),
    "data-on": state.from === classes[pair.from] && state.to === classes[pair.to],
    onclick: () => act({ from: classes[pair.from], to: classes[pair.to] }) },
  s("title", {}, `${classes[pair.from]} → ${classes[pair.to]}: ${count(pair.n, "image")}, ${pair.edits.toFixed(1)} edits`));
  return h("figure", { class: "matrix" },
    s("svg", { viewBox: `0 0 ${n + margin} ${n}`, "aria-hidden": "true" },
      s("rect", { x: margin, width: n, height: n, class: "ground", rx: 0.3 }),
      order.map((k, position) => [
        s("rect", { x: margin + position, y: position, width: 1, height: 1, class: "self" }),
        label && s("text", { x: margin - 0.3, y: position + 0.68, "font-size": 0.58, "text-anchor": "end" }, clipped(classes[k], 17))]),
      pairs.map(mark)),
    h("figcaption", {}, "Rows: what the model says. Columns, in the same order: what it is made to say. Stronger: more edits.",
      " Classes that are confused with each other stand together."));
}

function clipped(name, most) {
  return name.length <= most ? name : `${name.slice(0, most - 1)}…`;
}

function drawMap(list, state, act) {
  const pairs = pairsOf(list);
  const sorts = { n: (a, b) => b.n - a.n || a.key - b.key, edits: (a, b) => b.edits - a.edits, flipped: (a, b) => a.flipped - b.flipped,
    name: (a, b) => classes[a.from].localeCompare(classes[b.from]) || classes[a.to].localeCompare(classes[b.to]) };
  const shares = [...partShares(list)].sort((a, b) => b[1] - a[1]).slice(0, 12).map(([part]) => part);
  const top = Math.max(0.2, ...pairs.flatMap((pair) => shares.map((part) => pair.shares.get(part) || 0)));
  const rows = pairs.sort(sorts[mapped.order]);
  const most = Math.max(1, ...rows.map((pair) => pair.edits));
  const again = (change) => {
    mapped = { ...mapped, ...change };
    drawMap(list, state, act);
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
  $(".map").replaceChildren(...[matrix(pairs, state, act), h("div", { class: "pairs" },
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Pairs of classes" }, table),
    shares.length > 0 && h("p", { class: "hint" }, "Under the parts: per cent of a pair’s edits that touch the part in the query."),
    rows.length > ROWS && h("button", { type: "button", class: "plain", onclick: () => again({ all: !mapped.all }) },
      mapped.all ? "Show fewer" : `Show all ${count(rows.length, "pair")}`))].filter(Boolean));
}

// Cards: one per query, with a panel for every method that is shown.

const SHOWN = 5; // edits that a card writes out; the rest is in the large view
const color = (number) => data.colors[number % data.colors.length];

function box(source, cell, size) {
  const [rows, columns] = sources[source].grid;
  const [width, height] = size;
  const [row, column] = [Math.floor(cell / columns), cell % columns];
  return { x: (column * width) / columns, y: (row * height) / rows, width: width / columns, height: height / rows };
}

function picture(e, image, marks, caption, role, among) {
  const size = data.sizes[image];
  const unit = (size[0] / 224) * (among > 2 ? 1.35 : 1); // in smaller pictures, so that they can be read
  const outlines = marks.flatMap(([number, cell]) => {
    const at = box(e.source, cell, size);
    const side = 17 * unit;
    const top = at.y >= side ? at.y - side + unit : at.y; // above the cell: it is the cell that one wants to see
    const base = { ...at, fill: "none", rx: 3 * unit };
    return [
      s("rect", { ...base, stroke: "#fff", "stroke-width": 6 * unit, "stroke-opacity": 0.9 }),
      s("rect", { ...base, stroke: color(number), "stroke-width": 3.6 * unit }),
      s("rect", { x: at.x - 1.8 * unit, y: top, width: side, height: side, rx: 3 * unit, fill: color(number) }),
      s("text", { x: at.x - 1.8 * unit + side / 2, y: top + side * 0.78, "font-size": 13 * unit, class: "mark" }, `${number + 1}`),
    ];
  });
  return h("figure", {},
    h("div", { class: "pic", style: `aspect-ratio:${size[0]}/${size[1]}` },
      h("img", { src: address(image), loading: "lazy", decoding: "async", width: size[0], height: size[1],
        alt: `${role}: ${caption}, ${count(marks.length, "outlined cell")}` }),
      s("svg", { viewBox: `0 0 ${size[0]} ${size[1]}`, "aria-hidden": "true" }, outlines)),
    h("figcaption", { title: `${role}: ${caption}` }, role === "query" ? h("b", {}, caption) : caption));
}

// A cell with a little of what is around it, so that one sees what it is part of.
function crop(e, image, cell, number) {
  const size = data.sizes[image];
  const at = box(e.source, cell, size);
  const side = Math.min(Math.max(at.width, at.height) * 1.7, ...size);
  const clamp = (middle, most) => Math.min(Math.max(middle - side / 2, 0), most - side);
  const [x, y] = [clamp(at.x + at.width / 2, size[0]), clamp(at.y + at.height / 2, size[1])];
  return s("svg", { class: "crop", viewBox: `${x} ${y} ${side} ${side}`, "aria-hidden": "true" },
    s("image", { href: address(image), width: size[0], height: size[1] }),
    s("rect", { ...at, fill: "none", stroke: color(number), "stroke-width": side / 16, rx: side / 30 }));
}

function named(list) {
  return list.map((k) => parts[k]).join(", ");
}

function bar(p, flipped) {
  return h("span", { class: "meter" }, h("i", { class: flipped ? "flip" : "", style: `width:${(100 * p).toFixed(1)}%` }));
}

function sideText(e, k, side) {
  const names = e.parts ? e.parts[k][side] : [];
  return named(names) || (e.background && e.background[k][side] ? "background" : "");
}

function swapText(e, k) {
  const [query, distractor] = [sideText(e, k, 0), sideText(e, k, 1)];
  const shared = e.parts ? e.parts[k][0].filter((part) => e.parts[k][1].includes(part)) : [];
  if (shared.length) return named(shared);
  if (query === distractor) return query || (e.parts ? h("small", {}, "no annotated part") : "");
  return `${query || "no annotated part"} → ${distractor || "no annotated part"}`;
}

function trace(e, large) {
  const own = e.own ? e.own.slice(0, 1) : [];
  const all = percents([...own, ...e.p]);
  const odds = all.slice(own.length);
  const said = own.length ? ` (${all[0]})` : "";
  const rows = [h("li", { class: "start" }, h("span", { class: "says" }, `before: says ${classes[e.said[0]]}${said}`),
    bar(e.p[0], false), h("span", { class: "p" }, odds[0]))];
  const most = large || e.n <= SHOWN ? e.n : SHOWN - 1;
  for (let k = 0; k < most; k += 1) {
    const [cell, image, theirs] = e.edits[k];
    const now = e.said[k + 1];
    const change = now === e.said[k] ? "" : now === e.to ? `flips to ${classes[now]}` : `says ${classes[now]}`;
    rows.push(h("li", {}, h("span", { class: "badge", style: `background:${color(k)}` }, `${k + 1}`),
      h("span", { class: "swap", role: "img", title: `${place(e, cell)} → ${place(e, theirs)}`,
        "aria-label": `${place(e, cell)} becomes ${place(e, theirs)} of a distractor` },
      crop(e, e.image, cell, k), h("span", { class: "arrow", "aria-hidden": "true" }, "→"), crop(e, image, theirs, k)),
      h("span", { class: "what" }, h("span", { class: "part" }, swapText(e, k)),
        change && h("span", { class: now === e.to ? "turn yes" : "turn" }, change)),
      bar(e.p[k + 1], now === e.to), h("span", { class: "p" }, odds[k + 1])));
  }
  if (most < e.n) rows.push(h("li", { class: "rest" }, `… ${count(e.n - most, "more edit")}, ${odds[e.n]} in the end`));
  return h("ol", { class: "trace", "aria-label": `Probability of ${classes[e.to]}` }, rows);
}

function panel(e, one, large) {
  const used = [...new Set(e.edits.map(([, image]) => image))];
  const most = large ? used.length : 3;
  const marksOf = (image) => e.edits.flatMap(([, from, cell], k) => (from === image ? [[k, cell]] : []));
  const first = one.found[0];
  const other = e.from !== first.from || e.to !== first.to;
  const shown = used.slice(0, most);
  return h("section", { class: `panel s${e.source % 6}`, "aria-label": sources[e.source].title },
    h("p", { class: "head" }, several && h("b", {}, h("span", { class: `dot s${e.source % 6}` }), sources[e.source].title),
      h("span", { class: "pill" }, count(e.n, "edit")),
      h("span", { class: e.flipped ? "pill yes" : "pill no" }, e.flipped ? "✓ flips" : "✕ not reached")),
    other && h("p", { class: "other" }, `${classes[e.from]} → ${classes[e.to]}`),
    h("div", { class: "pics", "data-n": shown.length + 1 },
      picture(e, e.image, e.edits.map(([cell], k) => [k, cell]), classes[e.from], "query", shown.length + 1),
      shown.map((image) => picture(e, image, marksOf(image), classes[e.to], "distractor", shown.length + 1))),
    used.length > most && h("p", { class: "rest" }, `and ${count(used.length - most, "more distractor")}`),
    trace(e, large),
    e.words && h("p", { class: e.words.stated ? "words" : "words withheld" }, e.words.text),
    e.pixels && h("p", { class: "pixels" },
      h("b", { class: e.pixels.flipped ? "yes" : "no" }, e.pixels.flipped ? "Holds in pixels" : "Does not hold in pixels"),
      ` pasted into the image, the whole network says ${classes[e.pixels.said]}`
      + ` (${classes[e.to]} ${percents([e.pixels.before, e.pixels.after]).join(" → ")})`));
}

function card(one, shown, open, large = false) {
  const [first] = shown;
  const title = [classes[first.from], h("span", { class: "to", "aria-label": " towards " }, " → "), classes[first.to]];
  const truth = truths.get(pairKey(first.from, first.to)) || [];
  const file = one.name.split("/").pop();
  const other = one.truth !== undefined && one.truth !== first.from && !first.mistake;
  return h("article", { class: shown.length > 1 ? "card wide" : "card", "data-case": one.number },
    h("header", {},
      h("h3", {}, open ? h("button", { type: "button", onclick: () => open(one.number) }, title) : title),
      h("p", { class: "file", title: one.name }, other ? `truly ${classes[one.truth]}, ${file}` : file)),
    first.mistake && h("p", { class: "kind" }, h("b", {}, "Mistake"), ` the model says ${classes[first.from]}, it is ${classes[first.to]}`),
    h("div", { class: "panels", style: `--n:${shown.length}` }, shown.map((e) => panel(e, one, large))),
    truth.length > 0 && h("p", { class: "truth" }, "The two classes truly differ in: ", h("b", {}, truth.join(", "))));
}

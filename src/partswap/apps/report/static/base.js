// Data, elements, pictures, numbers: what the other files build on.

const data = window.REPORT || JSON.parse(document.getElementById("data").textContent);
const { sources, classes, parts, cases, explanations } = data;
const $ = (selector, within = document) => within.querySelector(selector);

// Names may hold anything: elements are made one by one, and text is only ever set as text.
function make(kind, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) kind.addEventListener(name.slice(2), value);
    else kind.setAttribute(name, value === true ? "" : value);
  }
  kind.append(...children.flat(Infinity).filter((child) => child || child === 0));
  return kind;
}
const h = (tag, attributes = {}, ...children) => make(document.createElement(tag), attributes, children);
const s = (tag, attributes = {}, ...children) =>
  make(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// -- pictures ---------------------------------------------------------------------------------------------------

const addresses = new Map();
const shards = new Map();

// In a folder pictures are files. In a single file they stand in script elements, some in each, which are decoded when
// one of them is needed; a short address for each keeps the page small.
function address(number) {
  if (!data.shard) return `images/${String(number).padStart(5, "0")}.jpg`;
  if (!addresses.has(number)) {
    const shard = Math.floor(number / data.shard);
    if (!shards.has(shard)) shards.set(shard, JSON.parse(document.getElementById(`images-${shard}`).textContent));
    const letters = atob(shards.get(shard)[number % data.shard]);
    const bytes = new Uint8Array(letters.length);
    for (let k = 0; k < letters.length; k += 1) bytes[k] = letters.charCodeAt(k); // far faster than Uint8Array.from
    addresses.set(number, URL.createObjectURL(new Blob([bytes], { type: "image/jpeg" })));
  }
  return addresses.get(number);
}

// -- numbers ----------------------------------------------------------------------------------------------------

function percent(p, least = 0) {
  for (let digits = least; digits < 3; digits += 1) {
    const text = (100 * p).toFixed(digits);
    if ((Number(text) > 0 && Number(text) < 100) || p === 0 || p === 1) return `${text} %`;
  }
  return p < 0.5 ? "< 0.01 %" : "> 99.99 %";
}
// As many digits as it takes for neighbors that differ to read differently: 47 % and 47 % would be no step.
function percents(values) {
  const written = [0, 1, 2].map((digits) => values.map((p) => percent(p, digits)));
  const tells = (texts) => texts.every((text, k) => k === 0 || text !== texts[k - 1] || values[k] === values[k - 1]);
  return written.find(tells) || written[2];
}
const count = (number, one, many) => `${number.toLocaleString("en")} ${number === 1 ? one : many || `${one}s`}`;
const mean = (values) => (values.length ? values.reduce((a, b) => a + b, 0) / values.length : 0);
function quantile(sorted, share) {
  const at = (sorted.length - 1) * share;
  const low = Math.floor(at);
  return sorted[low] + (at - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
}

// Where a cell is, for people: rows and columns count from 1.
const place = (e, cell) => {
  const [, columns] = sources[e.source].grid;
  return `row ${Math.floor(cell / columns) + 1}, column ${(cell % columns) + 1}`;
};

// -- what is known of every explanation, worked out once ----------------------------------------------------------

const pairKey = (from, to) => from * classes.length + to;
const truths = new Map(data.truths.map(([from, to, names]) => [pairKey(from, to), names]));
cases.forEach((one, number) => Object.assign(one, { number, found: [] }));
data.clearest.forEach((number, rank) => { explanations[number].rank = rank; });
for (const e of explanations) {
  e.mistake = Boolean(e.mistake);
  e.turn = e.said.indexOf(e.to); // edits until the model says the target, -1 if it never does
  e.n = e.edits.length;
  e.end = e.p[e.n];
  e.touched = new Set((e.parts || []).flatMap(([query]) => query));
  // Not reached is worse than any number of edits; then more edits, then less certain.
  e.cost = (e.flipped ? 0 : 1000) + e.n + 1 - e.end;
  const one = cases[e.case];
  one.found.push(e);
  e.text = [classes[e.from], classes[e.to], one.name, e.words ? e.words.text : ""].join("\n").toLowerCase();
}
const several = sources.length > 1;
const mixed = new Set(explanations.map((e) => e.mistake)).size > 1; // images that are right, and mistakes
const checked = explanations.some((e) => e.pixels);

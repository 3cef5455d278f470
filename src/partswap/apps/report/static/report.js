// State, filters, the gallery's window, the large view. The state is in the address, so a view can be sent to someone.

const CHUNK = 12; // cards that come and go together: divides into rows of one to four
const PRINTED = 36;
const EMPTY = { q: "", from: "", to: "", edits: "", part: "", flip: "", pix: "", src: "", sort: "best", case: "" };
const SORTS = {
  best: ["best first", (list) => Math.min(...list.map((e) => e.cost))],
  worst: ["worst first", (list) => -Math.max(...list.map((e) => e.cost))],
  most: ["most edits", (list) => -Math.max(...list.map((e) => e.n))],
  fewest: ["fewest edits", (list) => Math.min(...list.map((e) => e.n))],
  pair: ["class pair", (list) => `${classes[list[0].from]}\n${classes[list[0].to]}`],
  part: ["part", (list) => [...list[0].touched].map((k) => parts[k]).sort()[0] || "\uffff", () => parts.length > 0],
  first: ["first edit gains most", (list) => -Math.max(...list.map((e) => (e.n ? e.p[1] - e.p[0] : 0)))],
  close: ["closest call before", (list) => -Math.max(...list.map((e) => e.p[0]))],
  differ: ["methods differ most", (list) => Math.min(...list.map((e) => e.cost)) - Math.max(...list.map((e) => e.cost)), () => several],
  order: ["as in the data", (list) => list[0].case],
};
const TITLES = { q: "search", from: "says", to: "towards", edits: "edits", part: "part", flip: "flipped", pix: "in pixels" };

let state = { ...EMPTY };
let found = []; // cases that match, in order
let later = 0;
let drawn = null; // what the map was drawn for
const form = $(".filters");
const cardsBox = $(".cards");

// -- the address --------------------------------------------------------------------------------------------------

function readState() {
  const told = new URLSearchParams(location.hash.slice(1));
  const read = Object.fromEntries(Object.keys(EMPTY).map((name) => [name, told.get(name) ?? EMPTY[name]]));
  if (!SORTS[read.sort]) read.sort = EMPTY.sort;
  return read;
}

function writeState() {
  const told = new URLSearchParams(Object.entries(state).filter(([name, value]) => value !== EMPTY[name]));
  const hash = told.toString();
  if (hash !== location.hash.slice(1)) history.replaceState(null, "", hash ? `#${hash}` : "#");
}

// -- which explanations -------------------------------------------------------------------------------------------

function shownSources() {
  const asked = state.src.split(",").filter(Boolean).map(Number).filter((k) => k in sources);
  return asked.length ? asked : sources.map((_, k) => k);
}

function matcher() {
  const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
  const [from, to, part] = [classes.indexOf(state.from), classes.indexOf(state.to), parts.indexOf(state.part)];
  const [, low, open, high] = /^(\d+)(-?)(\d*)$/.exec(state.edits) || [];
  const [least, most] = low === undefined ? [0, Infinity] : [Number(low), high ? Number(high) : open ? Infinity : Number(low)];
  return (e) => (!state.from || e.from === from) && (!state.to || e.to === to) && e.n >= least && e.n <= most
    && (!state.part || e.touched.has(part)) && (!state.flip || e.flipped === (state.flip === "yes"))
    && (!state.pix || (e.pixels !== undefined && e.pixels.flipped === (state.pix === "yes")))
    && words.every((word) => e.text.includes(word));
}

function choose() {
  const shown = new Set(shownSources());
  const matches = matcher();
  const all = [];
  const chosen = [];
  const keyed = [];
  const key = SORTS[state.sort][1];
  for (const one of cases) {
    const mine = one.found.filter((e) => shown.has(e.source));
    const hits = mine.filter(matches);
    all.push(...mine);
    chosen.push(...hits);
    if (hits.length) keyed.push([key(state.sort === "differ" ? mine : hits), one, mine]);
  }
  keyed.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  found = keyed.map(([, one, mine]) => ({ one, shown: mine }));
  return { all, chosen, possible: new Set(all.map((e) => e.case)).size };
}

// -- drawing ------------------------------------------------------------------------------------------------------

function act(change, { stay = false } = {}) {
  const same = Object.entries(change).every(([name, value]) => state[name] === value);
  // A second click on what is chosen lets go of it.
  const off = Object.fromEntries(Object.keys(change).map((name) => [name, EMPTY[name]]));
  update({ ...(same ? off : change), case: "" });
  if (!stay) form.scrollIntoView({ block: "start", behavior: calm() ? "auto" : "smooth" });
}
const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

function update(change = {}, now = false) {
  state = { ...state, ...change };
  const { all, chosen, possible } = choose();
  writeState();
  showForm();
  $("#count").textContent = found.length === possible ? count(possible, "image")
    : `${found.length.toLocaleString("en")} of ${count(possible, "image")}`;
  drawGallery();
  showDetail();
  // Charts and map follow when the gallery is there: while one types, only the last of them is drawn.
  clearTimeout(later);
  later = setTimeout(() => drawRest(all, chosen), now ? 0 : 60);
}

function drawRest(all, chosen) {
  drawCharts(chosen, all, shownSources(), act);
  const wanted = [state.src, state.from, state.to].join("\n");
  if (wanted !== drawn) drawMap(all, state, act, shownSources());
  drawn = wanted;
}

function showForm() {
  for (const name of Object.keys(EMPTY)) {
    const field = form.elements.namedItem(name);
    if (field && field.value !== state[name]) {
      field.value = state[name];
      if (field.value !== state[name]) { // a range or a name that the list does not have
        field.append(h("option", { value: state[name] }, state[name]));
        field.value = state[name];
      }
    }
  }
  const shown = new Set(shownSources());
  form.querySelectorAll("input[type=checkbox]").forEach((one) => { one.checked = shown.has(Number(one.value)); });
  const on = Object.keys(TITLES).filter((name) => state[name]);
  const chip = (name) => h("button", { type: "button", class: "chip", "aria-label": `Remove: ${TITLES[name]} ${state[name]}`,
    onclick: () => update({ [name]: "", case: "" }) }, h("span", {}, `${TITLES[name]}: `), state[name], h("span", { "aria-hidden": "true" }, " ✕"));
  $(".chips").replaceChildren(...on.map(chip), ...(on.length > 1
    ? [h("button", { type: "button", class: "plain", onclick: () => update({ ...EMPTY, sort: state.sort, src: state.src }) }, "Clear all")] : []));
  $(".state").hidden = !on.length;
  $("#more").textContent = on.filter((name) => name !== "q").length ? `Filters (${on.filter((name) => name !== "q").length})` : "Filters";
}

// Only chunks near the screen hold cards; the others keep their height.
let heights = [];
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) (entry.isIntersecting ? fill : drain)(entry.target);
}, { rootMargin: "1200px 0px" });

function fill(chunk) {
  if (chunk.childElementCount) return;
  const start = Number(chunk.dataset.start);
  chunk.append(...found.slice(start, start + CHUNK).map(({ one, shown }) => card(one, shown, (number) => update({ case: `${number}` }))));
  chunk.style.minHeight = "";
}

function drain(chunk) {
  // The first stays, so that one can step into the gallery by keyboard from anywhere.
  if (!chunk.childElementCount || chunk.dataset.start === "0" || chunk.contains(document.activeElement)) return;
  heights.push(chunk.offsetHeight);
  chunk.style.minHeight = `${chunk.offsetHeight}px`;
  chunk.replaceChildren();
}

function drawGallery() {
  watcher.disconnect();
  const guess = heights.length ? mean(heights.slice(-8)) : 1600;
  const wide = shownSources().length > 1;
  const chunks = [];
  for (let start = 0; start < found.length; start += CHUNK) {
    chunks.push(h("div", { class: wide ? "chunk wide" : "chunk", "data-start": start, style: `min-height:${guess}px` }));
  }
  cardsBox.replaceChildren(...(chunks.length ? chunks : [h("p", { class: "empty" }, "Nothing matches. Take a filter away.")]));
  if (chunks.length) fill(chunks[0]);
  chunks.forEach((chunk) => watcher.observe(chunk));
}

// -- the large view -----------------------------------------------------------------------------------------------

const detail = $("#detail");

function showDetail() {
  const place = state.case === "" ? -1 : found.findIndex(({ one }) => `${one.number}` === state.case);
  if (place < 0) {
    if (detail.open) detail.close();
    return;
  }
  const { one, shown } = found[place];
  $(".body", detail).replaceChildren(card(one, shown, null, true));
  $(".place", detail).textContent = `${(place + 1).toLocaleString("en")} of ${found.length.toLocaleString("en")}`;
  detail.querySelectorAll("[data-go]").forEach((button) => { button.disabled = !found[place + Number(button.dataset.go)]; });
  if (!detail.open) detail.showModal();
}

function go(step) {
  const place = found.findIndex(({ one }) => `${one.number}` === state.case);
  const next = found[place + step];
  if (place >= 0 && next) {
    state = { ...state, case: `${next.one.number}` };
    writeState();
    showDetail();
  }
}

detail.addEventListener("close", () => {
  const closed = state.case;
  if (closed === "") return;
  state = { ...state, case: "" };
  writeState();
  $(`.cards [data-case="${closed}"] h3 button`)?.focus({ preventScroll: true });
});
detail.addEventListener("click", (event) => {
  if (event.target === detail || event.target.closest("[data-close]")) detail.close();
  const button = event.target.closest("[data-go]");
  if (button) go(Number(button.dataset.go));
});

// -- once ---------------------------------------------------------------------------------------------------------

function setUp() {
  const fillSelect = (name, pairs) => form.elements.namedItem(name).append(...pairs.map(([value, title]) => h("option", { value }, title)));
  const any = [["", "any"]];
  const sorted = (numbers) => [...new Set(numbers)].map((k) => classes[k]).sort((a, b) => a.localeCompare(b)).map((name) => [name, name]);
  const most = Math.max(0, ...explanations.map((e) => e.n));
  fillSelect("sort", Object.entries(SORTS).filter(([, sort]) => !sort[2] || sort[2]()).map(([name, [title]]) => [name, title]));
  fillSelect("from", [...any, ...sorted(explanations.map((e) => e.from))]);
  fillSelect("to", [...any, ...sorted(explanations.map((e) => e.to))]);
  fillSelect("edits", [...any, ...Array.from({ length: Math.min(most, 11) }, (_, k) => [`${k + 1}`, `${k + 1}`]),
    ...[2, 4, 6].filter((n) => n < most).map((n) => [`${n}-`, `${n} or more`])]);
  fillSelect("part", [...any, ...[...parts].sort().map((name) => [name, name])]);
  fillSelect("flip", [...any, ["yes", "yes"], ["no", "no"]]);
  fillSelect("pix", [...any, ["yes", "holds"], ["no", "does not"]]);
  $("[data-of=part]").hidden = !parts.length;
  $("[data-of=pix]").hidden = !checked;
  $("[data-of=src]").hidden = !several;
  $(".checks").append(...sources.map((source, k) => h("label", {}, h("input", { type: "checkbox", name: "shown", value: k }),
    h("span", { class: `dot s${k % 6}` }), source.title)));

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", (event) => {
    if (event.target.type === "checkbox") {
      const on = [...form.querySelectorAll("input[type=checkbox]:checked")].map((one) => one.value);
      update({ src: on.length === sources.length ? "" : on.join(","), case: "" });
    } else if (event.target.name) update({ [event.target.name]: event.target.value, case: "" });
  });
  $("#more").addEventListener("click", () => {
    const open = form.classList.toggle("open");
    $("#more").setAttribute("aria-expanded", String(open));
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-to]");
    if (!button) return;
    event.preventDefault();
    const section = document.getElementById(button.dataset.to);
    section.scrollIntoView({ behavior: calm() ? "auto" : "smooth" });
    section.querySelector("h2").setAttribute("tabindex", "-1");
    section.querySelector("h2").focus({ preventScroll: true });
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, select, textarea");
    if (event.key === "/" && !typing && !detail.open) {
      event.preventDefault();
      form.elements.namedItem("q").focus();
    }
    if (detail.open && (event.key === "ArrowRight" || event.key === "ArrowLeft")) go(event.key === "ArrowRight" ? 1 : -1);
  });
  window.addEventListener("hashchange", () => {
    const before = state;
    state = readState();
    const changed = Object.keys(EMPTY).some((name) => name !== "case" && state[name] !== before[name]);
    update();
    if (changed) form.scrollIntoView({ block: "start" });
  });
  window.addEventListener("beforeprint", () => {
    watcher.disconnect();
    const few = found.slice(0, PRINTED);
    cardsBox.replaceChildren(h("div", { class: "chunk" }, few.map(({ one, shown }) => card(one, shown, null))));
    cardsBox.querySelectorAll("img").forEach((image) => { image.loading = "eager"; });
    $(".printed").textContent = few.length < found.length ? `The first ${few.length} of ${count(found.length, "image")}.` : "";
  });
  window.addEventListener("afterprint", drawGallery);
  setUpTheme();
}

function setUpTheme() {
  const root = document.documentElement;
  const names = { auto: "as the system", light: "light", dark: "dark" };
  const show = () => {
    $("#theme").setAttribute("aria-label", `Theme: ${names[root.dataset.theme]}`);
    $("#theme").title = `Theme: ${names[root.dataset.theme]}`;
  };
  $("#theme").addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const order = dark ? ["auto", "light", "dark"] : ["auto", "dark", "light"];
    root.dataset.theme = order[(order.indexOf(root.dataset.theme) + 1) % 3];
    try {
      localStorage.setItem("partswap-theme", root.dataset.theme);
    } catch (error) {
      console.info("the theme is not kept:", error.name); // some browsers refuse storage to files
    }
    show();
  });
  show();
}

// The example beside the sentences: of the explanations that flip in two edits, the one that gains most.
function showExample() {
  const score = (e) => (e.flipped && e.n ? 1 : 0) * (e.n === 2 ? 2 : e.n === 1 ? 1 : 1 / e.n) * (e.end - e.p[0])
    * (1 + mean((e.parts || []).map(([a, b]) => Number(a.some((part) => b.includes(part))))));
  const best = explanations.filter((e) => e.source === data.main).reduce((a, b) => (score(b) > score(a) ? b : a));
  $("#example").replaceChildren(h("p", { class: "eyebrow" }, "An example"), card(cases[best.case], [best], (number) => update({ case: `${number}` })));
}

setUp();
state = readState();
showExample();
update({}, true);
if (location.hash.length > 1) form.scrollIntoView({ block: "start" });

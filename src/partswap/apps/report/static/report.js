// State and filters. The state is in the address, so a view can be sent to someone.

const EMPTY = { q: "", is: "", from: "", to: "", edits: "", part: "", flip: "", pix: "", src: "", sort: "clear", case: "" };
const SORTS = {
  clear: ["clearest first", (list) => (list.find((e) => e.source === data.main) || list[0]).rank],
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
const IS = { right: "the model is right", wrong: "mistakes" };
const TITLES = { q: "search", is: "images", from: "says", to: "towards", edits: "edits", part: "part", flip: "flipped", pix: "in pixels" };

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

const addressOf = (one) => `${new URLSearchParams(Object.entries(one).filter(([name, value]) => value !== EMPTY[name]))}`;

function writeState() {
  const hash = addressOf(state);
  if (hash !== location.hash.slice(1)) history.replaceState(state.case === "" ? null : history.state, "", `#${hash}`);
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
  return (e) => (!state.is || e.mistake === (state.is === "wrong")) && (!state.from || e.from === from) && (!state.to || e.to === to) && e.n >= least && e.n <= most
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
  const wanted = [state.src, state.is, state.from, state.to].join("\n");
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
  const chosen = (name) => (name === "is" ? IS[state.is] || state.is : state[name]);
  const chip = (name) => h("button", { type: "button", class: "chip", "aria-label": `Remove: ${TITLES[name]} ${chosen(name)}`,
    onclick: () => update({ [name]: "", case: "" }) }, h("span", {}, `${TITLES[name]}: `), chosen(name), h("span", { "aria-hidden": "true" }, " ✕"));
  $(".chips").replaceChildren(...on.map(chip), ...(on.length > 1
    ? [h("button", { type: "button", class: "plain", onclick: () => update({ ...EMPTY, sort: state.sort, src: state.src }) }, "Clear all")] : []));
  $(".state").hidden = !on.length;
  $("#more").textContent = on.filter((name) => name !== "q").length ? `Filters (${on.filter((name) => name !== "q").length})` : "Filters";
}

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
  const images = (mistake) => count(new Set(explanations.filter((e) => e.mistake === mistake).map((e) => e.case)).size, "image");
  fillSelect("is", [...any, ["right", `${IS.right} (${images(false)})`], ["wrong", `${IS.wrong} (${images(true)})`]]);
  fillSelect("flip", [...any, ["yes", "yes"], ["no", "no"]]);
  fillSelect("pix", [...any, ["yes", "holds"], ["no", "does not"]]);
  $("[data-of=is]").hidden = !mixed;
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
  });
  window.addEventListener("hashchange", () => {
    const before = state;
    state = readState();
    const changed = Object.keys(EMPTY).some((name) => name !== "case" && state[name] !== before[name]);
    if (!changed) { // only the large view: the page behind it stays as it is
      showDetail();
      return;
    }
    update();
    form.scrollIntoView({ block: "start" });
  });
  setUpGallery();
  setUpDetail();
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

// The examples beside the sentences: chosen by the rule that stands below them.
function showExamples() {
  const shown = data.examples.map((number) => explanations[number]);
  $("#example").replaceChildren(...shown.map((e) => h("div", {}, h("p", { class: "eyebrow" }, e.mistake ? "A mistake" : mixed ? "An image it gets right" : "An example"),
    card(cases[e.case], [e], openDetail))));
}

// A table or drawing that is wider than its place fades where there is more, and says so.
function hintAtMore(region) {
  const look = () => {
    const left = region.scrollWidth - region.clientWidth - region.scrollLeft;
    region.dataset.more = [region.scrollLeft > 2 && "left", left > 2 && "right"].filter(Boolean).join(" ");
    hint.hidden = region.scrollWidth <= region.clientWidth + 2;
  };
  const hint = h("p", { class: "swipe", hidden: true }, "There is more to the right: scroll sideways.");
  region.before(hint);
  region.addEventListener("scroll", look, { passive: true });
  new ResizeObserver(look).observe(region);
}

state = readState();
setUp();
showExamples();
update({}, true);
document.querySelectorAll("#mistakes .lead-in .scroll, #metrics .scroll").forEach(hintAtMore);
if (location.hash.length > 1) form.scrollIntoView({ block: "start" });

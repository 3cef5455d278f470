// The gallery: the first cards, the others when asked for, of which only those near the screen are in the page.

const CHUNK = 12; // cards that come and go together: divides into rows of one to four
const FIRST = 12; // cards before one asks for more: the metrics follow below
const PRINTED = 36;
let everything = false;

// Only chunks near the screen hold cards; the others keep their height.
let heights = [];
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) (entry.isIntersecting ? fill : drain)(entry.target);
}, { rootMargin: "1200px 0px" });

function fill(chunk) {
  if (chunk.childElementCount) return;
  const start = Number(chunk.dataset.start);
  chunk.append(...found.slice(start, start + CHUNK).map(({ one, shown }) => card(one, shown, openDetail)));
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
  const visible = everything ? found.length : Math.min(FIRST, found.length);
  for (let start = 0; start < visible; start += CHUNK) {
    chunks.push(h("div", { class: wide ? "chunk wide" : "chunk", "data-start": start, style: `min-height:${guess}px` }));
  }
  cardsBox.replaceChildren(...(chunks.length ? chunks : [h("p", { class: "empty" }, "Nothing matches. Take a filter away.")]));
  $("#all").hidden = visible === found.length;
  $("#all").textContent = `Show all ${count(found.length, "image")}`;
  if (chunks.length) fill(chunks[0]);
  chunks.forEach((chunk) => watcher.observe(chunk));
  loadAhead();
}

// Nobody waits for pictures when a page is printed: those of the cards that only paper shows are loaded ahead.
const idle = window.requestIdleCallback || ((work) => setTimeout(work, 200)); // Safari has none
let ahead = [];
let turn = 0;
function loadAhead() {
  const mine = (turn += 1);
  idle(() => {
    if (mine !== turn) return;
    const shown = found.slice(0, PRINTED).flatMap((one) => one.shown);
    const images = new Set(shown.flatMap((e) => [e.image, ...e.edits.map(([, image]) => image)]));
    ahead = [...images].map((number) => Object.assign(new Image(), { src: address(number) }));
  });
}

function setUpGallery() {
  $("#all").addEventListener("click", () => {
    everything = true;
    drawGallery();
    cardsBox.querySelectorAll("h3 button")[FIRST - 1]?.focus({ preventScroll: true });
  });
  const folded = () => [...document.querySelectorAll("details")];
  let closed = [];
  window.addEventListener("beforeprint", () => {
    watcher.disconnect();
    const few = found.slice(0, PRINTED);
    cardsBox.replaceChildren(h("div", { class: "chunk" }, few.map(({ one, shown }) => card(one, shown, null))));
    cardsBox.querySelectorAll("img").forEach((image) => { image.loading = "eager"; });
    $(".printed").textContent = few.length < found.length ? `The first ${few.length} of ${count(found.length, "image")}.` : "";
    closed = folded().filter((one) => !one.open);
    closed.forEach((one) => { one.open = true; });
  });
  window.addEventListener("afterprint", () => {
    closed.forEach((one) => { one.open = false; });
    drawGallery();
  });
}

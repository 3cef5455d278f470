"use strict";
// Sends answers in the background and puts the next step in the place of the last. An answer that cannot be sent is
// kept, also over a reload, and sent again until the server has it; the server stores it once, however often it comes.
(() => {
  const main = document.getElementById("main");
  const notice = document.getElementById("notice");
  const address = window.location.pathname;
  const drawer = "partswap" + address;
  let begun = performance.now();
  let sending = false;

  const step = () => document.getElementById("step");
  const kept = () => { try { return JSON.parse(localStorage.getItem(drawer)); } catch { return null; } };
  const keep = (answer) => { try { answer ? localStorage.setItem(drawer, JSON.stringify(answer)) : localStorage.removeItem(drawer); } catch { /* private windows may have no storage: the answer stays in memory */ } };
  const say = (text) => { notice.hidden = !text; notice.textContent = text || ""; };
  const buttons = () => [...main.querySelectorAll("button[name=choice]")];
  const enable = (on) => buttons().forEach((button) => { button.disabled = !on; });
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  const drawn = (element) => element !== null && element.offsetParent !== null;
  const head = () => {
    window.scrollTo(0, 0);
    [...main.querySelectorAll("h1")].find(drawn)?.focus({ preventScroll: true });
  };

  async function loaded() {
    const images = [...main.querySelectorAll("img")];
    await Promise.allSettled(images.map((image) => image.decode()));
    return images.every((image) => image.complete && image.naturalWidth > 0);
  }

  // A new part opens with some words, which give way to its first pictures (the style sheet does that).
  async function opened(here) {
    const opening = here.querySelector(".opening");
    if (!drawn(opening)) return;
    while (step() === here && drawn(opening)) {
      await new Promise((done) => window.addEventListener("hashchange", done, { once: true }));
    }
    if (step() === here) head();
  }

  // The seconds that are left stand on the button; a screen reader hears how many at first, and when they are over.
  async function countdown(here) {
    const least = Number(here.dataset.least);
    if (!least) return;
    const left = here.querySelector(".left");
    const status = here.querySelector("[role=status]");
    status.textContent = `You can go on in ${Math.ceil(least / 1000)} s.`;
    for (let ms = least; ms > 0 && step() === here; ms = begun + least - performance.now()) {
      left.textContent = Math.ceil(ms / 1000);
      await wait(ms % 1000 || 1000);
    }
    left.textContent = "";
    status.textContent = "You can go on.";
  }

  // A step begins when its pictures can be seen, and can be answered from then on (learning: some seconds later).
  async function begin(focus) {
    const here = step();
    if (!here || here.dataset.step === undefined) return;
    enable(false);
    if (focus) head();
    while (!(await loaded())) {
      say("A picture does not arrive. Please check your connection: the page tries again.");
      await wait(1500);
      if (step() !== here) return;
      main.querySelectorAll("img").forEach((image) => { if (!image.naturalWidth) image.src = image.src; });
    }
    if (!sending) say("");
    await opened(here);
    begun = performance.now();
    await countdown(here);
    if (step() !== here) return;
    enable(true);
    for (const source of (here.dataset.ahead || "").split(" ").filter(Boolean)) new Image().src = source;
  }

  function show(answer) {
    main.innerHTML = answer.html;
    begin(true);
  }

  async function send(answer) {
    if (sending) return;
    sending = true;
    keep(answer);
    enable(false);
    for (let tries = 0; ; tries += 1) {
      try {
        const response = await fetch(address, {
          method: "POST", body: new URLSearchParams(answer), headers: { accept: "application/json" },
        });
        if (response.ok) { keep(null); sending = false; say(""); show(await response.json()); return; }
        if (response.status === 409 || response.status === 422 || response.status === 404) {
          // Not a step of ours any more (another tab went on): the server knows where we are.
          keep(null);
          window.location.reload();
          return;
        }
        const told = await response.json().catch(() => ({}));
        say(told.wait || "The server does not answer. Your answer is kept: please wait a moment.");
      } catch {
        say("No connection. Your answer is kept and will be sent as soon as you are online again.");
      }
      await Promise.race([wait(Math.min(8000, 700 * 1.5 ** tries)), new Promise((done) => window.addEventListener("online", done, { once: true }))]);
    }
  }

  function choose(button) {
    if (button.disabled || sending) return;
    button.classList.add("chosen");
    button.setAttribute("aria-pressed", "true");
    const form = button.form;
    send({ step: form.elements.step.value, choice: button.value, client_ms: (performance.now() - begun).toFixed(1) });
  }

  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (!button || button.name !== "choice") return;
    event.preventDefault();
    choose(button);
  });

  const keys = { a: "A", b: "B", d: "unknown" };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const wanted = event.key === "Enter" ? ["next"] : [keys[event.key.toLowerCase()]];
    if (event.key === "Enter" && document.activeElement?.tagName === "BUTTON") return;
    const link = main.querySelector(".opening a");
    if (event.key === "Enter" && drawn(link)) {
      if (document.activeElement !== link) link.click();
      return;
    }
    const button = buttons().find((one) => wanted.includes(one.value));
    if (button) { event.preventDefault(); choose(button); }
  });

  // Another tab may have gone on; when this one is looked at again, it catches up.
  document.addEventListener("visibilitychange", async () => {
    if (document.hidden || sending || !step() || step().dataset.step === undefined) return;
    try {
      const response = await fetch(address, { headers: { accept: "application/json" } });
      if (!response.ok) return;
      const now = await response.json();
      if (!sending && String(now.step) !== step()?.dataset.step) show(now);
    } catch { /* no connection: nothing to catch up with */ }
  });

  const last = kept();
  if (last && step()?.dataset.step === last.step) send(last);
  else { keep(null); begin(false); }
})();

"use strict";
// The page works by its address: a slider that moves asks for the part that changes, and the address follows.
(() => {
  const $ = (name) => document.getElementById(name);
  const form = $("controls"), result = $("result"), notice = $("notice");
  const tab = [...crypto.getRandomValues(new Uint8Array(9))].map((b) => b.toString(36)).join("");
  const inFlight = {};
  let query = document.querySelector(".verdict").dataset.query, wanted = new URLSearchParams(query);
  let quiet = 0, latest = 0;

  function say(text) {
    notice.textContent = text;
    notice.hidden = false;
    clearTimeout(quiet);
    quiet = setTimeout(() => { notice.hidden = true; }, 4000);
  }

  // Asks for something; what was asked for before, of the same kind, is not waited for any more.
  async function ask(kind, path) {
    inFlight[kind]?.abort();
    const controller = inFlight[kind] = new AbortController();
    const done = watch(kind);
    try {
      const response = await fetch(path, { headers: { "x-tab": tab }, signal: controller.signal });
      if (response.status === 409) return null;
      if (!response.ok) throw new Error((await response.json()).error);
      // Read here: what is not waited for any more may also end while its text comes in.
      const text = await response.text();
      return inFlight[kind] === controller ? text : null;
    } catch (error) {
      if (error.name !== "AbortError" && inFlight[kind] === controller) {
        say(error instanceof TypeError ? "The explorer does not answer. Is it still running?" : error.message);
      }
      return null;
    } finally {
      done();
    }
  }

  // Long work tells how far it has come, and can be stopped.
  const LONG = { view: "Searching", compare: "Comparing methods" };
  let stoppable = null;
  function watch(kind) {
    if (!(kind in LONG)) return () => {};
    let timer = setTimeout(look, 700), over = false;
    async function look() {
      const response = await fetch(`/progress?kind=${kind}`, { headers: { "x-tab": tab } }).catch(() => null);
      const now = response?.ok ? await response.json() : null;
      if (over) return;
      const edits = now?.edits > 0 ? `, sets of ${now.edits + 1} swaps` : "";
      const text = now?.running ? `${LONG[kind]}: ${Math.round(now.seconds)} s${edits}` : "Waiting for another search";
      if ($("progress").hidden) $("announcer").textContent = LONG[kind];
      $("progress").querySelector(".text").textContent = text;
      $("progress").hidden = false;
      stoppable = kind;
      timer = setTimeout(look, 500);
    }
    return () => {
      over = true;
      clearTimeout(timer);
      $("progress").hidden = true;
    };
  }
  $("stop").addEventListener("click", () => {
    const kind = stoppable;
    fetch(`/stop?kind=${kind}`, { method: "POST", headers: { "x-tab": tab } });
    inFlight[kind]?.abort();
    inFlight[kind] = null;
    if (kind === "compare") {
      form.elements.compare.checked = false;
      form.elements.compare.dispatchEvent(new Event("change", { bubbles: true }));
    } else restore();
    say("Stopped.");
  });

  // Where the page is to go: what the address says, and what was changed since.
  function set(name, value) {
    if (value === null || value === form.elements[name].dataset.default) wanted.delete(name);
    else wanted.set(name, value);
  }

  function lock() {
    const own = wanted.has("s");
    for (const slider of form.querySelectorAll("input[type=range]")) {
      slider.disabled = own || slider.dataset.off === "1";
      slider.closest(".slider").classList.toggle("off", slider.disabled);
    }
    form.elements.s.disabled = !own;
    form.elements.s.value = wanted.get("s") ?? "";
  }

  function labels() {
    for (const slider of form.querySelectorAll("input[type=range]")) {
      const text = slider.value === slider.dataset.default && slider.dataset.defaultText || slider.value;
      slider.closest(".slider").querySelector(".value").textContent = text;
      slider.setAttribute("aria-valuetext", text);
    }
  }

  // Sliders go back to the settings of the result that is shown.
  function restore() {
    wanted = new URLSearchParams(query);
    for (const slider of form.querySelectorAll("input[type=range]")) {
      slider.value = wanted.get(slider.name) ?? slider.dataset.default;
    }
    labels();
    lock();
    const heading = result.querySelector("[data-searching] h1");
    if (heading) heading.textContent = "Stopped. Reload the page to search again, or choose other settings.";
  }

  async function show(how) {
    inFlight.cell?.abort();
    result.setAttribute("aria-busy", "true");
    const began = latest = performance.now();
    const text = await ask("view", `/view?${wanted}`);
    if (text === null) {
      // Of several that are under way, the latest tells when it is over.
      if (began === latest) result.setAttribute("aria-busy", "false");
      return false;
    }
    const answer = JSON.parse(text);
    const chosen = document.querySelector(".cell.picked")?.dataset.cell;
    result.innerHTML = answer.html;
    result.setAttribute("aria-busy", "false");
    query = answer.query;
    wanted = new URLSearchParams(query);
    lock();
    const address = query ? `/?${query}` : "/";
    if (how === "push") history.pushState(null, "", address);
    else if (how === "replace") history.replaceState(null, "", address);
    $("json").href = `/counterfactual.json?${query}`;
    $("png").href = `/counterfactual.png?${query}`;
    if (chosen !== undefined && wanted.has("s")) look(chosen);
    announce();
    requestAnimationFrame(() => setTimeout(() => { // painted
      document.dispatchEvent(new CustomEvent("shown", { detail: performance.now() - began }));
    }));
    extras();
    hint();
    return true;
  }

  // What the page says first is also what is read out when it changes.
  function announce() {
    const odds = result.querySelector(".chance.target");
    $("announcer").textContent = `${result.querySelector("h1").textContent}. ${odds.textContent}`.replace(/\s+/g, " ");
  }

  async function compare(scroll) {
    const part = $("compare-part");
    part.hidden = !form.elements.compare.checked;
    if (part.hidden) return;
    const text = await ask("compare", `/compare?${query}`);
    if (text === null) return;
    part.lastElementChild.innerHTML = text;
    if (scroll) part.scrollIntoView({ block: "start" });
  }
  async function paste() {
    const place = $("pasted");
    if (place === null) return;
    const text = await ask("pixel", `/pixel?${query}`);
    if (text === null) return;
    place.innerHTML = text;
    flip();
  }
  // Before and after: the large image is as it was, or has the regions pasted in.
  let after = false;
  function flip() {
    const picture = result.querySelector("#query image"), pasted = $("pasted")?.querySelector("img");
    picture.dataset.before ??= picture.getAttribute("href");
    picture.setAttribute("href", after && pasted ? pasted.getAttribute("src") : picture.dataset.before);
    for (const button of result.querySelectorAll("[data-after]")) {
      button.setAttribute("aria-pressed", String(after === (button.dataset.after === "1")));
    }
  }
  function extras() { paste(); compare(false); }

  // -- sliders, methods, classes
  // Where the hand is tells what is moved next: the explorer begins to look there.
  let hand = null;
  function hint() {
    if (hand !== null && !wanted.has("s")) ask("hint", `/hint?${wanted}&slider=${hand}`);
  }
  for (const slider of form.querySelectorAll("input[type=range]")) {
    const place = slider.closest(".slider");
    for (const kind of ["pointerenter", "focusin"]) {
      place.addEventListener(kind, () => { if (hand !== slider.name) { hand = slider.name; hint(); } });
    }
    place.addEventListener("pointerleave", () => { hand = null; });
  }
  form.addEventListener("input", (event) => {
    labels();
    if (event.target.type !== "range") return;
    set(event.target.name, event.target.value);
    show("replace");
  });
  form.addEventListener("change", (event) => {
    const { name } = event.target;
    if (name === "t" || name === "m") {
      set("s", null);
      set(name, event.target.value);
      location.href = `/?${wanted}`;
    } else if (name === "compare") {
      set(name, event.target.checked ? "1" : null);
      query = wanted.toString();
      history.replaceState(null, "", `/?${query}`);
      compare(true);
    }
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); });
  $("reset").addEventListener("click", () => {
    for (const slider of form.querySelectorAll("input[type=range]")) {
      slider.value = slider.dataset.default;
      set(slider.name, slider.value);
    }
    labels();
    show("push");
  });

  // -- cells: choose one to see its matches, choose one of these to swap it in
  let looked = null;
  async function look(cell) {
    const text = await ask("cell", `/cell?${query}&cell=${cell}`);
    const place = result.querySelector(`.cell[data-cell="${cell}"]`);
    if (text === null || place === null) return;
    leave();
    $("cell").innerHTML = text;
    $("cell").hidden = false;
    looked = cell;
    place.classList.add("picked");
    for (const other of result.querySelectorAll(".cell")) other.tabIndex = other === place ? 0 : -1;
  }
  function leave() {
    $("cell").hidden = true;
    $("cell").replaceChildren();
    for (const other of result.querySelectorAll(".cell.picked")) other.classList.remove("picked");
  }
  const isOpen = () => !$("cell").hidden;
  const focusCell = (cell) => result.querySelector(`.cell[data-cell="${cell}"]`)?.focus({ preventScroll: true });
  result.addEventListener("click", (event) => {
    const cell = event.target.dataset?.cell, button = event.target.closest("[data-after], [data-close]");
    if (cell !== undefined) {
      if (isOpen() && looked === cell) leave();
      else look(cell);
    } else if (button?.dataset.after !== undefined) {
      after = button.dataset.after === "1";
      flip();
    } else if (button) {
      leave();
      focusCell(looked);
    }
    const link = event.target.closest("a[data-go]");
    if (link === null || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go(link);
  });
  async function go(link) {
    wanted = new URL(link.href).searchParams;
    if (await show("push")) focusCell(looked ?? 0);
  }
  result.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && isOpen()) {
      leave();
      focusCell(looked);
      return;
    }
    const cell = event.target.dataset?.cell;
    if (cell === undefined) return;
    const cells = [...result.querySelectorAll(".cell")], wide = Number($("query").dataset.columns);
    const column = Number(cell) % wide;
    const free = { ArrowRight: column < wide - 1, ArrowLeft: column > 0, ArrowDown: true, ArrowUp: true }[event.key];
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: wide, ArrowUp: -wide }[event.key];
    if (step !== undefined) {
      const next = free ? cells[Number(cell) + step] : undefined;
      if (next) {
        event.target.tabIndex = -1;
        next.tabIndex = 0;
        next.focus();
        if (isOpen()) look(next.dataset.cell);
      }
      event.preventDefault();
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      look(cell).then(() => $("cell").querySelector("a")?.focus());
    }
  });

  // -- copies
  async function copy(text, done) {
    try {
      await navigator.clipboard.writeText(text);
      say(done);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      say(document.execCommand("copy") ? done : "The browser does not allow copying.");
      area.remove();
    }
  }
  $("share").addEventListener("click", () => copy(location.href, "Link copied: it opens this very view."));
  $("python").addEventListener("click", async () => {
    const text = await ask("python", `/python?${query}`);
    if (text !== null) copy(text, "Python copied: it makes this very view.");
  });

  // -- choosing an image, or dropping one
  const chooser = $("chooser"), drop = $("drop");
  async function browse(page) {
    const filter = new URLSearchParams({ class: $("of").value, wrong: $("wrong").checked ? "1" : "", page });
    const text = await ask("images", `/images?${filter}`);
    if (text === null) return;
    $("gallery").innerHTML = text;
    chooser.scrollTop = 0;
  }
  // While the dialog is open nothing outside of it is seen.
  function refuse(text) {
    $("refused").textContent = text;
    $("refused").hidden = text === "";
    if (!chooser.open && text) chooser.showModal();
  }
  async function upload(file) {
    if (!file) return;
    const most = Number($("file").dataset.mostBytes);
    const large = `The image has more than ${most / 2 ** 20} MB. Use a smaller one.`;
    refuse("");
    if (file.size > most) { refuse(large); return; }
    drop.setAttribute("aria-busy", "true");
    try {
      const response = await fetch("/upload", { method: "POST", body: file, headers: { "content-type": "application/octet-stream" } });
      if (response.status === 413) throw new Error(large);
      const answer = await response.json();
      if (!response.ok) throw new Error(answer.error);
      location.href = `/?u=${answer.u}`;
    } catch (error) {
      refuse(error instanceof TypeError ? "The explorer does not answer. Is it still running?" : error.message);
      drop.removeAttribute("aria-busy");
      $("file").value = "";
    }
  }
  $("choose").addEventListener("click", () => { refuse(""); chooser.showModal(); browse(0); });
  $("close").addEventListener("click", () => chooser.close());
  chooser.addEventListener("click", (event) => {
    if (event.target === chooser) chooser.close();
    const page = event.target.dataset?.page;
    if (page !== undefined) browse(page);
  });
  $("of").addEventListener("change", () => browse(0));
  $("wrong").addEventListener("change", () => browse(0));
  $("file").addEventListener("change", (event) => upload(event.target.files[0]));
  for (const kind of ["dragenter", "dragover"]) {
    document.addEventListener(kind, (event) => {
      if (![...event.dataTransfer.types].includes("Files")) return;
      event.preventDefault();
      drop.classList.add("over");
    });
  }
  document.addEventListener("dragleave", () => drop.classList.remove("over"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    upload(event.dataTransfer.files[0]);
  });

  window.addEventListener("popstate", () => location.reload());
  labels();
  lock();
  if (result.querySelector("[data-searching]")) show("replace");
  else extras();
})();

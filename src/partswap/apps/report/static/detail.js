// The large view. It is an entry of the history of its own, so that Back closes it and does not leave the page.

const detail = $("#detail");

function openDetail(number) {
  state = { ...state, case: `${number}` };
  history.pushState({ detail: true }, "", `#${addressOf(state)}`);
  showDetail();
}

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
    detail.scrollTop = 0;
  }
}

function setUpDetail() {
  // An address with a card opens it on top of the page without it, so that there is something to go back to.
  if (state.case !== "" && !history.state?.detail) {
    history.replaceState(null, "", `#${addressOf({ ...state, case: "" })}`);
    history.pushState({ detail: true }, "", `#${addressOf(state)}`);
  }
  detail.addEventListener("close", () => {
    const closed = state.case;
    if (closed === "") return; // by Back: the address is as it should be
    state = { ...state, case: "" };
    if (history.state?.detail) history.back();
    else writeState();
    $(`.cards [data-case="${closed}"] h3 button`)?.focus({ preventScroll: true });
  });
  detail.addEventListener("click", (event) => {
    if (event.target === detail || event.target.closest("[data-close]")) detail.close();
    const button = event.target.closest("[data-go]");
    if (button) go(Number(button.dataset.go));
  });
  document.addEventListener("keydown", (event) => {
    if (detail.open && (event.key === "ArrowRight" || event.key === "ArrowLeft")) go(event.key === "ArrowRight" ? 1 : -1);
  });
}

"use strict";
// Keeps the numbers up to date, and copies and prints new links.
(() => {
  const copy = document.getElementById("copy");
  const print = document.getElementById("print");
  if (copy && navigator.clipboard) {
    copy.hidden = false;
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.querySelector("textarea").value);
      copy.textContent = "Copied";
    });
  }
  if (print) {
    print.hidden = false;
    print.addEventListener("click", () => window.print());
  }
  const progress = document.getElementById("progress");
  if (!progress) return;
  let last = "";
  setInterval(async () => {
    if (document.hidden || progress.contains(document.activeElement)) return;
    try {
      const response = await fetch("/admin/progress");
      if (response.status === 401) { window.location.reload(); return; }
      if (!response.ok) return;
      const { html } = await response.json();
      if (html !== last) progress.innerHTML = last = html;
    } catch { /* the server is away: the next time */ }
  }, 2000);
})();

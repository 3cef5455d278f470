"use strict";
// Keeps the numbers up to date, and asks before something is deleted.
(() => {
  const progress = document.getElementById("progress");
  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !window.confirm(question)) event.preventDefault();
  });
  if (!progress) return;
  setInterval(async () => {
    if (document.hidden || progress.contains(document.activeElement)) return;
    try {
      const response = await fetch("/admin/progress");
      if (response.status === 401) { window.location.reload(); return; }
      if (response.ok) progress.innerHTML = (await response.json()).html;
    } catch { /* the server is away: the next time */ }
  }, 2000);
})();

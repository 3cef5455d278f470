// Distributions of what is chosen, drawn as SVG; where a filter is on, a line shows the same of everything.

const WIDTH = 460;
const HEIGHT = 200;
const [LEFT, RIGHT, TOP, BOTTOM] = [44, 12, 12, 34];
const across = (share) => LEFT + share * (WIDTH - LEFT - RIGHT);
const up = (share) => HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);

function frame(label, height, children) {
  return s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label, class: "chart" }, children);
}
const text = (x, y, words, more = {}) => s("text", { x, y, ...more }, words);
const line = (x1, y1, x2, y2, kind) => s("line", { x1, y1, x2, y2, class: kind });

function levels(top) {
  const step = [0.05, 0.1, 0.25, 0.5].find((one) => top / one <= 5) || 0.5;
  return Array.from({ length: Math.floor(top / step + 1e-9) + 1 }, (_, k) => k * step);
}

function grid(top) {
  return levels(top).map((level) => [
    line(LEFT, up(level / top), WIDTH - RIGHT, up(level / top), "rule"),
    text(LEFT - 6, up(level / top) + 4, `${Math.round(100 * level)} %`, { "text-anchor": "end" }),
  ]);
}

const bySource = (list, shown) => shown.map((k) => list.filter((e) => e.source === k));

function editsChart(chosen, all, shown, act) {
  const most = Math.min(12, Math.max(1, ...all.map((e) => e.n)));
  const numbers = Array.from({ length: most }, (_, k) => k + 1);
  const share = (list, n) => (list.length ? list.filter((e) => (n === most ? e.n >= n : e.n === n)).length / list.length : 0);
  const [now, ever] = [bySource(chosen, shown), bySource(all, shown)];
  const top = Math.max(0.05, ...numbers.flatMap((n) => [...now, ...ever].map((list) => share(list, n)))) * 1.08;
  const slot = (WIDTH - LEFT - RIGHT) / most;
  const thick = Math.min(26, (slot * 0.78) / shown.length);
  const over = all.some((e) => e.n > most);
  const bars = numbers.map((n, k) => {
    const middle = LEFT + slot * (k + 0.5);
    return s("g", { class: "hit", onclick: () => act({ edits: n === most && over ? `${n}-` : `${n}` }) },
      s("title", {}, `${count(n, "edit")}${n === most && over ? " or more" : ""}: `
        + shown.map((one, j) => `${sources[one].title} ${percent(share(now[j], n))}`).join(", ")),
      s("rect", { x: middle - slot / 2, y: TOP, width: slot, height: HEIGHT - TOP, class: "area" }),
      shown.map((one, j) => {
        const x = middle - (thick * shown.length) / 2 + j * thick;
        const y = up(share(now[j], n) / top);
        const mark = up(share(ever[j], n) / top);
        return [s("rect", { x: x + 1, y, width: thick - 2, height: up(0) - y, class: `fill s${one % 6}`, rx: 2 }),
          chosen.length < all.length && line(x + 1, mark, x + thick - 1, mark, "ever")];
      }),
      text(middle, HEIGHT - 18, n === most && over ? `${n}+` : `${n}`, { "text-anchor": "middle" }));
  });
  return frame("Distribution of the number of edits", HEIGHT,
    [grid(top), bars, text(WIDTH - RIGHT, HEIGHT - 3, "number of edits", { "text-anchor": "end", class: "axis" })]);
}

// Every explanation ends at another edit, so they are laid over each other at the one that flips the decision; those that
// need fewer edits stand at their start before.
function risingChart(chosen, shown) {
  const lists = bySource(chosen.filter((e) => e.turn > 0), shown);
  const turns = lists.flat().map((e) => e.turn).sort((a, b) => a - b);
  const before = turns.length ? Math.min(8, Math.max(2, Math.round(quantile(turns, 0.9)))) : 2; // the few that need many would flatten it
  const after = lists.map((list) => Math.min(4, Math.max(0, ...list.map((e) => e.n - e.turn))));
  const last = Math.max(0, ...after);
  const steps = (end) => Array.from({ length: before + end + 1 }, (_, k) => k - before);
  const curves = lists.map((list, j) => steps(after[j]).map((step) =>
    [step, mean(list.map((e) => e.p[Math.min(Math.max(e.turn + step, 0), e.n)]))]));
  const top = Math.min(1, Math.max(0.1, ...curves.flat().map(([, p]) => p)) * 1.2);
  const at = (step) => across((step + before) / (before + last));
  const name = (step) => (step < 0 ? `${count(-step, "edit")} before the flip` : step ? `${count(step, "edit")} after it` : "at the flip");
  const ticks = steps(last).map((step) => text(at(step), HEIGHT - 18, step < 0 ? `${-step}` : step ? `+${step}` : "flip",
    { "text-anchor": step === last && !step ? "end" : "middle", dx: step === last && !step ? 8 : 0 }));
  return frame("Mean probability of the target class, counted back from the edit that flips the decision", HEIGHT, [
    grid(top), line(at(0), TOP, at(0), up(0), "ever"), ticks,
    curves.map((curve, j) => lists[j].length > 0 && s("g", { class: `stroke s${shown[j] % 6}` },
      s("path", { d: `M${curve.map(([step, p]) => `${at(step)} ${up(p / top)}`).join("L")}` }),
      curve.map(([step, p]) => s("circle", { cx: at(step), cy: up(p / top), r: 3.5 },
        s("title", {}, `${sources[shown[j]].title}, ${name(step)}: ${percent(p)}`))))),
    text(LEFT, HEIGHT - 3, "edits before the flip", { class: "axis" }),
  ]);
}

function risingLead(chosen) {
  const missed = chosen.filter((e) => e.turn <= 0).length;
  return "Mean probability of the target class, counted back from the edit that flips the decision. Explanations with fewer "
    + `edits stand at their start${missed ? `; ${missed.toLocaleString("en")} that do not flip are left out` : ""}.`;
}

function boxesChart(chosen, shown) {
  const row = 46;
  const height = TOP + BOTTOM + row * shown.length;
  const one = (values, y, kind, title) => {
    if (!values.length) return null;
    const [low, left, middle, right, high] = [0.05, 0.25, 0.5, 0.75, 0.95].map((q) => quantile(values, q));
    return s("g", { class: kind }, s("title", {}, `${title}: median ${percent(middle)}, half of them from `
      + `${percent(left)} to ${percent(right)}`),
    line(across(low), y, across(high), y, "whisker"),
    s("rect", { x: across(left), y: y - 7, width: Math.max(2, across(right) - across(left)), height: 14, rx: 3, class: "fill" }),
    line(across(middle), y - 9, across(middle), y + 9, "median"));
  };
  return frame("Probability of the target class before and after", height, [
    [0, 0.25, 0.5, 0.75, 1].map((share) => [
      line(across(share), TOP, across(share), height - BOTTOM, "rule"),
      text(across(share), height - 18, `${100 * share} %`, { "text-anchor": share === 1 ? "end" : "middle", dx: share === 1 ? 6 : 0 })]),
    shown.map((k, j) => {
      const list = chosen.filter((e) => e.source === k);
      const sorted = (get) => list.map(get).sort((a, b) => a - b);
      const y = TOP + row * (j + 0.5);
      return [one(sorted((e) => e.p[0]), y - 10, "before", `${sources[k].title}, before`),
        one(sorted((e) => e.end), y + 10, `s${k % 6}`, `${sources[k].title}, after`)];
    }),
    text(WIDTH - RIGHT, height - 3, "gray: before, colored: after all edits", { "text-anchor": "end", class: "axis" }),
  ]);
}

function partShares(list) {
  const edits = list.flatMap((e) => e.parts || []);
  const found = new Map();
  for (const [query] of edits) for (const part of query) found.set(part, (found.get(part) || 0) + 1);
  return new Map([...found].map(([part, n]) => [part, n / edits.length]));
}

function partsChart(chosen, all, shown, act) {
  const order = [...partShares(all)].sort((a, b) => b[1] - a[1]).slice(0, 10).map(([part]) => part);
  const lists = bySource(chosen, shown).map(partShares);
  const top = Math.max(0.05, ...lists.flatMap((found) => order.map((part) => found.get(part) || 0)));
  return h("ul", { class: "bars" }, order.map((part) => h("li", {},
    h("button", { type: "button", onclick: () => act({ part: parts[part] }) }, parts[part]),
    h("div", {}, shown.map((k, j) => {
      const share = lists[j].get(part) || 0;
      return h("span", { class: "line", title: `${sources[k].title}: ${percent(share)}` },
        h("i", { class: `fill s${k % 6}`, style: `width:${(100 * share) / top}%` }), h("small", {}, `${Math.round(100 * share)} %`));
    })))));
}

function drawCharts(chosen, all, shown, act) {
  const figure = (title, lead, drawing) =>
    h("figure", { class: "chartbox" }, h("figcaption", {}, h("b", {}, title), h("span", {}, lead)), drawing);
  const legend = several && h("p", { class: "legend" }, shown.map((k) =>
    h("span", {}, h("span", { class: `dot s${k % 6}` }), sources[k].title)));
  $("#charts-of").replaceChildren(chosen.length < all.length
    ? `Of the ${count(chosen.length, "explanation")} chosen; dashes in the first show all ${all.length.toLocaleString("en")}.`
    : `Of all ${all.length.toLocaleString("en")} explanations; filters of the gallery apply here, too.`);
  $(".charts").replaceChildren(...[legend,
    figure("How many edits it takes", "Choose a bar to see those.", editsChart(chosen, all, shown, act)),
    figure("How the probability rises", risingLead(chosen), risingChart(chosen, shown)),
    figure("From where to where", "Median, middle half and 90 % of the probabilities.", boxesChart(chosen, shown)),
    parts.length > 0 && figure("Which parts", "Share of the edits that touch a part of the query.",
      partsChart(chosen, all, shown, act))].filter(Boolean));
}

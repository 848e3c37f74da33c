// Overview: throughput, latency, lag, subscriptions by kind, what is shared.

import { get } from "./api.js";
import { lineChart, unbroken } from "./chart.js";
import { byId, bytes, count, el, every, fill, number, seconds, table } from "./dom.js";

const KINDS = ["select", "aggregate", "nearest", "clusters", "moving"];

// [[at, items per second], …] from the counts of batches; none over a pause, for nobody knows when its items came
export function rates(points) {
  return unbroken(points.map((point) => [point.at, point.items])).flatMap((piece) => piece.slice(1)
    .map(([at, items], index) => [at, (items - piece[index][1]) / (at - piece[index][0])])
    .filter(([, rate]) => Number.isFinite(rate) && rate >= 0));
}

// [[at, seconds], …] of the batches of which that is known
const taken = (points) => points.filter((point) => point.seconds !== null).map((point) => [point.at, point.seconds]);

// A family that is set apart is a branch of its own and reads the stream again: the branch that has come the
// furthest speaks for the stream.
function byStream(branches) {
  const found = new Map();
  for (const one of branches) {
    const known = found.get(one.stream);
    if (!known || one.books.processed > known.books.processed) found.set(one.stream, one);
  }
  return [...found.values()];
}

function tile(value, what, more = "") {
  return el("div", { class: "tile" }, el("span", {}, what), el("b", {}, value), el("small", {}, more));
}

export function overview() {
  const throughput = lineChart(byId("throughput"), "Items per second", (value) => number(value === null ? null : Math.round(value)));
  const latency = lineChart(byId("latency"), "Seconds per batch", seconds, seconds);
  const span = () => Number(byId("span").value);
  let saved = null; // what is shared, or a text that says why that is not shown

  function drawTiles(page) {
    const streams = byStream(page.branches);
    const items = streams.reduce((sum, one) => sum + one.items_per_second, 0);
    const rows = page.branches.reduce((sum, one) => sum + one.results_per_second, 0);
    const took = page.branches.map((one) => one.batch_seconds).filter((one) => one !== null);
    const lags = page.branches.map((one) => one.lag_seconds).filter((one) => one !== null);
    const behind = page.branches.map((one) => one.behind).filter((one) => one !== null);
    const ages = page.branches.map((one) => one.age_seconds);
    const active = Object.values(page.subscriptions).reduce((sum, one) => sum + one, 0);
    const conditions = saved && saved.conditions ? number(saved.conditions) : "–";
    fill(
      byId("tiles"),
      tile(number(Math.round(items)), "Items per second", count(streams.length, "stream")),
      tile(number(Math.round(rows)), "Result rows per second", "to all subscribers"),
      tile(took.length ? seconds(Math.max(...took)) : "–", "Time per batch", "of the slowest stream"),
      tile(seconds(lags.length ? Math.max(...lags) : ages.length ? Math.max(...ages) : null), "Lag",
        lags.length ? "now minus the last item's time" : behind.length ? `${number(Math.max(...behind))} items not read` : "since the last batch"),
      tile(number(active), "Subscriptions", "active now"),
      tile(conditions, "Conditions", conditions === "–" ? "" : `for ${count(saved.subscriptions, "subscription")}`),
    );
  }

  function drawKinds(kinds) {
    const most = Math.max(1, ...Object.values(kinds));
    fill(byId("kinds"), el("div", { class: "bars" }, ...KINDS.flatMap((kind) => {
      const bar = el("i");
      bar.style.width = `${100 * (kinds[kind] || 0) / most}%`;
      bar.style.background = `var(--${kind})`;
      return [el("span", {}, kind), el("div", { class: "track" }, bar), el("b", {}, number(kinds[kind] || 0))];
    })));
  }

  function drawSaving() {
    if (typeof saved === "string") { fill(byId("saving"), el("p", { class: "note" }, saved)); return; }
    if (!saved || !saved.conditions) { fill(byId("saving"), el("p", { class: "note" }, "There are no selections or aggregates yet.")); return; }
    const counts = [["subscriptions", saved.subscriptions, "var(--s8)"], ["conditions", saved.conditions, "var(--s2)"], ["tested on every item", saved.tested_on_every_item, "var(--s2)"]];
    const most = Math.max(...counts.map(([, value]) => value));
    const bars = counts.flatMap(([what, value, ink]) => {
      const bar = el("i");
      bar.style.width = `${100 * value / most}%`;
      bar.style.background = ink;
      return [el("span", {}, what), el("div", { class: "track" }, bar), el("b", {}, number(value))];
    });
    fill(
      byId("saving"),
      el("p", { class: "note" }, "Selections and aggregates: a condition is tested once for all that need it, and most only on what passed another."),
      el("div", { class: "bars" }, ...bars),
    );
  }

  function drawStreams(branches) {
    table(byId("streams"), ["Stream", "Items", "Late", "Rejected", "Waiting", "Batch", "Last batch", "Took", "Lag", "State"],
      branches.map((one) => [
        one.branch, one.books.processed ?? 0, one.books.late ?? 0, one.books.rejected ?? 0, one.books.waiting ?? 0,
        one.batch, `${seconds(one.age_seconds)} ago`, seconds(one.batch_seconds), seconds(one.lag_seconds), bytes(one.state_bytes || null),
      ]));
  }

  const look = every(() => (span() > 300 ? 5000 : 1000), async () => {
    const length = span();
    const page = await get("/api/progress", { span: length });
    throughput(page.branches.map((one) => ({ name: one.branch, points: rates(one.points) })), page.now, length);
    latency(page.branches.map((one) => ({ name: one.branch, points: taken(one.points) })), page.now, length);
    drawTiles(page);
    drawKinds(page.subscriptions);
    drawStreams(page.branches);
  });
  const plan = every(30000, async () => {
    try {
      saved = await get("/api/plan/savings");
    } catch (error) {
      saved = error.status === 403 ? "A token of role viewer or admin shows what is shared." : saved;
    }
    drawSaving();
  });
  byId("span").addEventListener("change", () => look.start());
  return {
    show() { look.start(); plan.start(); },
    hide() { look.stop(); plan.stop(); },
  };
}

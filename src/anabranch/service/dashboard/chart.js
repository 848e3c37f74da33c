// Lines over time, drawn as SVG. series: [{name, points: [[seconds since 1970, value], …]}], colours by index.

import { el, fill, number, seconds, svg } from "./dom.js";

const HEIGHT = 190, RIGHT = 12, TOP = 10, BOTTOM = 24;
const LETTER = 7.4; // width of a digit of the axis, with some room
const PAUSE_S = 15; // nothing for so long, and five times as long as usual, is a pause
const TICKS_S = [60, 120, 300, 600, 1800, 3600];

export const colour = (index) => `var(--s${(index % 8) + 1})`;

// 1, 2 or 5 times a power of ten, so that about four lines fit below `most`
export function step(most) {
  const power = 10 ** Math.floor(Math.log10(most / 4));
  return [1, 2, 5, 10].map((times) => times * power).find((one) => most / one <= 5);
}

// 20000 -> "20K": an axis has little room
export const brief = (value) => value.toLocaleString("en", { notation: "compact", maximumSignificantDigits: 3 });

// Longer than this between two points is a pause.
function longest(points) {
  const steps = points.slice(1).map(([at], index) => at - points[index][0]).sort((one, other) => one - other);
  return Math.max(PAUSE_S, 5 * (steps[steps.length >> 1] || 0));
}

// The points, cut at pauses: a line over a pause would show what was not measured.
export function unbroken(points) {
  const pause = longest(points);
  const pieces = [];
  points.forEach((point, index) => {
    if (!index || point[0] - points[index - 1][0] > pause) pieces.push([]);
    pieces.at(-1).push(point);
  });
  return pieces;
}

function ago(value) {
  if (!value) return "now";
  return value % 3600 ? `${value / 60} min` : `${value / 3600} h`;
}

// Keeps what it is given; the pointer or the arrow keys choose a moment, whose values the legend shows.
// `show` writes a value, `tick` a value on the axis; `what` is read out.
export function lineChart(node, what, show = number, tick = brief) {
  let series = [], now = 0, span = 300;
  let chosen = null; // seconds since 1970
  let left = 48, width = 560;
  const drawing = svg("svg", { role: "img", tabindex: "0", height: HEIGHT });
  const legend = el("div", { class: "legend" });
  fill(node, el("div", { class: "chart" }, drawing), legend);

  drawing.addEventListener("pointermove", (event) => {
    const part = (event.clientX - drawing.getBoundingClientRect().left - left) / (width - left - RIGHT);
    chosen = part < 0 || part > 1 ? null : now - span + part * span;
    draw();
  });
  for (const name of ["pointerleave", "blur"]) drawing.addEventListener(name, () => { chosen = null; draw(); });
  drawing.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!way) return;
    event.preventDefault();
    chosen = Math.min(now, Math.max(now - span, (chosen ?? now) + way * span / 30));
    draw();
  });
  new ResizeObserver(() => { if (node.clientWidth && node.clientWidth !== width) draw(); }).observe(node);

  // The point at the chosen moment, else the last; null in a pause.
  function pointAt(points) {
    if (!points.length) return null;
    const at = chosen ?? now;
    const best = points.reduce((near, one) => (Math.abs(one[0] - at) < Math.abs(near[0] - at) ? one : near));
    return Math.abs(best[0] - at) > longest(points) ? null : best;
  }

  function axes(most, x, y) {
    const parts = [];
    const by = step(most);
    for (let value = 0; value <= most; value += by) {
      parts.push(svg("line", { class: "gridline", x1: left, x2: width - RIGHT, y1: y(value), y2: y(value) }));
      parts.push(svg("text", { class: "tick", x: left - 7, y: y(value) + 4, "text-anchor": "end" }, tick(+value.toPrecision(3))));
    }
    const every = TICKS_S.find((one) => span / one * 64 <= width - left) || span;
    for (let back = 0; back <= span; back += every) {
      const anchor = back === 0 ? "end" : back === span ? "start" : "middle";
      const last = back + every > span;
      parts.push(svg("text", { class: "tick", x: x(now - back), y: HEIGHT - 6, "text-anchor": anchor }, `${ago(back)}${last ? " ago" : ""}`));
    }
    return parts;
  }

  function draw() {
    width = node.clientWidth || width;
    drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const seen = series.map((one) => ({ ...one, points: one.points.filter(([at]) => at >= now - span) }));
    const values = seen.flatMap((one) => one.points.map(([, value]) => value));
    const most = Math.max(...values, 1e-9) * 1.05;
    const labels = values.length ? Array.from({ length: 6 }, (_, n) => tick(+(n * step(most)).toPrecision(3)).length) : [1];
    left = 14 + LETTER * Math.max(...labels);
    const x = (at) => left + (at - now + span) / span * (width - left - RIGHT);
    const y = (value) => HEIGHT - BOTTOM - value / most * (HEIGHT - TOP - BOTTOM);
    const parts = values.length ? axes(most, x, y) : [svg("text", { x: left, y: HEIGHT / 2 }, `nothing in the last ${ago(span)}`)];
    seen.forEach(({ points }, index) => {
      const path = unbroken(points).map((piece) => piece.map(([at, value], n) => `${n ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("")
        + (piece.length > 1 ? "" : "h.01")).join(""); // a point on its own is a dot
      const line = svg("path", { class: "line", d: path, fill: "none", "stroke-width": 2, "stroke-linejoin": "round", "stroke-linecap": "round" });
      line.style.stroke = colour(index);
      parts.push(line);
      const end = pointAt(points);
      if (!end) return;
      const dot = svg("circle", { cx: x(end[0]), cy: y(end[1]), r: 3.5 });
      dot.style.fill = colour(index);
      parts.push(dot);
    });
    if (chosen !== null) parts.push(svg("line", { class: "gridline", x1: x(chosen), x2: x(chosen), y1: TOP, y2: HEIGHT - BOTTOM }));
    fill(drawing, ...parts);
    const says = seen.map((one) => [one.name, show(pointAt(one.points)?.[1] ?? null)]);
    fill(legend, ...says.map(([name, value], index) => {
      const mark = el("i");
      mark.style.background = colour(index);
      return el("span", {}, mark, `${name} `, el("b", {}, value));
    }), chosen === null ? null : el("span", {}, `${seconds(now - chosen)} ago`));
    drawing.setAttribute("aria-label", `${what} over the last ${ago(span)}; now ${says.map((one) => one.join(" ")).join(", ") || "nothing"}`);
  }

  // The last `length` seconds before `moment`, whether or not there is something in them.
  return (given, moment, length) => { [series, now, span] = [given, moment, length]; draw(); };
}

// Lines over time, drawn as SVG. series: [{name, points: [[seconds since 1970, value], …]}], colours by place.

import { el, fill, number, svg } from "./dom.js";

const WIDTH = 560, HEIGHT = 190, LEFT = 48, RIGHT = 10, TOP = 8, BOTTOM = 22;

export const colour = (place) => `var(--s${(place % 8) + 1})`;

// 1, 2 or 5 times a power of ten, so that about four lines fit below `most`
export function step(most) {
  const power = 10 ** Math.floor(Math.log10(most / 4));
  return [1, 2, 5, 10].map((times) => times * power).find((one) => most / one <= 5);
}

// Keeps what it is given; the pointer or the arrow keys choose a moment, whose values the legend shows.
export function lineChart(node, unit, show = number) {
  let series = [];
  let chosen = null;
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", tabindex: "0" });
  const legend = el("div", { class: "legend" });
  fill(node, el("div", { class: "chart" }, drawing), legend);

  const times = () => series.flatMap((one) => one.points.map(([at]) => at));
  drawing.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect();
    const part = ((event.clientX - box.left) / box.width * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT);
    const all = times();
    const first = Math.min(...all), last = Math.max(...all);
    chosen = part < 0 || part > 1 ? null : first + part * (last - first);
    draw();
  });
  drawing.addEventListener("pointerleave", () => { chosen = null; draw(); });
  drawing.addEventListener("blur", () => { chosen = null; draw(); });
  drawing.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!way) return;
    event.preventDefault();
    const all = times();
    const first = Math.min(...all), last = Math.max(...all);
    chosen = Math.min(last, Math.max(first, (chosen ?? last) + way * (last - first) / 30));
    draw();
  });

  function nearest(points) {
    if (chosen === null) return points.at(-1);
    return points.reduce((best, one) => (Math.abs(one[0] - chosen) < Math.abs(best[0] - chosen) ? one : best));
  }

  function draw() {
    const lines = series.filter((one) => one.points.length);
    if (!lines.length) { fill(drawing, svg("text", { x: LEFT, y: HEIGHT / 2 }, "nothing measured yet")); fill(legend); return; }
    const all = times();
    const first = Math.min(...all), last = Math.max(...all, first + 1);
    const most = Math.max(...lines.flatMap((one) => one.points.map(([, value]) => value)), 1e-9) * 1.05;
    const x = (at) => LEFT + (at - first) / (last - first) * (WIDTH - LEFT - RIGHT);
    const y = (value) => HEIGHT - BOTTOM - value / most * (HEIGHT - TOP - BOTTOM);
    const parts = [];
    const by = step(most);
    for (let value = 0; value <= most; value += by) {
      parts.push(svg("line", { class: "gridline", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }));
      parts.push(svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, number(+value.toPrecision(3))));
    }
    parts.push(svg("text", { x: LEFT, y: HEIGHT - 5 }, `${number(Math.round(last - first))} s ago`));
    parts.push(svg("text", { x: WIDTH - RIGHT, y: HEIGHT - 5, "text-anchor": "end" }, "now"));
    series.forEach((one, place) => {
      if (!one.points.length) return;
      const path = one.points.map(([at, value], n) => `${n ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("");
      const line = svg("path", { d: path, fill: "none", "stroke-width": 2, "stroke-linejoin": "round" });
      line.style.stroke = colour(place);
      const end = nearest(one.points);
      const dot = svg("circle", { cx: x(end[0]), cy: y(end[1]), r: 3.5 });
      dot.style.fill = colour(place);
      parts.push(line, dot);
    });
    if (chosen !== null) parts.push(svg("line", { class: "gridline", x1: x(chosen), x2: x(chosen), y1: TOP, y2: HEIGHT - BOTTOM }));
    fill(drawing, ...parts);
    fill(legend, ...series.map((one, place) => {
      const mark = el("i");
      mark.style.background = colour(place);
      const end = one.points.length ? nearest(one.points)[1] : null;
      return el("span", {}, mark, `${one.name} `, el("b", {}, show(end)), ` ${unit}`);
    }));
    const said = lines.map((one) => `${one.name} ${show(one.points.at(-1)[1])} ${unit}`);
    drawing.setAttribute("aria-label", `Over the last ${number(Math.round(last - first))} seconds; now ${said.join(", ")}`);
  }

  return (given) => { series = given; draw(); };
}

// What is drawn on the map: regions, positions, and the answers of the chosen subscriptions.

import { colour } from "./chart.js";

export function painter(canvas, view) {
  const pen = canvas.getContext("2d");
  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const resolved = (index) => ink(colour(index).slice(4, -1));

  function clear() {
    const ratio = window.devicePixelRatio || 1;
    const width = Math.round(canvas.clientWidth * ratio), height = Math.round(canvas.clientHeight * ratio);
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    pen.font = "12px system-ui, 'DejaVu Sans', sans-serif";
  }

  function dot([x, y], size, fill) {
    pen.beginPath();
    pen.arc(x, y, size, 0, 2 * Math.PI);
    pen.fillStyle = fill;
    pen.fill();
  }

  function ring([x, y], size, stroke) {
    pen.beginPath();
    pen.arc(x, y, size, 0, 2 * Math.PI);
    pen.strokeStyle = stroke;
    pen.lineWidth = 2;
    pen.stroke();
  }

  function text(said, [x, y], fill) {
    pen.lineWidth = 4;
    pen.strokeStyle = ink("--field");
    pen.strokeText(said, x, y); // so that it can be read over points
    pen.fillStyle = fill;
    pen.fillText(said, x, y);
  }

  function line(from, to, stroke) {
    pen.beginPath();
    pen.moveTo(...from);
    pen.lineTo(...to);
    pen.strokeStyle = stroke;
    pen.lineWidth = 1.5;
    pen.stroke();
  }

  function frame(low, high, stroke, dashes = []) {
    const [left, bottom] = view.at(low), [right, top] = view.at(high);
    pen.setLineDash(dashes);
    pen.strokeStyle = stroke;
    pen.lineWidth = 1.2;
    pen.strokeRect(left, top, right - left, bottom - top);
    pen.setLineDash([]);
    return [Math.min(left, right), Math.min(top, bottom)];
  }

  function shade(path, paint) {
    path();
    pen.globalAlpha = 0.14;
    pen.fillStyle = paint;
    pen.fill();
    pen.globalAlpha = 1;
    pen.strokeStyle = paint;
    pen.lineWidth = 2;
    pen.stroke();
  }

  // regions: [[x0, y0, x1, y1], …] in the stream's coordinates
  function regions(found) {
    found.forEach(([x0, y0, x1, y1], index) => {
      const [left, top] = frame([x0, y0], [x1, y1], ink("--line"), [5, 4]);
      if (found.length > 1) text(`region ${index + 1}`, [left + 6, top + 16], ink("--soft"));
    });
  }

  function positions(found) {
    const fill = ink("--dot");
    for (let n = found.x.length - 1; n >= 0; n -= 1) dot(view.at([found.x[n], found.y[n]]), found.x.length > 1500 ? 1.4 : 2.6, fill);
  }

  function moving(layer, where) {
    const { asked, rows } = layer.answer;
    const paint = resolved(layer.index);
    const focal = Array.isArray(asked.focal) ? asked.focal : where.get(asked.focal);
    const members = rows.map((row) => where.get(String(row.object)) || [row.x, row.y]);
    if (focal) {
      const [kind, width, height] = asked.shape, here = view.at(focal);
      if (kind === "circle") {
        const [rx, ry] = view.lengths(focal, width);
        shade(() => { pen.beginPath(); pen.ellipse(...here, rx, ry, 0, 0, 2 * Math.PI); }, paint);
      } else if (kind === "box") {
        const [rx] = view.lengths(focal, width / 2), [, ry] = view.lengths(focal, height / 2);
        shade(() => { pen.beginPath(); pen.rect(here[0] - rx, here[1] - ry, 2 * rx, 2 * ry); }, paint);
      } else {
        for (const member of members) line(here, view.at(member), paint);
      }
    }
    for (const member of members) { dot(view.at(member), 4, paint); }
    if (focal) mark(view.at(focal), layer.name, paint);
  }

  function mark(here, name, paint) {
    dot(here, 5, ink("--field"));
    ring(here, 6, paint);
    dot(here, 2.5, paint);
    text(name, [here[0] + 10, here[1] - 9], ink("--ink"));
  }

  function nearest(layer, columns) {
    const { asked, rows } = layer.answer;
    const paint = resolved(layer.index);
    const order = columns.map((name) => asked.by.indexOf(name));
    if (order.includes(-1)) return;
    const point = view.at(order.map((index) => asked.point[index]));
    for (const row of rows) {
      const here = view.at(columns.map((name) => row[name]));
      line(point, here, paint);
      dot(here, 4.5, paint);
    }
    mark(point, layer.name, paint);
  }

  function clusters(layer, columns) {
    const { asked, rows, positions: known } = layer.answer;
    const order = columns.map((name) => asked.by.indexOf(name));
    if (order.includes(-1)) return;
    const of = (point) => order.map((index) => point[index]);
    rows.forEach((row, n) => {
      const paint = resolved(row.cluster % 7); // the eighth is grey, like points in no cluster
      if (row.centre) {
        const [left, top] = frame(of(row.low), of(row.high), paint);
        text(`${row.cores + row.edges}`, [left + 3, top - 4], paint);
        dot(view.at(of(row.centre)), 4, paint);
      } else if (known && known[n]) {
        dot(view.at(known[n]), row.role === "core" ? 3 : 2, paint);
      }
    });
  }

  function scale(names, unit) {
    text(`${names[0]} →`, [canvas.clientWidth - 96, canvas.clientHeight - 10], ink("--soft"));
    text(`↑ ${names[1]}`, [10, 20], ink("--soft"));
    if (unit) text(`distances in ${unit}`, [10, canvas.clientHeight - 10], ink("--soft"));
  }

  return { clear, regions, positions, moving, nearest, clusters, scale };
}

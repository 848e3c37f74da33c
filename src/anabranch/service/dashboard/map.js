// Map: the positions of a stream, and on them the answers of moving, nearest and clusters queries.

import { get, named, send } from "./api.js";
import { colour } from "./chart.js";
import { badge, byId, count, el, every, fill, number, put, settled } from "./dom.js";
import { painter } from "./draw.js";
import { view as viewOf } from "./view.js";

const KINDS = ["moving", "nearest", "clusters"];
const MOST_LAYERS = 20, SHOWN_AT_FIRST = 4;

function regionsOf({ regions, bounds, object }) {
  if (!object || bounds.length !== 2) return [];
  if (Array.isArray(regions[0])) return regions;
  const [columns, rows] = regions, [[left, right], [low, high]] = bounds;
  const width = (right - left) / columns, height = (high - low) / rows;
  return Array.from({ length: columns * rows }, (_, n) => {
    const x = left + (n % columns) * width, y = low + Math.floor(n / columns) * height;
    return [x, y, x + width, y + height];
  });
}

function around({ x, y }) {
  const both = [x, y].map((all) => all.reduce(([low, high], one) => [Math.min(low, one), Math.max(high, one)], [Infinity, -Infinity]));
  return both.map(([low, high]) => { const edge = (high - low) * 0.05 || 1; return [low - edge, high + edge]; });
}

function said({ kind, asked, rows, positions }) {
  if (kind === "moving" && asked.value !== null) return `${asked.value}: ${rows.length ? number(rows.at(-1).value) : "–"}`;
  if (kind === "moving" && asked.shape[0] === "nearest") return `the nearest: ${rows.map((row) => row.object).join(", ") || "nobody"}`;
  if (kind === "moving") return `${count(rows.length, "object")} in range`;
  if (kind === "nearest") return rows.length ? `${count(rows.length, "item")}, up to ${number(Math.max(...rows.map((row) => row.distance)))} away` : "no item yet";
  const clusters = count(new Set(rows.map((row) => row.cluster)).size, "cluster");
  const unknown = positions ? positions.filter((one) => one === null).length : 0;
  return `${clusters}, ${count(rows.length, positions ? "member" : "row")}${unknown ? `; ${number(unknown)} without a known position` : ""}`;
}

// The points that an answer is about, in the coordinates of the stream.
function extent({ kind, asked, rows, positions }, columns, where) {
  if (kind === "moving") {
    const focal = Array.isArray(asked.focal) ? asked.focal : where.get(asked.focal);
    return [focal, ...rows.map((row) => where.get(String(row.object)) || [row.x, row.y])];
  }
  const of = (point) => columns.map((name) => point[asked.by.indexOf(name)]);
  if (kind === "nearest") return [of(asked.point), ...rows.map((row) => columns.map((name) => row[name]))];
  return positions || rows.flatMap((row) => (row.centre ? [of(row.low), of(row.high)] : []));
}

export function map() {
  const canvas = byId("canvas");
  const view = viewOf(canvas), paint = painter(canvas, view);
  let streams = [], stream = null;
  let layers = []; // {name, label, kind, index, shown, answer, text}
  let positions = { subscription: null, names: [], x: [], y: [] };

  const whereabouts = () => new Map(positions.names.map((name, n) => [String(name), [positions.x[n], positions.y[n]]]));

  function draw() {
    if (!stream || !view.ready) return;
    const columns = stream.settings.position.slice(0, 2);
    const where = whereabouts();
    paint.clear();
    paint.regions(regionsOf(stream.settings));
    paint.positions(positions);
    for (const layer of layers.filter((one) => one.shown && one.answer)) {
      if (layer.kind === "moving") { if (layer.answer.asked.value === null) paint.moving(layer, where); }
      else paint[layer.kind](layer, columns);
    }
    paint.scale(view.names(columns), stream.settings.metric === "haversine" ? stream.settings.unit || "km" : "");
  }

  function closeTo(layer) {
    if (!layer.answer || !view.ready) return;
    const points = extent(layer.answer, stream.settings.position.slice(0, 2), whereabouts())
      .filter((point) => point && point.every((one) => Number.isFinite(one)));
    if (points.length > 1) { view.close(points); draw(); }
  }

  function drawLayers() {
    fill(byId("layers"), layers.length ? null : el("p", { class: "note" }, byId("map-search").value ? "Nothing found." : "There are no moving, nearest or clusters queries on this stream yet."),
      ...layers.map((layer) => {
        const box = el("input", { type: "checkbox", onchange: (event) => { layer.shown = event.target.checked; answers.start(); } });
        box.checked = layer.shown;
        const swatch = el("span", { class: "swatch", "aria-hidden": "true" });
        swatch.style.background = layer.kind === "clusters" ? `linear-gradient(90deg, ${[0, 1, 2, 3].map(colour).join(", ")})` : colour(layer.index);
        layer.text = el("p", { class: "note" });
        return el("div", { class: "layer" }, el("label", {}, box, swatch, layer.label), layer.text,
          el("p", { class: "row" }, badge(layer.kind), el("button", { class: "small", "aria-label": `Zoom to ${layer.label}`, onclick: () => closeTo(layer) }, "Zoom to it")), el("p", { class: "query note" }, layer.query));
      }));
  }

  // A search leaves on the map what is shown there. A layer keeps its colour as long as it is listed.
  function replaceLayers(found, search) {
    const known = new Map(layers.map((one) => [one.label, one]));
    const labels = new Set(found.map((one) => one.label));
    const listed = [...(search ? layers.filter((one) => one.shown && !labels.has(one.label)) : []), ...found];
    if (listed.map((one) => one.label).join() === layers.map((one) => one.label).join()) return;
    const taken = new Set(listed.filter((one) => known.has(one.label)).map((one) => known.get(one.label).index));
    const free = Array.from(listed.keys()).filter((index) => !taken.has(index));
    layers = listed.map((one, at) => known.get(one.label)
      || { ...one, index: free.shift(), shown: !search && !known.size && at < SHOWN_AT_FIRST, answer: null });
    drawLayers();
  }

  async function readLayers() {
    const asked = { stream: stream.name, search: byId("map-search").value.trim(), limit: MOST_LAYERS };
    const pages = await Promise.all(KINDS.map((kind) => get("/api/subscriptions", { kind, ...asked })));
    if (asked.stream !== stream.name || asked.search !== byId("map-search").value.trim()) return;
    const found = pages.flatMap((page) => page.subscriptions);
    const more = found.length > MOST_LAYERS || pages.some((page) => page.next !== null);
    put(byId("map-found"), more ? `The first ${MOST_LAYERS}; search to see others.` : "");
    replaceLayers(found.slice(0, MOST_LAYERS), asked.search);
  }

  async function readPositions() {
    positions = await get(named("/api/positions", stream.name), { limit: stream.settings.object ? 5000 : 2000 });
    if (!view.ready && positions.x.length) view.fit(around(positions), stream.settings.position, stream.settings);
    const node = byId("map-positions");
    if (positions.subscription !== null) { fill(node); return; }
    if (node.firstChild) return;
    const shown = [stream.settings.object, stream.settings.id, ...stream.settings.position].filter((one) => one);
    const query = `SELECT ${[...new Set(shown)].join(", ")} FROM ${stream.name}`;
    fill(node, el("p", { class: "note" }, "No subscription selects the positions of this stream, so only results can be drawn. ",
      el("button", { class: "small", onclick: () => follow(query) }, "Register a query for them"), " ", el("code", {}, query)));
  }

  async function follow(query) {
    try {
      await send("POST", "/api/subscriptions", { name: `map-${stream.name}`, query });
      fill(byId("map-positions"), el("p", { class: "note" }, "Registered; the positions come with the next batches."));
    } catch (error) {
      fill(byId("map-positions"), el("p", { class: "error" }, error.message));
    }
  }

  const answers = every(1000, async () => {
    if (!stream) return;
    const chosen = stream;
    await Promise.all([readPositions().then(draw), ...layers.filter((one) => one.shown).map(async (layer) => {
      const answer = await get(named("/api/answers", layer.label));
      if (!answer.more) layer.answer = answer; // or what came long ago is still being read
      put(layer.text, layer.answer ? said(layer.answer) : "reading what came before …");
    })]);
    if (chosen !== stream) return;
    if (!view.ready && stream.settings.bounds.length === 2) view.fit(stream.settings.bounds, stream.settings.position, stream.settings);
    draw();
  });
  const lists = every(5000, async () => { if (stream) await readLayers(); });

  async function choose(name) {
    stream = streams.find((one) => one.name === name) || null;
    layers = [];
    byId("map-search").value = "";
    positions = { subscription: null, names: [], x: [], y: [] };
    fill(byId("map-positions"));
    paint.clear();
    view.forget();
    if (!stream) return;
    if (stream.settings.bounds.length === 2) view.fit(stream.settings.bounds, stream.settings.position, stream.settings);
    await readLayers().catch(() => {});
    drawLayers();
    answers.start();
    lists.start();
  }

  const acts = {
    "+": () => view.zoom(1.4), "=": () => view.zoom(1.4), "-": () => view.zoom(1 / 1.4), 0: () => view.whole(),
    ArrowLeft: () => view.move(-1, 0), ArrowRight: () => view.move(1, 0), ArrowUp: () => view.move(0, 1), ArrowDown: () => view.move(0, -1),
  };
  const act = (key) => { if (view.ready) { acts[key](); draw(); } };
  canvas.addEventListener("keydown", (event) => { if (event.key in acts) { event.preventDefault(); act(event.key); } });
  canvas.addEventListener("wheel", (event) => { if (event.ctrlKey || document.activeElement === canvas) { event.preventDefault(); act(event.deltaY < 0 ? "+" : "-"); } }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => canvas.setPointerCapture(event.pointerId));
  canvas.addEventListener("pointermove", (event) => { if (event.buttons && view.ready) { view.drag(event.movementX, event.movementY); draw(); } });
  byId("zoom-in").addEventListener("click", () => act("+"));
  byId("zoom-out").addEventListener("click", () => act("-"));
  byId("zoom-fit").addEventListener("click", () => act("0"));
  byId("map-search").addEventListener("input", settled(250, () => lists.start()));
  byId("map-stream").addEventListener("change", (event) => choose(event.target.value));
  new ResizeObserver(draw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

  return {
    async show() {
      streams = (await get("/api/streams")).filter((one) => one.settings.position.length >= 2);
      put(byId("map-note"), streams.length ? "" : "No stream declares a position.");
      const wanted = stream ? stream.name : (streams.find((one) => one.settings.object) || streams[0] || {}).name;
      fill(byId("map-stream"), ...streams.map((one) => el("option", { value: one.name }, one.name)));
      byId("map-stream").value = wanted || "";
      if (stream && stream.name === wanted) { answers.start(); lists.start(); } else await choose(wanted);
    },
    hide() { answers.stop(); lists.stop(); },
  };
}

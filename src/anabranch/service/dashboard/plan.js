// Plan: who shares what with whom, as boxes; and the network of sites with its load in green, orange and red.
// The service folds what is too much to draw; what is opened here is asked for by its key.

import { get } from "./api.js";
import { byId, bytes, count, el, every, fill, number, put, settled, svg, table } from "./dom.js";
import { layout } from "./layout.js";

const NARROW = 700; // below this width boxes stand under each other, indented
const BOX = { widest: 262, narrowest: 210, height: 62, across: 44, down: 12, indent: 18 };
const SUGGESTIONS = 20;

const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const percent = (part) => (part >= 10 ? `${number(Math.round(part))} ×` : `${number(+(100 * part).toFixed(part < 0.1 ? 1 : 0))} %`);

// A condition in few letters, without what the one above it says already: "dec -49 … -40, and en >= 5".
function brief(text, above) {
  if (/ or /.test(text)) return text;
  const known = above && !/ or /.test(above) ? above.split(" and ") : [];
  const parts = text.split(" and ").filter((one) => !known.includes(one));
  const bound = (one, sign) => one.match(new RegExp(`^(\\S+) ${sign} (-?[\\d.]+?)(?:\\.0)?$`));
  const out = [];
  for (let n = 0; n < parts.length; n += 1) {
    const low = bound(parts[n], ">="), high = parts[n + 1] && bound(parts[n + 1], "<=");
    if (low && high && low[1] === high[1]) { out.push(`${low[1]} ${low[2]} … ${high[2]}`); n += 1; } else out.push(parts[n].replace(/\.0$/, ""));
  }
  return `${known.length && out.length ? "and " : ""}${out.join(", ") || text}`;
}

// "0.4 %", or "0.1 to 3.7 %" of conditions that differ
function share({ low, high }) {
  if (low === null) return "";
  const [least, most] = [percent(low / 1000), percent(high / 1000)];
  return least === most ? most : `${least.slice(0, -2)} to ${most}`;
}

const isFilter = (box) => box.family === "filters";
const what = (box) => (isFilter(box) || !box.family ? box.title : `${box.family} ${box.title}`);
const folded = (box) => count(box.folded, isFilter(box) ? "selection" : `${box.family} group`);

// All that is known of a box, in words.
function described(box) {
  const names = box.names.length ? `: ${box.names.join(", ")}${box.subscriptions > box.names.length ? " …" : ""}` : "";
  if (box.parent === null) return `${box.title}: the stream itself, every item. ${count(box.subscriptions, "subscription")}`;
  const passes = box.low === null ? "" : ` ${share(box)} of the items pass.`;
  if (!box.folded) return `${what(box)}.${passes} Needed by ${count(box.subscriptions, "subscription")}${names}`;
  const below = box.below ? `, and ${number(box.below)} below them` : "";
  return `${folded(box)}, folded${below}.${passes} Needed by ${count(box.subscriptions, "subscription")}${names}. Choose the box to open it.`;
}

// Where the boxes stand: {key -> {x, y, width}}, and the size of the drawing. The stream is at the top left. On a
// wide screen children stand to the right of their parent, on a narrow one below it.
function arranged(boxes, room) {
  const children = new Map();
  for (const box of boxes) children.set(box.parent, [...(children.get(box.parent) || []), box]);
  const narrow = room < NARROW;
  const levels = new Map([[null, -1]]);
  for (const box of boxes) levels.set(box.key, levels.get(box.parent) + 1);
  const columns = Math.max(...levels.values()) + 1;
  const fitting = Math.floor((room - 8 - (columns - 1) * BOX.across) / columns); // so that all columns are seen
  const wide = Math.max(BOX.narrowest, Math.min(BOX.widest, fitting));
  const at = new Map();
  let row = 0, right = 0;
  const open = [boxes[0]];
  while (open.length) {
    const box = open.pop();
    const below = children.get(box.key) || [];
    const x = 2 + levels.get(box.key) * (narrow ? BOX.indent : wide + BOX.across);
    const width = narrow ? Math.max(BOX.narrowest, room - 8 - x) : wide;
    at.set(box.key, { x, y: 4 + row * (BOX.height + BOX.down), width });
    right = Math.max(right, x + width);
    if (narrow || !below.length) row += 1;
    open.push(...below.reverse());
  }
  return { at, narrow, width: right + 6, height: 4 + row * (BOX.height + BOX.down) };
}

function edge(box, from, to, narrow) {
  const middle = to.y + BOX.height / 2;
  const x1 = from.x + from.width, y1 = from.y + BOX.height / 2, bend = BOX.across / 2;
  const path = narrow ? `M${from.x + 8} ${from.y + BOX.height}V${middle}H${to.x}`
    : `M${x1} ${y1}C${x1 + bend} ${y1} ${to.x - bend} ${middle} ${to.x} ${middle}`;
  const thick = (1 + 5 * (box.low || 0) / 1000).toFixed(1);
  return svg("path", { class: `edge${box.on_way ? " on-way" : ""}`, "stroke-width": thick, d: path });
}

// `choose` is called with a box that is clicked, or chosen by Enter or the space bar.
function drawBox(box, above, { x, y, width }, choose, tell) {
  const letters = Math.floor((width - 24) / 7.2);
  const each = `${box.folded ? " of the items" : ""}${box.folded > 1 ? " each" : ""}`;
  const passes = box.parent === null ? "every item" : box.low === null ? "" : `${share(box)}${each}`;
  const title = box.folded ? `+ ${folded(box)}` : isFilter(box) ? brief(box.title, above.family ? above.title : "") : what(box);
  const names = box.parent === null ? count(box.subscriptions, "subscription") : `${box.subscriptions > 1 ? `${number(box.subscriptions)}: ` : ""}${box.names.join(", ")}`;
  const left = box.folded ? "" : short(names, letters - passes.length - 1);
  const bar = svg("rect", { class: "bar", x: 12, y: BOX.height - 10, width: Math.max(2, (width - 24) * Math.min(1, (box.high || 0) / 1000)), height: 4, rx: 2 });
  bar.style.fill = `var(--${isFilter(box) ? "select" : box.family || "dot"})`;
  const kind = box.folded ? " folded" : box.parent === null ? " source" : "";
  return svg("g", {
    class: `node${kind}${box.on_way ? " on-way" : ""}`, transform: `translate(${x} ${y})`, tabindex: "0", role: "button", "data-key": box.key,
    "aria-label": described(box), onclick: () => choose(box), onfocus: () => tell(box),
    onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(box); } },
  },
  box.folded ? svg("rect", { class: "behind", x: 5, y: 5, width, height: BOX.height, rx: 8 }) : null,
  svg("rect", { class: "box", width, height: BOX.height, rx: 8 }),
  svg("text", { class: "strong", x: 12, y: 21 }, short(title, letters)),
  svg("text", { x: 12, y: 41 }, box.folded ? passes : left),
  box.folded ? null : svg("text", { x: width - 12, y: 41, "text-anchor": "end" }, passes), bar);
}

function drawBoxes(page, room, choose, tell) {
  const byKey = new Map(page.boxes.map((box) => [box.key, box]));
  const { at, narrow, width, height } = arranged(page.boxes, room);
  const below = page.boxes.slice(1).sort((one, other) => one.on_way - other.on_way); // the way lies on top
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": `Shared streams of ${page.stream}` },
    ...below.map((box) => edge(box, at.get(box.parent), at.get(box.key), narrow)),
    ...page.boxes.map((box) => drawBox(box, byKey.get(box.parent), at.get(box.key), choose, tell)));
}

const level = (part) => (part < 0.5 ? "good" : part < 0.8 ? "busy" : "over");

function drawNetwork(network) {
  const width = 560, height = network.sites.length > 1 ? 420 : 150;
  const at = layout(network.sites.map((one) => one.name), network.links.map((one) => one.ends), width, height, 60);
  const links = network.links.flatMap((link) => {
    const [from, to] = link.ends.map((name) => at.get(name));
    const line = svg("line", { x1: from[0], y1: from[1], x2: to[0], y2: to[1], "stroke-width": 2 + 6 * Math.min(1, link.part) });
    line.style.stroke = link.traffic ? `var(--${level(link.part)})` : "var(--line)";
    const said = svg("text", { x: (from[0] + to[0]) / 2, y: (from[1] + to[1]) / 2 + 4, "text-anchor": "middle" }, link.traffic ? percent(link.part) : "");
    return [line, said];
  });
  const sites = network.sites.flatMap((site) => {
    const [x, y] = at.get(site.name);
    const disc = svg("circle", { cx: x, cy: y, r: 27, "stroke-width": 4 });
    disc.style.fill = "var(--card)";
    disc.style.stroke = `var(--${level(site.part)})`;
    return [disc, svg("text", { class: "strong", x, y: y - 2, "text-anchor": "middle" }, short(site.name, 8)),
      svg("text", { x, y: y + 13, "text-anchor": "middle" }, percent(site.part)),
      svg("text", { x, y: y + 43, "text-anchor": "middle" }, site.streams.length ? `⇐ ${short(site.streams.join(", "), 24)}` : "")];
  });
  const worst = Math.max(0, ...network.sites.map((one) => one.part), ...network.links.map((one) => one.part));
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${count(network.sites.length, "site")}, ${count(network.links.length, "link")}; the fullest at ${percent(worst)}` }, ...links, ...sites);
}

const load = (part) => el("span", { class: `level ${level(part)}` }, percent(part));

export function plan() {
  let page = null, drawn = ""; // what is shown, and the same as text
  let opened = {}; // key -> how many to draw
  let found = ""; // the subscription whose way is shown
  let width = 0;

  const tell = (box) => put(byId("plan-chosen"), described(box));

  function choose(box) {
    tell(box);
    if (!box.folded) return;
    opened[box.key] = box.opens;
    read().catch((error) => put(byId("plan-chosen"), error.message));
  }

  function draw() {
    const stream = byId("plan-stream"), dag = byId("dag");
    fill(stream, ...page.streams.map((one) => el("option", { value: one.name }, `${one.name} (${number(one.subscriptions)})`)));
    stream.value = page.stream;
    width = dag.clientWidth;
    const focus = dag.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    fill(dag, page.boxes.length ? drawBoxes(page, width, choose, tell) : el("p", { class: "note" }, "There are no subscriptions yet."));
    if (focus !== null) dag.querySelector(`[data-key="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
    fill(byId("plan-summary"), ...page.summary.map((line) => el("li", {}, line)));
    byId("plan-fold").hidden = !Object.keys(opened).length && !found;
    drawWay();
  }

  // The way in words, one condition per line.
  function drawWay() {
    const byKey = new Map(page.boxes.map((box) => [box.key, box]));
    const steps = page.way.map((key) => byKey.get(key));
    const lines = steps.map((box, index) => `${isFilter(box) ? brief(box.title, steps[index - 1]?.title || "") : what(box)}${box.low === null ? "" : ` (${share(box)} of the items)`}`);
    fill(byId("plan-way"), ...(steps.length ? [`The way to ${found}: `, el("b", {}, page.stream), ...lines.map((line) => ` → ${line}`)] : []));
  }

  async function read() {
    const asked = [found, byId("plan-stream").value, opened];
    const open = Object.entries(opened).map(([key, many]) => `${key}:${many}`);
    const next = await get("/api/plan/boxes", { stream: asked[1], way: found, open });
    if (asked[0] !== found || asked[2] !== opened) return; // something else is wanted meanwhile
    const text = JSON.stringify(next);
    if (text === drawn && width === byId("dag").clientWidth) return;
    [page, drawn] = [next, text];
    draw();
  }

  async function readNetwork() {
    const network = await get("/api/network");
    fill(byId("network"), drawNetwork(network));
    fill(byId("network-basis"), ...network.basis.map((line) => el("li", {}, line)));
    table(byId("sites"), ["Site or link", "Load", "of", "Makes", "Read by"], [
      ...network.sites.map((one) => [one.name, load(one.part), `${number(one.capacity)} CPU`, one.makes, one.readers]),
      ...network.links.sort((one, other) => other.part - one.part).map((one) => [one.ends.join(" – "), load(one.part), `${bytes(one.bandwidth)}/s`, "", ""]),
    ]);
  }

  async function look() {
    try {
      await Promise.all([read(), readNetwork()]);
    } catch (error) {
      if (error.status === 404 && found) { put(byId("plan-chosen"), error.message); return; } // it was cancelled
      if (error.status !== 403) throw error;
      for (const id of ["dag", "network"]) fill(byId(id), el("p", { class: "note" }, "This shows everybody's queries: it needs a token of role viewer or admin."));
    }
  }

  // --- finding a subscription

  async function suggest() {
    const text = byId("plan-name").value.trim();
    if (!text) return [];
    const { subscriptions } = await get("/api/subscriptions", { search: text, limit: SUGGESTIONS });
    const named = (one) => one.name.toLowerCase().includes(text.toLowerCase());
    const names = [...subscriptions.filter(named), ...subscriptions.filter((one) => !named(one))].map((one) => one.name);
    fill(byId("plan-names"), ...names.map((name) => el("option", { value: name })));
    return names;
  }

  async function find(event) {
    event.preventDefault();
    const wanted = byId("plan-name").value.trim();
    const names = await suggest();
    const before = found;
    found = wanted && !names.includes(wanted) && names.length ? names[0] : wanted;
    opened = {};
    try {
      await read();
      byId("dag").querySelector('[data-key="' + CSS.escape(page.way.at(-1) ?? "") + '"]')?.scrollIntoView({ block: "nearest", inline: "nearest" });
      put(byId("plan-chosen"), "");
    } catch (error) {
      found = before;
      put(byId("plan-chosen"), error.message);
    }
  }

  function fold() {
    [opened, found] = [{}, ""];
    byId("plan-name").value = "";
    put(byId("plan-chosen"), "");
    repeated.start();
  }

  const repeated = every(10000, look);
  byId("plan-stream").addEventListener("change", fold);
  byId("plan-fold").addEventListener("click", fold);
  byId("plan-find").addEventListener("submit", find);
  byId("plan-name").addEventListener("input", settled(250, () => (byId("plan-name").value ? suggest() : fold())));
  new ResizeObserver(() => { if (page && byId("dag").clientWidth && byId("dag").clientWidth !== width) draw(); }).observe(byId("dag"));
  return { show: () => repeated.start(), hide: () => repeated.stop() };
}

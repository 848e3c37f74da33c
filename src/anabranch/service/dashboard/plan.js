// Plan: the sharing DAG, and the network of sites with its load in green, orange and red.

import { get } from "./api.js";
import { byId, bytes, count, el, every, fill, number, put, svg, table } from "./dom.js";
import { layout } from "./layout.js";

const WIDTH = 230, HEIGHT = 62, ACROSS = 64, DOWN = 12, MOST = 60;

const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

// A condition in few letters, without what the one above it says already: "dec -49 … -40, and en >= 5".
function brief(text, above) {
  if (/ or /.test(text)) return text;
  const known = above && !/ or /.test(above.shared) ? above.shared.split(" and ") : [];
  const parts = text.split(" and ").filter((one) => !known.includes(one));
  const bound = (one, sign) => one.match(new RegExp(`^(\\S+) ${sign} (-?[\\d.]+?)(?:\\.0)?$`));
  const out = [];
  for (let n = 0; n < parts.length; n += 1) {
    const low = bound(parts[n], ">="), high = parts[n + 1] && bound(parts[n + 1], "<=");
    if (low && high && low[1] === high[1]) { out.push(`${low[1]} ${low[2]} … ${high[2]}`); n += 1; } else out.push(parts[n].replace(/\.0$/, ""));
  }
  return `${known.length && out.length ? "and " : ""}${out.join(", ") || text}`;
}

// Places for a forest, parents to the left of their children: {node -> [column, row]}, leaves one below the other.
function placed(nodes) {
  const children = new Map();
  for (const node of nodes) children.set(node.parent, [...(children.get(node.parent) || []), node]);
  const places = new Map();
  let row = 0;
  function put(node, column) {
    const below = children.get(node.group) || [];
    const rows = below.map((child) => put(child, column + 1));
    const mine = below.length ? (rows[0] + rows.at(-1)) / 2 : row++;
    places.set(node, [column, mine]);
    return mine;
  }
  const roots = (children.get(null) || []).map((node) => put(node, 1));
  return { places, rows: row, middle: roots.length ? (roots[0] + roots.at(-1)) / 2 : 0 };
}

// Every family reads the stream; of a large plan the groups that are asked most, and those above them.
function chosenOf(groups) {
  if (groups.length <= MOST) return groups;
  const byNumber = new Map(groups.map((one) => [one.group, one]));
  const kept = new Set();
  for (const one of [...groups].sort((a, b) => b.subscriptions.length - a.subscriptions.length)) {
    if (kept.size >= MOST) break;
    for (let up = one; up; up = byNumber.get(up.parent)) kept.add(up);
  }
  return groups.filter((one) => kept.has(one));
}

function drawDag(stream, groups, tell) {
  const shown = chosenOf(groups);
  const { places, rows, middle } = placed(shown);
  const x = (column) => 4 + column * (WIDTH + ACROSS), y = (row) => 4 + row * (HEIGHT + DOWN);
  const columns = Math.max(1, ...[...places.values()].map(([column]) => column));
  const root = { column: 0, row: middle };
  const edges = [], boxes = [];
  const byNumber = new Map(shown.map((one) => [one.group, one]));
  const box = (column, row, kind, title, ...inside) => svg("g",
    { class: `node ${kind}`, transform: `translate(${x(column)} ${y(row)})`, tabindex: "0", role: "button", "aria-label": title,
      onclick: () => tell(title), onfocus: () => tell(title) },
    svg("rect", { class: "box", width: WIDTH, height: HEIGHT, rx: 8 }), ...inside);
  boxes.push(box(0, root.row, "source", `${stream}: the stream itself, every item`,
    svg("text", { class: "strong", x: 12, y: 26 }, stream), svg("text", { x: 12, y: 46 }, "1,000 items")));
  for (const group of shown) {
    const [column, row] = places.get(group);
    const above = byNumber.get(group.parent);
    const [fromColumn, fromRow] = above ? places.get(above) : [root.column, root.row];
    const x1 = x(fromColumn) + WIDTH, y1 = y(fromRow) + HEIGHT / 2, x2 = x(column), y2 = y(row) + HEIGHT / 2;
    edges.push(svg("path", { class: "edge", "stroke-width": (1 + 5 * group.rows / 1000).toFixed(1), d: `M${x1} ${y1}C${x1 + ACROSS / 2} ${y1} ${x2 - ACROSS / 2} ${y2} ${x2} ${y2}` }));
    const names = group.subscriptions.map((one) => one.name);
    const what = group.family === "filters" ? group.shared : `${group.family} ${group.shared}`;
    const cost = group.cpu_us === null ? "" : `, ${number(Math.round(group.cpu_us))} µs`;
    const bar = svg("rect", { x: 12, y: HEIGHT - 10, width: Math.max(2, (WIDTH - 24) * Math.min(1, group.rows / 1000)), height: 4, rx: 2 });
    bar.style.fill = `var(--${group.family === "filters" ? "select" : group.family})`;
    bar.style.stroke = "none";
    boxes.push(box(column, row, "", `${what}. ${number(Math.round(group.rows))} of 1,000 items${cost}. Asked by ${count(names.length, "subscription")}: ${names.slice(0, 30).join(", ")}${names.length > 30 ? " …" : ""}`,
      svg("text", { class: "strong", x: 12, y: 20 }, short(group.family === "filters" ? brief(what, above) : what, 29)),
      svg("text", { x: 12, y: 39 }, short(`${names.length > 1 ? `${names.length}: ` : ""}${names.join(", ")}`, 35)), bar));
  }
  const width = x(columns) + WIDTH + 4, height = y(Math.max(rows - 1, root.row)) + HEIGHT + 4;
  const hidden = groups.length - shown.length;
  return [svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": `Shared streams of ${stream}` }, ...edges, ...boxes),
    hidden ? el("p", { class: "note" }, `${number(hidden)} more that fewer ask for are not drawn.`) : null];
}

const level = (part) => (part < 0.5 ? "good" : part < 0.8 ? "busy" : "over");
const percent = (part) => `${number(+(100 * part).toFixed(part < 0.1 ? 1 : 0))} %`;

function drawNetwork(network) {
  const width = 560, height = 420;
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

function told(part) {
  return el("span", { class: `level ${level(part)}` }, percent(part));
}

export function plan() {
  let found = null;
  let drawn = "";

  function draw() {
    const node = byId("plan-stream");
    const streams = [...new Set(found.groups.map((one) => one.stream))];
    const wanted = streams.includes(node.value) ? node.value : streams[0];
    fill(node, ...streams.map((one) => el("option", { value: one }, one)));
    if (wanted) node.value = wanted;
    const tell = (text) => put(byId("plan-chosen"), text);
    fill(byId("dag"), ...(wanted ? drawDag(wanted, found.groups.filter((one) => one.stream === wanted), tell) : [el("p", { class: "note" }, "There are no subscriptions yet.")]));
    fill(byId("plan-summary"), ...found.summary.map((line) => el("li", {}, line)));
  }

  async function read() {
    try {
      const plan = await get("/api/plan");
      if (JSON.stringify(plan) !== drawn) { found = plan; drawn = JSON.stringify(plan); draw(); }
      const network = await get("/api/network");
      fill(byId("network"), drawNetwork(network));
      fill(byId("network-basis"), ...network.basis.map((line) => el("li", {}, line)));
      table(byId("sites"), ["Site or link", "Load", "of", "Makes", "Read by"], [
        ...network.sites.map((one) => [one.name, told(one.part), `${number(one.capacity)} CPU`, one.makes, one.readers]),
        ...network.links.sort((one, other) => other.part - one.part).map((one) => [one.ends.join(" – "), told(one.part), `${bytes(one.bandwidth)}/s`, "", ""]),
      ]);
    } catch (error) {
      if (error.status !== 403) throw error;
      for (const id of ["dag", "network"]) fill(byId(id), el("p", { class: "note" }, "This shows everybody's queries: it needs a token of role viewer or admin."));
    }
  }

  const look = every(10000, read);
  byId("plan-stream").addEventListener("change", draw);
  return { show: () => look.start(), hide: () => look.stop() };
}

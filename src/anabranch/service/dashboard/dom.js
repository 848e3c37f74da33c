// Elements and numbers. Whatever comes from users or data becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

// el("button", {class: "x", onclick: f, "aria-label": "…"}, "text", child, …)
export function el(tag, given = {}, ...children) {
  return made(document.createElement(tag), given, children);
}

export function svg(tag, given = {}, ...children) {
  return made(document.createElementNS(SVG, tag), given, children);
}

function made(node, given, children) {
  for (const [name, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function fill(node, ...children) {
  node.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
}

export function put(node, text) {
  if (node.textContent !== text) node.textContent = text; // or a screen reader hears it again and again
}

// 1234567 -> "1,234,567"; 12.345 -> "12.3"; 0.01234 -> "0.0123"
export function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  const digits = Number.isInteger(value) || size >= 1000 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 4;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) { value /= 1000; unit += 1; }
  return `${number(value)} ${units[unit]}`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 5400) return `${number(value / 3600)} h`;
  if (value >= 90) return `${number(value / 60)} min`;
  return value < 1 ? `${Math.round(value * 1000)} ms` : `${number(value)} s`;
}

export function count(many, what) {
  return `${number(many)} ${what}${many === 1 ? "" : "s"}`;
}

export function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : String(+value.toPrecision(7));
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export const badge = (kind) => el("span", { class: `kind ${kind}` }, kind);

// Rows of texts, numbers and elements, below their heads.
export function table(node, heads, rows, caption = null) {
  fill(
    node,
    caption && el("caption", {}, caption),
    el("thead", {}, el("tr", {}, ...heads.map((head, index) =>
      el("th", { scope: "col", class: typeof rows[0]?.[index] === "number" ? "num" : null }, head)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((one) =>
      one instanceof Node ? el("td", {}, one) : el("td", { class: typeof one === "number" ? "num" : null },
        typeof one === "number" ? number(one) : one))))),
  );
}

// Waits until nothing was typed for a while.
export function settled(milliseconds, then) {
  let timer = null;
  return () => { clearTimeout(timer); timer = setTimeout(then, milliseconds); };
}

// Calls `look` at once and then every so many milliseconds (a number, or a function that says so) while it is
// started; never twice at a time.
export function every(milliseconds, look) {
  let timer = null;
  let run = 0;
  async function turn(mine) {
    try { await look(); } catch (error) { if (error.name !== "AbortError") console.warn(error.message); }
    if (mine === run) timer = setTimeout(turn, typeof milliseconds === "function" ? milliseconds() : milliseconds, mine);
  }
  return {
    start() { run += 1; clearTimeout(timer); turn(run); },
    stop() { run += 1; clearTimeout(timer); },
  };
}

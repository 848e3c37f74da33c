// Subscriptions: register with live checking, search, cancel, watch.

import { get, named, send } from "./api.js";
import { badge, byId, count, el, every, fill, number, put, settled } from "./dom.js";
import { examples } from "./examples.js";
import { watcher } from "./watch.js";

const KINDS = ["select", "aggregate", "nearest", "clusters", "moving"];
const PAGE = 20;

export function subscriptions() {
  const watch = watcher();
  const query = byId("query"), name = byId("name"), checked = byId("checked");
  let checking = null;
  let offered = [];
  let role = "admin";
  let pages = 1;

  // --- asking

  async function check() {
    if (checking) checking.abort();
    const text = query.value;
    if (!text.trim()) { say("", ""); return; }
    checking = new AbortController();
    try {
      const found = await send("POST", "/api/check", { query: text }, checking.signal);
      const columns = found.columns.map((one) => one.name).join(", ");
      say("fine", `✓ ${found.kind} over ${found.stream}. Results: ${columns}`);
    } catch (error) {
      if (error.name === "Refused") say("wrong", error.message, error.place ? error.text : "");
    }
  }

  function say(how, message, text = "") {
    checked.className = `checked ${how}`;
    query.setAttribute("aria-invalid", String(how === "wrong"));
    const [, ...shown] = text.startsWith(message) ? text.slice(message.length).split("\n") : ["", text];
    fill(checked, message, shown.join("\n").trim() ? el("pre", {}, shown.join("\n")) : null);
  }

  async function register(event) {
    event.preventDefault();
    const note = byId("registered");
    try {
      const made = await send("POST", "/api/subscriptions", { name: name.value.trim(), query: query.value });
      note.className = "note";
      put(note, `${made.name} is registered; its first results come with the next batches.`);
      watch.watch(made);
      list.start();
    } catch (error) {
      note.className = "error";
      put(note, error.message);
    }
  }

  function choose() {
    const chosen = offered[byId("example").value];
    if (!chosen) return;
    query.value = chosen.query;
    name.value = chosen.name;
    check();
  }

  async function offer() {
    offered = examples(await get("/api/streams"));
    fill(byId("example"), el("option", { value: "" }, "choose one"),
      ...offered.map((one, index) => el("option", { value: String(index) }, one.title)));
  }

  // --- the list

  async function cancel(entry) {
    if (!window.confirm(`Cancel ${entry.name}? Its results stay.`)) return;
    try {
      await send("DELETE", named("/api/subscriptions", entry.label));
    } catch (error) {
      put(byId("found"), error.message);
      return;
    }
    list.start();
  }

  function line(entry) {
    const button = (text, action) => el("button", { type: "button", class: "small", onclick: action, "aria-label": `${text} ${entry.name}` }, text);
    const may = entry.state === "active" && role !== "viewer";
    return el("tr", { "data-name": entry.name },
      el("td", {}, el("b", {}, entry.label)),
      el("td", {}, badge(entry.kind), entry.state === "active" ? null : " ", entry.state === "active" ? null : badge(entry.state)),
      el("td", { "data-label": "Stream" }, entry.stream),
      el("td", {}, el("code", {}, entry.query)),
      el("td", { "data-label": "Results" }, number(entry.results)),
      el("td", {}, el("span", { class: "buttons" }, button("Watch", () => watch.watch(entry)), may ? button("Cancel", () => cancel(entry)) : null)));
  }

  async function show() {
    const wanted = { search: byId("search").value.trim(), kind: byId("kind").value, all: byId("every").checked, counts: true, limit: PAGE * pages };
    const page = await get("/api/subscriptions", wanted);
    const held = document.activeElement;
    const label = held && byId("list").contains(held) ? held.getAttribute("aria-label") : null;
    fill(byId("list"),
      el("thead", {}, el("tr", {}, ...["Name", "Kind", "Stream", "Query", "Results", ""].map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, ...page.subscriptions.map(line)));
    if (label) [...byId("list").querySelectorAll("button")].find((one) => one.getAttribute("aria-label") === label)?.focus();
    put(byId("found"), page.subscriptions.length ? page.next ? `the first ${number(page.subscriptions.length)}; search to see others` : count(page.subscriptions.length, "subscription") : "none found");
    byId("more").hidden = page.next === null;
  }

  const list = every(3000, show);
  const again = settled(250, () => { pages = 1; list.start(); });
  fill(byId("kind"), el("option", { value: "" }, "all"), ...KINDS.map((kind) => el("option", { value: kind }, kind)));
  byId("search").addEventListener("input", again);
  byId("kind").addEventListener("change", again);
  byId("every").addEventListener("change", again);
  byId("more").addEventListener("click", () => { pages += 1; list.start(); });
  byId("example").addEventListener("change", choose);
  byId("ask").addEventListener("submit", register);
  query.addEventListener("input", settled(250, check));

  return {
    async show() {
      list.start();
      watch.show();
      await offer().catch(() => {});
      role = (await get("/api/caller").catch(() => ({ role }))).role;
      byId("register").disabled = role === "viewer";
      byId("register").title = role === "viewer" ? "A token of role viewer changes nothing" : "";
    },
    hide() { list.stop(); watch.hide(); },
  };
}

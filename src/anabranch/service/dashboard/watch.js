// One subscription's results as they come, and its answer as it stands.

import { get, listen, named } from "./api.js";
import { badge, byId, cell, count, el, every, fill, number, put } from "./dom.js";

const SHOWN = 40; // rows of a table
const FRESH_MS = 1500; // how long a new row is marked

// An answer that changes has a state; of the others only the rows that come say something.
const stands = (answer) => answer.kind === "nearest" || (answer.kind === "moving" && answer.asked.value === null)
  || (answer.kind === "clusters" && answer.asked.emit !== "changes");

function rowsTable(rows, caption, fresh = 0) {
  const heads = rows.length ? Object.keys(rows[0]) : [];
  return el("table", {}, el("caption", {}, caption),
    el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, ...rows.slice(0, SHOWN).map((row, index) =>
      el("tr", { class: index < fresh ? "fresh" : null }, ...heads.map((head) => el("td", {}, cell(row[head])))))));
}

function clusters(rows) {
  const sizes = new Map();
  for (const row of rows) sizes.set(row.cluster, (sizes.get(row.cluster) || 0) + 1);
  return [...sizes].map(([cluster, members]) => ({ cluster, members })).sort((one, other) => other.members - one.members);
}

export function watcher() {
  let entry = null;
  let connection = null;
  let rows = []; // the newest first
  let heard = 0, fresh = 0;
  let ended = false;
  let nodes = null;

  // The text that is read out changes seldom, the tables often.
  const drawing = every(500, async () => {
    if (!nodes) return;
    fill(nodes.coming, rows.length ? rowsTable(rows, "Results as they come, the newest first", fresh) : el("p", { class: "note" }, "Waiting for the first result …"));
    if (fresh) setTimeout((before) => { fresh = Math.max(0, fresh - before); }, FRESH_MS, fresh);
  });
  const counting = every(2000, async () => {
    if (nodes) put(nodes.status, `${count(heard, "result row")} since you watch${ended ? "; the stream has ended" : ""}`);
  });
  const standing = every(1000, async () => {
    if (!entry || !nodes) return;
    const answer = await get(named("/api/answers", entry.label));
    if (!stands(answer)) { fill(nodes.answer); standing.stop(); return; }
    if (answer.more) { fill(nodes.answer, el("p", { class: "note" }, "Reading what came before …")); return; }
    const shown = answer.kind === "clusters" && answer.asked.emit === "members" ? clusters(answer.rows) : answer.rows.map(({ op, ...row }) => row).reverse();
    const what = answer.kind === "clusters" ? `the last window: ${count(new Set(answer.rows.map((row) => row.cluster)).size, "cluster")}`
      : `${number(answer.rows.length)} in it`;
    fill(nodes.answer, shown.length ? rowsTable(shown, `The answer now, ${what}`) : el("p", { class: "note" }, "The answer now: nobody is in it."));
  });

  async function follow() {
    const mine = connection = new AbortController();
    const answer = await get(named("/api/answers", entry.label));
    if (mine.signal.aborted) return;
    if (!stands(answer)) rows = [...answer.rows].reverse();
    for await (const event of listen(named("/api/events", entry.label), answer.next, mine.signal)) {
      if (event.event === "end") { ended = true; break; }
      rows.unshift(JSON.parse(event.data));
      rows.length = Math.min(rows.length, SHOWN);
      heard += 1;
      fresh = Math.min(SHOWN, fresh + 1);
    }
  }

  function open() {
    nodes = { status: el("p", { class: "note", role: "status" }), answer: el("div", { class: "results", tabindex: "0" }), coming: el("div", { class: "results", tabindex: "0" }) };
    put(byId("watch-title"), `Watch ${entry.label}`);
    fill(byId("watched"),
      el("div", { class: "facts" }, badge(entry.kind), el("span", { class: "query" }, entry.query)),
      nodes.status, nodes.answer, nodes.coming);
    show();
  }

  function show() {
    if (!entry) return;
    follow().catch((error) => put(nodes.status, error.message));
    for (const one of [drawing, counting, standing]) one.start();
  }

  function hide() {
    if (connection) connection.abort();
    for (const one of [drawing, counting, standing]) one.stop();
  }

  return {
    watch(given) {
      hide();
      [entry, rows, heard, fresh, ended] = [given, [], 0, 0, false];
      open();
      const { top } = byId("watch").getBoundingClientRect();
      if (top < 0 || top > window.innerHeight) byId("watch").scrollIntoView();
    },
    show, hide,
  };
}

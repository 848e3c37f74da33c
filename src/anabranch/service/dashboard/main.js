// Which page is shown, whether the service answers, and the token where it asks for one.

import { get, setToken, whenConnectionChanges, whenTokenIsNeeded } from "./api.js";
import { byId, put } from "./dom.js";
import { map } from "./map.js";
import { overview } from "./overview.js";
import { plan } from "./plan.js";
import { subscriptions } from "./subscriptions.js";

const pages = { overview: overview(), subscriptions: subscriptions(), plan: plan(), map: map() };
let shown = null;

function show(focus) {
  const wanted = location.hash.slice(1) in pages ? location.hash.slice(1) : "overview";
  if (wanted === shown) return;
  if (shown) pages[shown].hide();
  shown = wanted;
  for (const name of Object.keys(pages)) byId(name).hidden = name !== wanted;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${wanted}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${byId(`${wanted}-title`).textContent} · Anabranch`;
  if (focus) { byId("main").focus(); window.scrollTo(0, 0); }
  pages[wanted].show();
}

whenConnectionChanges((state) => {
  const node = byId("connection");
  node.classList.toggle("live", state === "live");
  put(node, state === "live" ? "live" : "the service does not answer");
});

whenTokenIsNeeded((refused) => {
  const dialog = byId("token-dialog");
  if (dialog.open) return;
  put(byId("token-error"), sessionStorage.length ? refused.message : "");
  dialog.showModal();
});

byId("token-dialog").addEventListener("cancel", (event) => event.preventDefault()); // there is nothing without it
byId("token-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  setToken(byId("token").value.trim());
  byId("token").value = "";
  try {
    await get("/api/caller");
  } catch (error) {
    put(byId("token-error"), error.message);
    return;
  }
  byId("token-dialog").close();
  pages[shown].hide();
  pages[shown].show();
});

window.addEventListener("hashchange", () => show(true));
document.addEventListener("visibilitychange", () => (document.hidden ? pages[shown].hide() : pages[shown].show()));
show(false);

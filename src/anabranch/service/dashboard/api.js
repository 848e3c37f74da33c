// The service, as this page talks to it. The token is kept for this tab and goes in a header, never in an address.

const KEY = "anabranch-token";
let needed = () => {};
let heard = () => {};

export const setToken = (text) => sessionStorage.setItem(KEY, text);

// `ask` is called when a token is needed; `state` hears "live" and "away".
export function whenTokenIsNeeded(ask) { needed = ask; }
export function whenConnectionChanges(state) { heard = state; }

export class Refused extends Error {
  constructor(status, error) {
    super(error.message);
    Object.assign(this, { name: "Refused", status, code: error.code, text: error.text, place: error.place });
  }
}

function headers(more = {}) {
  const token = sessionStorage.getItem(KEY);
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

async function fetched(path, options) {
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", ...options });
  } catch (error) {
    if (error.name !== "AbortError") heard("away");
    throw error;
  }
  heard("live");
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({ error: { code: "failed", message: answer.statusText } }));
  const refused = new Refused(answer.status, body.error);
  if (answer.status === 401) needed(refused);
  throw refused;
}

// `params`: texts and numbers; a list is given as often as it has members, and what is empty is left out.
export async function get(path, params = {}) {
  const pairs = Object.entries(params).flatMap(([key, value]) => [value].flat().map((one) => [key, one]));
  const text = new URLSearchParams(pairs.filter(([, value]) => value !== null && value !== "")).toString();
  return (await fetched(text ? `${path}?${text}` : path, { headers: headers() })).json();
}

export async function send(method, path, body, signal) {
  const options = { method, signal, headers: headers(body ? { "Content-Type": "application/json" } : {}) };
  if (body) options.body = JSON.stringify(body);
  return (await fetched(path, options)).json();
}

export const named = (path, name) => `${path}/${encodeURIComponent(name)}`;

// Server-sent events by fetch, which can send a header: {id, event, data} one after the other. A connection that
// breaks is opened again from behind the last event, until `signal` says stop or the stream has ended.
export async function* listen(path, after, signal) {
  let last = after;
  while (!signal.aborted) {
    try {
      const answer = await fetched(path, { signal, headers: headers({ "Last-Event-ID": last, Accept: "text/event-stream" }) });
      for await (const event of events(answer.body)) {
        last = event.id || last;
        yield event;
        if (event.event === "end") return;
      }
    } catch (error) {
      if (signal.aborted || error instanceof Refused) return;
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = { id: "", event: "message", data: "" };
      for (const line of block.split("\n")) {
        const colon = line.indexOf(": ");
        if (colon > 0) event[line.slice(0, colon)] = line.slice(colon + 2);
      }
      if (event.data) yield event;
    }
  }
}

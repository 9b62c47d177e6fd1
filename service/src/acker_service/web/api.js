// Speaks to the acker that serves the page: requests with the key of this tab, problems as errors, the live events.

const KEY = "acker.key";
const PATIENCE_MS = 20_000;

export class Problem extends Error {
  constructor(document, status) {
    super(document.detail || document.title || `status ${status}`);
    this.code = document.code || "problem";
    this.status = status;
  }

  get needsKey() {
    return this.status === 401;
  }
}

export const readKey = () => sessionStorage.getItem(KEY) || "";

export function keepKey(key) {
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
}

const headersOf = (key) => (key ? { Authorization: `Bearer ${key}` } : {});

// The address of a topology, and of what lies below it.
export const topologyPath = (topology, ...parts) =>
  ["/v1/topologies", topology, ...parts].map((part, n) => (n ? encodeURIComponent(part) : part)).join("/");

export function withQuery(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

async function problemOf(answer) {
  let document = {};
  try {
    document = await answer.json();
  } catch {
    document = { detail: `${answer.url} answered ${answer.status}` };
  }
  return new Problem(document, answer.status);
}

// Send a request; gives the document that answers it. Throws a Problem, also where the acker cannot be reached.
export async function call(method, path, body) {
  const headers = headersOf(readKey());
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    const signal = AbortSignal.timeout(PATIENCE_MS);
    answer = await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    throw new Problem({ code: "unreachable", detail: `the acker does not answer (${error.message})` }, 0);
  }
  if (!answer.ok) throw await problemOf(answer);
  const text = await answer.text();
  return text ? JSON.parse(text) : null;
}

export const get = (path) => call("GET", path);
export const post = (path, body) => call("POST", path, body);

// Follow the live events until the signal; an EventSource could send no key. Throws a Problem at the end of a stream.
export async function follow(onEvent, signal) {
  let answer;
  try {
    answer = await fetch("/v1/events", { headers: { Accept: "text/event-stream", ...headersOf(readKey()) }, signal });
  } catch (error) {
    throw new Problem({ code: "unreachable", detail: `the acker does not answer (${error.message})` }, 0);
  }
  if (!answer.ok) throw await problemOf(answer);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read().catch(() => ({ done: true }));
    if (done) throw new Problem({ code: "unreachable", detail: "the acker closed the stream of live events" }, 0);
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const data = event.split("\n").find((line) => line.startsWith("data: "));
      const document = data && JSON.parse(data.slice("data: ".length));
      if (event.startsWith("event: problem\n")) throw new Problem(document, document.status);
      if (document) onEvent(document);
    }
  }
}

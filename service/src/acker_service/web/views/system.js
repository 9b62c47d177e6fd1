// The store, the processes, the limits and the settings in force. Needs a key of scope admin.

import { get } from "../api.js";
import { Bar } from "../chart.js";
import { age, bytes, count } from "../format.js";
import { Facts, Failure, Table, Time, useLoaded } from "../ui.js";
import { html } from "../vendor/preact-htm.js";

const EVERY_MS = 3_000;
const LIMITS = ["in_flight", "body_bytes", "waiting", "connections"];

const yesNo = (value) => (value === null ? "not known" : value ? "yes" : "no");

const amount = (name, number) => (name.endsWith("_bytes") ? bytes(number) : count(number));

const isChanged = ({ source }) => source !== "default";

function Store({ store }) {
  return html`<section aria-label="Store">
    <h2>Store</h2>
    ${!store.up && html`<p class="problem" role="alert">The store does not answer.</p>`}
    <${Facts} tiles facts=${[
      ["Answers", yesNo(store.up)], ["Full", yesNo(store.full)], ["Time passes", yesNo(store.ticked)],
      ["Memory", bytes(store.used_bytes)], ["Limit", store.max_bytes ? bytes(store.max_bytes) : "none"],
    ]} />
    <${Facts} facts=${[["Server", store.server], ["Durability", store.durability], ["Address", store.url]]} />
    ${(store.warnings || []).map((warning) => html`<p class="problem" key=${warning}>${warning}</p>`)}
  </section>`;
}

export function System() {
  const { document: status, problem } = useLoaded(() => get("/v1/status"), "status", EVERY_MS);
  if (!status) return html`<div><h1>Store and processes</h1><${Failure} problem=${problem} /></div>`;
  const { load, keys, now_ms } = status;
  const settings = Object.entries(status.settings).map(([name, { value, source }]) => ({ name, value, source }));
  const changedFirst = [...settings.filter(isChanged), ...settings.filter((each) => !isChanged(each))];
  return html`<div>
    <h1>Store and processes</h1>
    <${Failure} problem=${problem} />
    <${Facts} facts=${[
      ["Version", status.version], ["Role", status.role], ["Started", `${age(status.started_at_ms, now_ms)} ago`],
      ["Keys", keys.file ? count(keys.count) : "none, all may do all"],
    ]} />
    ${keys.error && html`<p class="problem" role="alert">The file of keys cannot be read: ${keys.error}</p>`}
    <${Store} store=${status.store} />
    <h2>Processes</h2>
    <${Table} caption="Processes seen in the last ten seconds" rows=${status.processes} keyOf=${(row) => row.id} columns=${[
      ["Host", (row) => row.host], ["Process", (row) => row.pid, "number"], ["Role", (row) => row.role], ["Version", (row) => row.version],
      ["Started", (row) => `${age(row.started_at_ms, now_ms)} ago`], ["Seen", (row) => `${age(row.seen_at_ms, now_ms)} ago`],
    ]} />
    <h2>Limits of this process</h2>
    <${Table} caption="Limits" rows=${LIMITS} keyOf=${(name) => name} columns=${[
      ["What", (name) => name.replace("_", " ")],
      ["Now", (name) => amount(name, load[name]), "number"],
      ["At most", (name) => amount(name, load[`${name}_limit`]), "number"],
      ["Share", (name) => html`<${Bar} value=${load[name]} most=${load[`${name}_limit`] || 1} />`],
    ]} />
    ${load.overloaded_recently_at_ms && html`<p>Last refused as overloaded: <${Time} at_ms=${load.overloaded_recently_at_ms} /></p>`}
    <h2>Settings in force</h2>
    <p class="muted">Those that are not the default come first.</p>
    <${Table} caption="Settings" rows=${changedFirst} keyOf=${(row) => row.name} columns=${[
      ["Setting", (row) => html`<code>${row.name}</code>`], ["Value", (row) => String(row.value ?? "–"), "text"], ["From", (row) => row.source],
    ]} /></div>`;
}

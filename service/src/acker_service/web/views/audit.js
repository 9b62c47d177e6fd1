// What operators did: each forced or discarding act. Needs a key of scope admin.

import { get, withQuery } from "../api.js";
import { count, time } from "../format.js";
import { Failure, Table, link, useLoaded } from "../ui.js";
import { html, useState } from "../vendor/preact-htm.js";

const PAGE = 100;

export function Audit() {
  const [after, setAfter] = useState(undefined);
  const { document, problem, reload } = useLoaded(() => get(withQuery("/v1/audit", { limit: PAGE, after })), `${after}`);
  return html`<div>
    <h1>Audit</h1>
    <p class="muted">Forced and discarding acts of the last 30 days, newest first.</p>
    <${Failure} problem=${problem} />
    ${document && html`<${Table} caption="Acts" rows=${document.acts} keyOf=${(row) => `${row.at_ms} ${row.request_id} ${row.act}`} columns=${[
      ["Act", (row) => row.act.replaceAll("_", " ")], ["At, UTC", (row) => time(row.at_ms), "time"], ["Key", (row) => row.key ?? "–"], ["Topology", (row) => row.topology ?? "–"],
      ["Spout task", (row) => row.spout_task ?? "–"], ["Root", (row) => row.root_id ? html`<a class="id" href=${link("t", row.topology, "roots", row.root_id)}>${row.root_id}</a>` : "–"],
      ["Count", (row) => count(row.count), "number"], ["Request", (row) => row.request_id ? html`<span class="id">${row.request_id}</span>` : "–"],
    ]} />
    <div class="row">
      ${after && html`<button type="button" onClick=${() => setAfter(undefined)}>Newest</button>`}
      ${document.cursor && document.acts.length === PAGE && html`<button type="button" onClick=${() => setAfter(document.cursor)}>Older</button>`}
      <button type="button" onClick=${reload}>Look again</button>
    </div>`}</div>`;
}

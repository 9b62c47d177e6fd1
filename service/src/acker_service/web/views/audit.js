// What operators did: each forced or discarding act. Needs a key of scope admin.

import { get, withQuery } from "../api.js";
import { count } from "../format.js";
import { ListFoot, ListHead, sorted, usePages } from "../pages.js";
import { RootLink, Table, Time } from "../ui.js";
import { html, useState } from "../vendor/preact-htm.js";

const PAGE = 100;

const ORDERS = [
  ["At", (row) => row.at_ms], ["Act", (row) => row.act], ["Key", (row) => row.key], ["Topology", (row) => row.topology], ["Count", (row) => row.count],
];

export function Audit() {
  const [order, setOrder] = useState({ by: "", down: false });
  const list = usePages("audit", async (after) => {
    const { acts, cursor } = await get(withQuery("/v1/audit", { limit: PAGE, after }));
    return { rows: acts, cursor, is_last: cursor === null || acts.length < PAGE };
  });
  return html`<div>
    <h1>Audit</h1>
    <p class="muted">Forced and discarding acts of the last 30 days, newest first.</p>
    <${ListHead} list=${list} what="acts" orders=${ORDERS} order=${order} onOrder=${setOrder} name="audit" />
    ${(list.rows.length > 0 || list.is_done) && html`<${Table} caption="Acts" rows=${sorted(list.rows, ORDERS, order)} keyOf=${(row) => `${row.at_ms} ${row.request_id} ${row.act}`} columns=${[
      ["Act", (row) => row.act.replaceAll("_", " ")], ["At", (row) => html`<${Time} at_ms=${row.at_ms} />`, "time"], ["Key", (row) => row.key ?? "–"], ["Topology", (row) => row.topology ?? "–"],
      ["Spout task", (row) => row.spout_task ?? "–"], ["Root", (row) => row.root_id ? html`<${RootLink} topology=${row.topology} id=${row.root_id} />` : "–"],
      ["Count", (row) => count(row.count), "number"], ["Request", (row) => row.request_id ? html`<span class="id">${row.request_id}</span>` : "–"],
    ]} />`}
    <${ListFoot} list=${list} /></div>`;
}

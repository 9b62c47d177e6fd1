// The roots of a topology that failed or timed out in the last day, newest first.

import { get, topologyPath, withQuery } from "../api.js";
import { clock } from "../live.js";
import { ListFoot, ListHead, sorted, usePages } from "../pages.js";
import { Presets, RangeFields, rangeOf, rangeOfForm } from "../range.js";
import { Badge, MessageId, RootLink, Table, Time, link } from "../ui.js";
import { html, useState } from "../vendor/preact-htm.js";
import { Tabs } from "./topology.js";

const PAGE = 100;

// The reason of a root that ends when all have ended says how many edges failed.
function withCount({ failures, reason }) {
  const words = failures === undefined ? [reason] : [`${failures} failed`, reason];
  return words.filter(Boolean).join(": ") || "–";
}

// What the acker is asked for, from the query of the address.
function filterOf({ from, to, ...rest }) {
  return { ...rest, ...rangeOf({ from, to }) };
}

function Filter({ topology, query }) {
  const address = (given) => withQuery(link("t", topology, "failures"), given);
  const search = (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.target));
    location.hash = address({ ...given, ...rangeOfForm(given) });
  };
  return html`<form class="row" role="search" aria-label="Filter" onSubmit=${search} key=${JSON.stringify(query)}>
    <label>Outcome <select name="outcome">
      ${[["", "failed and timed out"], ["failed", "failed"], ["timed_out", "timed out"]].map(([value, name]) =>
        html`<option key=${value} value=${value} selected=${value === (query.outcome || "")}>${name}</option>`)}
    </select></label>
    <label>Spout task <input name="spout_task" defaultValue=${query.spout_task || ""} /></label>
    <label>Component <input name="component" defaultValue=${query.component || ""} /></label>
    <label>Reason has <input name="reason" defaultValue=${query.reason || ""} /></label>
    <label>Message, reason or component has <input name="text" defaultValue=${query.text || ""} /></label>
    <${RangeFields} query=${query} />
    <button type="submit">Find</button>
    <${Presets} now_ms=${clock()} href=${(range) => address({ ...query, ...range })} />
    ${Object.keys(query).length > 0 && html`<a href=${link("t", topology, "failures")}>Show all</a>`}
  </form>`;
}

const ORDERS = [
  ["At", (row) => row.at_ms], ["Message", (row) => row.message_id], ["Spout task", (row) => row.spout_task], ["Outcome", (row) => row.outcome],
  ["Component", (row) => row.component], ["Reason", (row) => row.reason],
];

export function Failures({ names: [topology], query }) {
  const [order, setOrder] = useState({ by: "", down: false });
  const path = withQuery(topologyPath(topology, "failures"), { limit: PAGE, ...filterOf(query) });
  const list = usePages(path, async (after) => {
    const { failures, cursor, scanned } = await get(after ? `${path}&${new URLSearchParams({ after })}` : path);
    return { rows: failures, cursor, scanned, is_last: cursor === null };
  });
  return html`<div>
    <h1>Failures of ${topology}</h1>
    <${Tabs} topology=${topology} at="Failures" />
    <p class="muted">The last 10,000 roots that failed or timed out, for a day. Texts are found as they are written, upper and lower case apart.</p>
    <${Filter} topology=${topology} query=${query} />
    <${ListHead} list=${list} what="failures" orders=${ORDERS} order=${order} onOrder=${setOrder} name=${`failures-${topology}`} />
    ${(list.rows.length > 0 || list.is_done) && html`<${Table} caption="Failures" rows=${sorted(list.rows, ORDERS, order)}
      keyOf=${(row) => row.root_id + row.at_ms} empty="None in the last day that fits." columns=${[
        ["Root", (row) => html`<${RootLink} topology=${topology} id=${row.root_id} />`],
        ["Message", (row) => html`<${MessageId} id=${row.message_id} />`],
        ["Spout task", (row) => row.spout_task],
        ["Outcome", (row) => html`<${Badge} name=${row.outcome} />`],
        ["Component", (row) => row.component ?? "–"],
        ["Reason", (row) => withCount(row), "text"],
        ["At", (row) => html`<${Time} at_ms=${row.at_ms} />`, "time"],
      ]} />`}
    <${ListFoot} list=${list} /></div>`;
}

// The roots of a topology that failed or timed out in the last day, newest first.

import { get, topologyPath, withQuery } from "../api.js";
import { time } from "../format.js";
import { Badge, Failure, Table, link, useLoaded } from "../ui.js";
import { html, useState } from "../vendor/preact-htm.js";
import { Tabs } from "./topology.js";

const PAGE = 100;

// The reason of a root that ends when all have ended says how many edges failed.
function withCount({ failures, reason }) {
  const words = failures === undefined ? [reason] : [`${failures} failed`, reason];
  return words.filter(Boolean).join(": ") || "–";
}

function Filter({ topology, query }) {
  const search = (event) => {
    event.preventDefault();
    location.hash = withQuery(link("t", topology, "failures"), Object.fromEntries(new FormData(event.target)));
  };
  return html`<form class="row" role="search" aria-label="Filter" onSubmit=${search} key=${JSON.stringify(query)}>
    <label>Outcome <select name="outcome">
      ${[["", "failed and timed out"], ["failed", "failed"], ["timed_out", "timed out"]].map(([value, name]) =>
        html`<option key=${value} value=${value} selected=${value === (query.outcome || "")}>${name}</option>`)}
    </select></label>
    <label>Spout task <input name="spout_task" defaultValue=${query.spout_task || ""} /></label>
    <label>Component <input name="component" defaultValue=${query.component || ""} /></label>
    <button type="submit">Find</button>
    ${Object.keys(query).length > 0 && html`<a href=${link("t", topology, "failures")}>Show all</a>`}
  </form>`;
}

export function Failures({ names: [topology], query }) {
  const [cursors, setCursors] = useState([]);
  const asked = JSON.stringify([topology, query]);
  const after = cursors.at(-1)?.asked === asked ? cursors.at(-1).cursor : undefined;
  const { document, problem, reload } = useLoaded(
    () => get(withQuery(topologyPath(topology, "failures"), { limit: PAGE, ...query, after })), `${asked} ${after}`);
  return html`<div>
    <h1>Failures of ${topology}</h1>
    <${Tabs} topology=${topology} at="Failures" />
    <${Filter} topology=${topology} query=${query} />
    <${Failure} problem=${problem} />
    ${document && html`<div><${Table} caption="Failures" rows=${document.failures} keyOf=${(row) => row.root_id + row.at_ms}
      empty="None in the last day." columns=${[
        ["Root", (row) => html`<a class="id" href=${link("t", topology, "roots", row.root_id)}>${row.root_id}</a>`],
        ["Message", (row) => row.message_id ?? "–"],
        ["Spout task", (row) => row.spout_task],
        ["Outcome", (row) => html`<${Badge} name=${row.outcome} />`],
        ["Component", (row) => row.component ?? "–"],
        ["Reason", (row) => withCount(row), "text"],
        ["At, UTC", (row) => time(row.at_ms), "time"],
      ]} />
      <div class="row">
        ${after && html`<button type="button" onClick=${() => setCursors([])}>First page</button>`}
        ${document.cursor && document.failures.length > 0 && html`<button type="button"
          onClick=${() => setCursors([...cursors, { asked, cursor: document.cursor }])}>Next page</button>`}
        <button type="button" onClick=${reload}>Look again</button>
      </div></div>`}</div>`;
}

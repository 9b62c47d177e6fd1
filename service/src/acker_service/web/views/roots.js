// The pending roots of a topology: all filters, page by page; those selected can be failed by hand.

import { get, post, topologyPath, withQuery } from "../api.js";
import { age, count, duration } from "../format.js";
import { useLive } from "../live.js";
import { Confirmed, Failure, Table, link, useLoaded } from "../ui.js";
import { html, useState } from "../vendor/preact-htm.js";
import { Tabs } from "./topology.js";

const PAGE = 100;
const SECONDS = ["older_than_ms", "no_ack_for_ms"];

// What the filter's form gives, as the address has it.
function queryOf(form) {
  const given = Object.fromEntries(new FormData(form));
  for (const name of SECONDS) given[name] = given[name] === "" ? "" : String(Math.round(Number(given[name]) * 1_000));
  return given;
}

function Filter({ topology, query }) {
  const search = (event) => {
    event.preventDefault();
    location.hash = withQuery(link("t", topology, "roots"), queryOf(event.target));
  };
  const seconds = (name) => (query[name] ? Number(query[name]) / 1_000 : "");
  return html`<form class="row" role="search" aria-label="Filter" onSubmit=${search} key=${JSON.stringify(query)}>
    <label>Message id <input name="message_id" defaultValue=${query.message_id || ""} /></label>
    <label>Spout task <input name="spout_task" defaultValue=${query.spout_task || ""} /></label>
    <label>Older than, s <input name="older_than_ms" type="number" min="0" step="any" defaultValue=${seconds("older_than_ms")} /></label>
    <label>No ack for, s <input name="no_ack_for_ms" type="number" min="0" step="any" defaultValue=${seconds("no_ack_for_ms")} /></label>
    <button type="submit">Find</button>
    ${Object.keys(query).length > 0 && html`<a href=${link("t", topology, "roots")}>Show all</a>`}
  </form>`;
}

// Fail each of the roots; gives a sentence about what was done.
async function failAll(topology, ids, reason) {
  const failed = [];
  const refused = [];
  for (const id of ids) {
    try {
      await post(topologyPath(topology, "roots", id, "fail"), reason ? { reason } : {});
      failed.push(id);
    } catch (problem) {
      if (problem.status !== 404 && problem.status !== 409) throw problem;
      refused.push(id);
    }
  }
  return `${failed.length} failed${refused.length ? `, ${refused.length} had ended before` : ""}.`;
}

export function FailByHand({ topology, ids, onDone }) {
  const [reason, setReason] = useState("");
  const many = ids.length === 1 ? `root ${ids[0]}` : `${ids.length} roots`;
  const act = async () => {
    const said = await failAll(topology, ids, reason.trim());
    onDone();
    return said;
  };
  return html`<${Confirmed} danger label=${`Fail ${many}`} word="fail" onConfirm=${act}
    question=${`The spout task gets a completion "failed" for ${many} of ${topology}. Late acks change nothing.`}>
    <label>Reason <input value=${reason} maxlength="900" onInput=${(event) => setReason(event.target.value)} /></label>
  <//>`;
}

export function Roots({ names: [topology], query }) {
  const live = useLive();
  const [cursors, setCursors] = useState([]);
  const [selected, setSelected] = useState(new Set());
  const asked = JSON.stringify([topology, query]);
  const cursor = cursors.at(-1)?.asked === asked ? cursors.at(-1).cursor : undefined;
  const { document, problem, reload } = useLoaded(
    () => get(withQuery(topologyPath(topology, "roots"), { limit: PAGE, ...query, cursor })), `${asked} ${cursor}`);
  const roots = document?.roots || [];
  const chosen = roots.map((root) => root.root_id).filter((id) => selected.has(id));
  const toggle = (ids, on) => {
    const next = new Set(selected);
    for (const id of ids) if (on) next.add(id); else next.delete(id);
    setSelected(next);
  };
  const tick = (root) => html`<input type="checkbox" aria-label=${`Select ${root.root_id}`} checked=${selected.has(root.root_id)}
    onChange=${(event) => toggle([root.root_id], event.target.checked)} />`;
  const columns = [
    ["", tick, "pick"],
    ["Root", (root) => html`<a class="id" href=${link("t", topology, "roots", root.root_id)}>${root.root_id}</a>`],
    ["Message", (root) => root.message_id ?? "–"],
    ["Spout task", (root) => root.spout_task],
    ["Age", (root) => duration(root.age_ms), "number"],
    ["Last ack", (root) => age(root.last_ack_at_ms, live.at_ms || Date.now()), "number"],
    ["Last component", (root) => root.last_component ?? "–"],
    ["Acks", (root) => count(root.acks), "number"],
    ["Open edges", (root) => count(root.outstanding), "number"],
    ["Deadline in", (root) => duration(root.deadline_at_ms - (live.at_ms || Date.now())), "number"],
  ];
  const paging = html`<div class="row">
    ${cursors.length > 0 && html`<button type="button" onClick=${() => setCursors([])}>First page</button>`}
    ${document?.cursor && html`<button type="button" onClick=${() => setCursors([...cursors, { asked, cursor: document.cursor }])}>
      Next page</button>`}
    <button type="button" onClick=${reload}>Look again</button>
  </div>`;
  return html`<div>
    <h1>Pending roots of ${topology}</h1>
    <${Tabs} topology=${topology} at="Roots" />
    <${Filter} topology=${topology} query=${query} />
    <${Failure} problem=${problem} />
    ${document && html`<div>
      <p class="muted" role="status">${count(roots.length)} roots on this page, about nearest deadline first${
        document.scanned === undefined ? "" : `; ${count(document.scanned)} looked at`}${document.cursor ? "; there may be more" : ""}.</p>
      <div class="row">
        <button type="button" disabled=${!roots.length} onClick=${() => toggle(roots.map((root) => root.root_id), chosen.length < roots.length)}>
          ${chosen.length && chosen.length === roots.length ? "Select none" : "Select all on this page"}</button>
        ${chosen.length > 0 && html`<${FailByHand} topology=${topology} ids=${chosen} onDone=${reload} />`}
      </div>
      <${Table} caption="Pending roots" columns=${columns} rows=${roots} keyOf=${(root) => root.root_id}
        empty=${document.cursor ? "None among those looked at; the next page goes on." : "No pending root fits."} />
      ${paging}
    </div>`}</div>`;
}

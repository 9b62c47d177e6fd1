// The pending roots of a topology: all filters, page by page; those selected, or all that match, can be failed by hand.

import { get, post, topologyPath, withQuery } from "../api.js";
import { age, count, duration } from "../format.js";
import { clock, useLive } from "../live.js";
import { ListFoot, ListHead, sorted, usePages } from "../pages.js";
import { Confirmed, MessageId, RootLink, Table, link } from "../ui.js";
import { html, useRef, useState } from "../vendor/preact-htm.js";
import { Tabs } from "./topology.js";

const PAGE = 100;
const AT_ONCE = 8;
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
    <label>Message id, whole <input name="message_id" defaultValue=${query.message_id || ""} /></label>
    <label>Message id or last component has <input name="text" defaultValue=${query.text || ""} /></label>
    <label>Spout task <input name="spout_task" defaultValue=${query.spout_task || ""} /></label>
    <label>Older than, s <input name="older_than_ms" type="number" min="0" step="any" defaultValue=${seconds("older_than_ms")} /></label>
    <label>No ack for, s <input name="no_ack_for_ms" type="number" min="0" step="any" defaultValue=${seconds("no_ack_for_ms")} /></label>
    <button type="submit">Find</button>
    ${Object.keys(query).length > 0 && html`<a href=${link("t", topology, "roots")}>Show all</a>`}
  </form>`;
}

// Fail each of the roots, some at once, until all are failed or `isStopped`; gives a sentence about what was done.
async function failAll(topology, ids, reason, { onStep, isStopped }) {
  const left = [...ids];
  const done = { failed: 0, refused: 0 };
  const work = async () => {
    while (left.length && !isStopped()) {
      const id = left.shift();
      try {
        await post(topologyPath(topology, "roots", id, "fail"), reason ? { reason } : {});
        done.failed += 1;
      } catch (problem) {
        if (problem.status !== 404 && problem.status !== 409) throw problem;
        done.refused += 1;
      }
      onStep(done.failed + done.refused);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  const refused = done.refused ? `, ${count(done.refused)} had ended before` : "";
  return `${count(done.failed)} failed${refused}${left.length ? `, ${count(left.length)} left out: stopped` : ""}.`;
}

// `what` names the roots, as "all roots that match"; without it one is named by its id, and several by their number.
export function FailByHand({ topology, ids, onDone, what = "" }) {
  const [reason, setReason] = useState("");
  const [step, setStep] = useState(null);
  const stopped = useRef(false);
  const many = ids.length === 1 ? `root ${ids[0]}` : `${what ? `${what}: ` : ""}${count(ids.length)} roots`;
  const act = async () => {
    stopped.current = false;
    try {
      const said = await failAll(topology, ids, reason.trim(), { onStep: setStep, isStopped: () => stopped.current });
      onDone(said);
      return said;
    } finally {
      setStep(null);
    }
  };
  return html`<${Confirmed} danger label=${`Fail ${many}`} word=${ids.length === 1 ? "fail" : String(ids.length)} onConfirm=${act}
    question=${`The spout task gets a completion "failed" for ${many} of ${topology}. Late acks change nothing.`}>
    <label>Reason <input value=${reason} maxlength="900" onInput=${(event) => setReason(event.target.value)} /></label>
    ${step !== null && ids.length > 1 && html`<p role="status">${count(step)} of ${count(ids.length)} asked for.${" "}
      <button type="button" onClick=${() => { stopped.current = true; }}>Stop</button></p>`}
  <//>`;
}

const ORDERS = [
  ["Age", (row) => -row.began_at_ms], ["Last ack", (row) => row.last_ack_at_ms], ["Deadline", (row) => row.deadline_at_ms],
  ["Message", (row) => row.message_id], ["Spout task", (row) => row.spout_task], ["Last component", (row) => row.last_component],
  ["Acks", (row) => row.acks], ["Open edges", (row) => row.outstanding],
];

export function Roots({ names: [topology], query }) {
  const live = useLive();
  const now_ms = clock();
  const [selected, setSelected] = useState(new Set());
  const [said, setSaid] = useState("");
  const [order, setOrder] = useState({ by: "", down: false });
  const path = withQuery(topologyPath(topology, "roots"), { limit: PAGE, ...query });
  const list = usePages(path, async (cursor) => {
    const document = await get(cursor ? `${path}&${new URLSearchParams({ cursor })}` : path);
    const read_at_ms = clock();
    const rows = document.roots.map(({ age_ms, ...root }) => ({ ...root, began_at_ms: read_at_ms - age_ms }));
    return { rows, cursor: document.cursor, scanned: document.scanned, is_last: document.cursor === null };
  });
  const ids = [...new Set(list.rows.map((root) => root.root_id))];
  const chosen = ids.filter((id) => selected.has(id));
  const toggle = (some, on) => {
    const next = new Set(selected);
    for (const id of some) if (on) next.add(id); else next.delete(id);
    setSelected(next);
  };
  const tick = (root) => html`<input type="checkbox" aria-label=${`Select ${root.root_id}`} checked=${selected.has(root.root_id)}
    onChange=${(event) => toggle([root.root_id], event.target.checked)} />`;
  const columns = [
    ["", tick, "pick"],
    ["Root", (root) => html`<${RootLink} topology=${topology} id=${root.root_id} />`],
    ["Message", (root) => html`<${MessageId} id=${root.message_id} />`],
    ["Spout task", (root) => root.spout_task],
    ["Age", (root) => age(root.began_at_ms, now_ms), "number"],
    ["Last ack", (root) => age(root.last_ack_at_ms, now_ms), "number"],
    ["Last component", (root) => root.last_component ?? "–"],
    ["Acks", (root) => count(root.acks), "number"],
    ["Open edges", (root) => count(root.outstanding), "number"],
    ["Deadline in", (root) => (root.deadline_at_ms > now_ms ? duration(root.deadline_at_ms - now_ms) : "now"), "number"],
  ];
  const isFiltered = Object.keys(query).length > 0;
  const total = isFiltered ? undefined : live.topologies?.find((each) => each.topology === topology)?.pending;
  const done = (sentence) => {
    setSaid(sentence);
    setSelected(new Set());
    list.again();
  };
  return html`<div>
    <h1>Pending roots of ${topology}</h1>
    <${Tabs} topology=${topology} at="Roots" />
    <${Filter} topology=${topology} query=${query} />
    <${ListHead} list=${list} total=${total} what="roots" orders=${ORDERS} order=${order} onOrder=${setOrder} name=${`roots-${topology}`} />
    <p class="muted">Listed about nearest deadline first. A root that begins or ends meanwhile may be missing, or be listed although it has ended.</p>
    <p role="status" id="said">${said}</p>
    ${(list.rows.length > 0 || list.is_done) && html`<div>
      <div class="row">
        <button type="button" disabled=${!ids.length} onClick=${() => toggle(ids, chosen.length < ids.length)}>
          ${chosen.length && chosen.length === ids.length ? "Select none" : `Select all ${count(ids.length)} loaded`}</button>
        ${chosen.length > 0 && html`<${FailByHand} topology=${topology} ids=${chosen} onDone=${done} />`}
        ${chosen.length === 0 && list.is_done && ids.length > 1 && html`<${FailByHand} topology=${topology} ids=${ids} onDone=${done} what="all that match" />`}
      </div>
      <${Table} caption="Pending roots" columns=${columns} rows=${sorted(list.rows, ORDERS, order)} keyOf=${(root) => root.root_id}
        empty="No pending root fits." />
    </div>`}
    <${ListFoot} list=${list} /></div>`;
}

// One spout task: its reader or callback with the attempts, its unread completions, its dead letters.

import { get, post, topologyPath, withQuery } from "../api.js";
import { age, count, took } from "../format.js";
import { clock, useLive } from "../live.js";
import { ListFoot, ListHead, sorted, usePages } from "../pages.js";
import { Act, Badge, Confirmed, Facts, Failure, MessageId, RootLink, Table, Time, link, useLoaded } from "../ui.js";
import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { DeadLetters } from "./dead_letters.js";
import { Tabs } from "./topology.js";

const EVERY_MS = 3_000;
const PAGE = 100;

function sayTest({ delivered, status, error, took_ms }) {
  const came = status === null ? error : `status ${status}${error ? `, ${error}` : ""}`;
  return `${delivered ? "Delivered" : "Not delivered"}: ${came ?? "no answer"}, ${took_ms} ms.`;
}

function Callback({ topology, spout, now_ms, reload }) {
  const { callback, spout_task: task } = spout;
  const path = (act) => topologyPath(topology, "spouts", task, act);
  const change = (act) => async () => {
    const { state } = await post(path(act));
    reload();
    return `The callback is ${state}.`;
  };
  return html`<section aria-label="Callback">
    <h2>Callback</h2>
    <${Facts} facts=${[
      ["State", html`<${Badge} name=${callback.state} />`], ["Kind", callback.kind], ["URL", callback.url], ["Last error", callback.error],
      ["Tries of the oldest completion", callback.attempt],
      ["Next try", callback.next_attempt_at_ms && `in ${age(now_ms, callback.next_attempt_at_ms)}`],
      ["Last delivered", callback.last_delivered_at_ms && `${age(callback.last_delivered_at_ms, now_ms)} ago`],
    ]} />
    <div class="row">
      ${callback.kind === "webhook" && html`<${Act} label="Send a test message" act=${async () => sayTest(await post(path("test")))} />`}
      ${callback.state === "on" && html`<${Act} label="Pause" act=${change("pause")} />`}
      ${callback.state === "on" && callback.next_attempt_at_ms && html`<${Act} label="Try now" act=${change("resume")} />`}
      ${callback.state !== "on" && html`<${Act} label="Resume" act=${change("resume")} />`}
    </div>
  </section>`;
}

const ORDERS = [
  ["At", (row) => row.at_ms], ["Message", (row) => row.message_id], ["Outcome", (row) => row.outcome], ["Component", (row) => row.component],
  ["Reason", (row) => row.reason], ["Latency", (row) => row.complete_latency_ms],
];

const hasText = (text) => (row) => [row.message_id, row.root_id, row.outcome, row.component, row.reason].some((part) => part?.includes(text));

function Completions({ topology, task, unread }) {
  const [order, setOrder] = useState({ by: "", down: false });
  const [text, setText] = useState("");
  const path = withQuery(topologyPath(topology, "spouts", task, "completions"), { limit: PAGE, peek: true });
  const list = usePages(path, async (after) => {
    const { completions: rows, cursor } = await get(after ? `${path}&${new URLSearchParams({ after })}` : path);
    return { rows, cursor, is_last: rows.length < PAGE };
  });
  useEffect(() => { if (list.pages <= 1 && !list.busy) list.again(); }, [unread]);
  const shown = list.rows.filter(hasText(text));
  const discard = async () => {
    const { discarded } = await post(topologyPath(topology, "spouts", task, "completions", "discard"));
    list.again();
    return `${discarded} discarded.`;
  };
  return html`<section aria-label="Unread completions">
    <h2>Unread completions</h2>
    <p class="muted">This page reads without releasing, and is not counted as the reader.</p>
    <${ListHead} list=${list} total=${unread} what="completions" orders=${ORDERS} order=${order} onOrder=${setOrder}
      name=${`completions-${topology}-${task}`} />
    ${list.rows.length > 1 && html`<div class="row"><label>Show the loaded that have <input value=${text} onInput=${(event) => setText(event.target.value)} /></label>
      ${text && html`<p class="muted" role="status">${count(shown.length)} of ${count(list.rows.length)} loaded.</p>`}</div>`}
    ${(list.rows.length > 0 || list.is_done) && html`<${Table} caption="Unread completions" rows=${sorted(shown, ORDERS, order)} keyOf=${(row) => row.id} columns=${[
      ["Root", (row) => html`<${RootLink} topology=${topology} id=${row.root_id} />`],
      ["Message", (row) => html`<${MessageId} id=${row.message_id} />`], ["Outcome", (row) => html`<${Badge} name=${row.outcome} />`],
      ["Component", (row) => row.component ?? "–"], ["Reason", (row) => row.reason ?? "–", "text"],
      ["Latency", (row) => took(row.complete_latency_ms), "number"], ["At", (row) => html`<${Time} at_ms=${row.at_ms} />`, "time"],
    ]} />`}
    <${ListFoot} list=${list} />
    ${unread > 0 && html`<div class="row"><${Confirmed} danger label="Discard all unread completions" word=${String(unread)} onConfirm=${discard}
      question=${`${count(unread)} completions of ${task} are thrown away unread: nobody hears how these roots ended.`} /></div>`}
  </section>`;
}

export function Spout({ names: [topology, task], query }) {
  useLive();
  const now_ms = clock();
  const path = topologyPath(topology, "spouts", task);
  const { document: spout, problem, reload } = useLoaded(
    async () => ({ ...await get(path), seen_at_ms: clock() }), path, EVERY_MS);
  return html`<div>
    <h1>Spout task ${task} of ${topology}</h1>
    <${Tabs} topology=${topology} at="Spout tasks" />
    <${Failure} problem=${problem} />
    ${spout && html`<div>
      <${Facts} tiles facts=${[
        ["Pending", html`<a href=${`${link("t", topology, "roots")}?spout_task=${encodeURIComponent(task)}`}>${count(spout.pending)}</a>`],
        ["Unread", count(spout.unread)],
        ["Dead letters", count(spout.dead_letters)],
        ["Oldest unread", age(spout.oldest_unread_at_ms, now_ms)],
      ]} />
      <${Facts} facts=${[
        ["Last read", spout.last_read_at_ms ? `${age(spout.last_read_at_ms, now_ms)} ago` : "never"],
        ["Last emit", spout.last_emit_at_ms ? `${age(spout.last_emit_at_ms, now_ms)} ago` : "–"],
        ["Ephemeral", spout.ephemeral ? "yes" : "no"],
      ]} />
      ${spout.callback && html`<${Callback} topology=${topology} spout=${spout} now_ms=${now_ms} reload=${reload} />`}
      <${Completions} topology=${topology} task=${task} unread=${spout.unread} />
      <${DeadLetters} topology=${topology} task=${task} number=${spout.dead_letters} seen_at_ms=${spout.seen_at_ms} query=${query} />
    </div>`}</div>`;
}

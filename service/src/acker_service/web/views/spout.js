// One spout task: its reader or callback with the attempts, its unread completions, its dead letters.

import { get, post, topologyPath, withQuery } from "../api.js";
import { age, count, time } from "../format.js";
import { useLive } from "../live.js";
import { Act, Badge, Confirmed, Facts, Failure, Table, link, useLoaded } from "../ui.js";
import { html } from "../vendor/preact-htm.js";
import { DeadLetters } from "./dead_letters.js";
import { Tabs } from "./topology.js";

const EVERY_MS = 3_000;
const PAGE = 50;

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

function Completions({ topology, task, unread }) {
  const path = withQuery(topologyPath(topology, "spouts", task, "completions"), { limit: PAGE, peek: true });
  const { document, problem, reload } = useLoaded(() => get(path), `${path} ${unread}`);
  const discard = async () => {
    const { discarded } = await post(topologyPath(topology, "spouts", task, "completions", "discard"));
    reload();
    return `${discarded} discarded.`;
  };
  return html`<section aria-label="Unread completions">
    <h2>Unread completions</h2>
    <p class="muted">The first ${PAGE}. This page reads without releasing, and is not counted as the reader.</p>
    <${Failure} problem=${problem} />
    ${document && html`<${Table} caption="Unread completions" rows=${document.completions} keyOf=${(row) => row.id} columns=${[
      ["Root", (row) => html`<a class="id" href=${link("t", topology, "roots", row.root_id)}>${row.root_id}</a>`],
      ["Message", (row) => row.message_id ?? "–"], ["Outcome", (row) => html`<${Badge} name=${row.outcome} />`],
      ["Component", (row) => row.component ?? "–"], ["Reason", (row) => row.reason ?? "–", "text"], ["At, UTC", (row) => time(row.at_ms), "time"],
    ]} />`}
    ${unread > 0 && html`<div class="row"><${Confirmed} danger label="Discard all unread completions" word="discard" onConfirm=${discard}
      question=${`${count(unread)} completions of ${task} are thrown away unread: nobody hears how these roots ended.`} /></div>`}
  </section>`;
}

export function Spout({ names: [topology, task] }) {
  const live = useLive();
  const now_ms = live.at_ms || Date.now();
  const path = topologyPath(topology, "spouts", task);
  const { document: spout, problem, reload } = useLoaded(() => get(path), path, EVERY_MS);
  return html`<div>
    <h1>Spout task ${task}</h1>
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
      <${DeadLetters} topology=${topology} task=${task} number=${spout.dead_letters} />
    </div>`}</div>`;
}

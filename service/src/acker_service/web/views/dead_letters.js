// The dead letters of a spout task: listed, replayed or discarded.

import { get, post, topologyPath, withQuery } from "../api.js";
import { count, time } from "../format.js";
import { Badge, Confirmed, Failure, Table, link, useLoaded } from "../ui.js";
import { html } from "../vendor/preact-htm.js";

const PAGE = 50;

export function DeadLetters({ topology, task, number }) {
  const address = (...more) => topologyPath(topology, "spouts", task, "dead-letters", ...more);
  const path = withQuery(address(), { limit: PAGE });
  const { document, problem, reload } = useLoaded(() => get(path), `${path} ${number}`);
  const act = (name, field) => async () => {
    const answer = await post(address(name));
    reload();
    return `${count(answer[field])} ${field}.`;
  };
  return html`<section aria-label="Dead letters">
    <h2>Dead letters</h2>
    <${Failure} problem=${problem} />
    ${document && html`<${Table} caption="Dead letters" rows=${document.dead_letters} keyOf=${(row) => row.id} columns=${[
      ["Root", (row) => html`<a class="id" href=${link("t", topology, "roots", row.root_id)}>${row.root_id}</a>`],
      ["Message", (row) => row.message_id ?? "–"], ["Outcome", (row) => html`<${Badge} name=${row.outcome} />`],
      ["Tries", (row) => count(row.attempts), "number"], ["Error", (row) => row.error ?? "–", "text"], ["At, UTC", (row) => time(row.at_ms), "time"],
    ]} />`}
    ${number > 0 && html`<div class="row">
      <${Confirmed} label="Replay" word="replay" onConfirm=${act("replay", "replayed")}
        question=${`Deliver all ${count(number)} dead letters of ${task} again, as if they had never been tried.`} />
      <${Confirmed} danger label="Discard" word="discard" onConfirm=${act("discard", "discarded")}
        question=${`Throw all ${count(number)} dead letters of ${task} away. Nobody hears how these roots ended.`} />
    </div>`}
  </section>`;
}

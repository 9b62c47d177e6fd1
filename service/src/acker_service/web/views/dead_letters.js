// The dead letters of a spout task: filtered by error and time, replayed or discarded.

import { get, post, topologyPath, withQuery } from "../api.js";
import { count, time } from "../format.js";
import { Badge, Confirmed, Failure, Table, link, useLoaded } from "../ui.js";
import { html, useState } from "../vendor/preact-htm.js";

const PAGE = 50;

// What the form gives; times are UTC, as all times of the page.
function filtersOf(form) {
  const given = Object.fromEntries(new FormData(form));
  const ms = (text) => (text ? Date.parse(`${text}Z`) : undefined);
  const filters = { error: given.error || undefined, from_ms: ms(given.from), to_ms: ms(given.to) };
  return Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== undefined && !Number.isNaN(value)));
}

export function DeadLetters({ topology, task, number }) {
  const [filters, setFilters] = useState({});
  const address = (...more) => topologyPath(topology, "spouts", task, "dead-letters", ...more);
  const path = withQuery(address(), { limit: PAGE, ...filters });
  const { document, problem, reload } = useLoaded(() => get(path), `${path} ${number}`);
  const isFiltered = Object.keys(filters).length > 0;
  const which = isFiltered ? "the dead letters that fit the filter" : `all ${count(number)} dead letters`;
  const act = (name, field) => async () => {
    const answer = await post(address(name), isFiltered ? filters : undefined);
    reload();
    return `${count(answer[field])} ${field}.`;
  };
  const known = document?.dead_letters.length > 0 || isFiltered;
  if (!number && !known) return html`<section aria-label="Dead letters"><h2>Dead letters</h2><p class="muted">None.</p></section>`;
  return html`<section aria-label="Dead letters">
    <h2>Dead letters</h2>
    <form class="row" role="search" aria-label="Filter dead letters"
      onSubmit=${(event) => { event.preventDefault(); setFilters(filtersOf(event.target)); }}>
      <label>Error has <input name="error" /></label>
      <label>From, UTC <input name="from" type="datetime-local" /></label>
      <label>To, UTC <input name="to" type="datetime-local" /></label>
      <button type="submit">Find</button>
    </form>
    <${Failure} problem=${problem} />
    ${document && html`<${Table} caption="Dead letters" rows=${document.dead_letters} keyOf=${(row) => row.id} columns=${[
      ["Root", (row) => html`<a class="id" href=${link("t", topology, "roots", row.root_id)}>${row.root_id}</a>`],
      ["Message", (row) => row.message_id ?? "–"], ["Outcome", (row) => html`<${Badge} name=${row.outcome} />`],
      ["Tries", (row) => count(row.attempts), "number"], ["Error", (row) => row.error ?? "–", "text"], ["At, UTC", (row) => time(row.at_ms), "time"],
    ]} />`}
    <div class="row">
      <${Confirmed} label="Replay" word="replay" onConfirm=${act("replay", "replayed")}
        question=${`Deliver ${which} of ${task} again, as if they had never been tried.`} />
      <${Confirmed} danger label="Discard" word="discard" onConfirm=${act("discard", "discarded")}
        question=${`Throw ${which} of ${task} away. Nobody hears how these roots ended.`} />
    </div>
  </section>`;
}

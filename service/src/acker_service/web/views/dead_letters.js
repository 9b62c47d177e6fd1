// The dead letters of a spout task: filtered by error and time; those that match are replayed or discarded.

import { get, post, topologyPath, withQuery } from "../api.js";
import { count } from "../format.js";
import { clock } from "../live.js";
import { ListFoot, ListHead, sorted, usePages } from "../pages.js";
import { Presets, RangeFields, rangeOf, rangeOfForm } from "../range.js";
import { Badge, Confirmed, MessageId, RootLink, Table, Time, link } from "../ui.js";
import { html, useEffect, useRef, useState } from "../vendor/preact-htm.js";

const PAGE = 100;

const withoutEmpty = (values) => Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined && value !== ""));

function Filter({ topology, task, query }) {
  const address = (given) => withQuery(link("t", topology, "spouts", task), given);
  const search = (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.target));
    location.hash = address({ error: given.error, ...rangeOfForm(given) });
  };
  return html`<form class="row" role="search" aria-label="Filter dead letters" onSubmit=${search} key=${JSON.stringify(query)}>
    <label>Error has <input name="error" defaultValue=${query.error || ""} /></label>
    <${RangeFields} query=${query} />
    <button type="submit">Find</button>
    <${Presets} now_ms=${clock()} href=${(range) => address({ ...query, ...range })} />
    ${Object.keys(query).length > 0 && html`<a href=${address({})}>Show all</a>`}
  </form>`;
}

const ORDERS = [
  ["At", (row) => row.at_ms], ["Message", (row) => row.message_id], ["Tries", (row) => row.attempts], ["Error", (row) => row.error],
  ["Outcome", (row) => row.outcome],
];

// How many match, and until when they were counted: what an act may take. Null: not all are loaded, so it is not known.
function counted(list, isFiltered, { number, seen_at_ms }) {
  if (list.is_done) return { number: list.rows.length, to_ms: Math.max(0, ...list.rows.map((row) => row.at_ms)) };
  return isFiltered ? null : { number, to_ms: seen_at_ms };
}

function Acts({ address, task, filters, found, onDone }) {
  const act = (name, field) => async () => {
    const answer = await post(address(name), { ...filters, to_ms: Math.min(filters.to_ms ?? Infinity, found.to_ms) });
    onDone();
    return `${count(answer[field])} ${field}.`;
  };
  if (!found) return html`<p class="muted">To replay or discard those that match, load all of them first: you confirm with their number.</p>`;
  const which = `${count(found.number)} ${found.number === 1 ? "dead letter" : "dead letters"} of ${task}`;
  return html`<div class="row">
    <${Confirmed} label=${`Replay ${count(found.number)}`} word=${String(found.number)} disabled=${!found.number} onConfirm=${act("replay", "replayed")}
      question=${`Deliver ${which} again, as if they had never been tried. Those that came since they were counted stay.`} />
    <${Confirmed} danger label=${`Discard ${count(found.number)}`} word=${String(found.number)} disabled=${!found.number}
      onConfirm=${act("discard", "discarded")}
      question=${`Throw ${which} away. Nobody hears how these roots ended. Those that came since they were counted stay.`} />
  </div>`;
}

export function DeadLetters({ topology, task, number, seen_at_ms, query }) {
  const [order, setOrder] = useState({ by: "", down: false });
  const filters = withoutEmpty({ error: query.error, ...rangeOf(query) });
  const isFiltered = Object.keys(filters).length > 0;
  const address = (...more) => topologyPath(topology, "spouts", task, "dead-letters", ...more);
  const path = withQuery(address(), { limit: PAGE, ...filters });
  const list = usePages(path, async (after) => {
    const { dead_letters: rows, cursor, more } = await get(after ? `${path}&${new URLSearchParams({ after })}` : path);
    return { rows, cursor, is_last: !more };
  });
  const found = useRef(null); // while the list is read again, an act that ends can still say what it did
  if (list.is_done || !list.busy) found.current = counted(list, isFiltered, { number, seen_at_ms });
  useEffect(() => { if (list.pages <= 1 && !list.busy) list.again(); }, [number]);
  if (!number && !list.rows.length && !isFiltered) {
    return html`<section aria-label="Dead letters"><h2>Dead letters</h2><p class="muted">None.</p></section>`;
  }
  return html`<section aria-label="Dead letters">
    <h2>Dead letters</h2>
    <${Filter} topology=${topology} task=${task} query=${query} />
    <${ListHead} list=${list} total=${isFiltered ? undefined : number} what="dead letters" orders=${ORDERS} order=${order} onOrder=${setOrder}
      name=${`dead-letters-${topology}-${task}`} />
    <${Acts} address=${address} task=${task} filters=${filters} found=${found.current} onDone=${list.again} />
    ${(list.rows.length > 0 || list.is_done) && html`<${Table} caption="Dead letters" rows=${sorted(list.rows, ORDERS, order)} keyOf=${(row) => row.id} columns=${[
      ["Root", (row) => html`<${RootLink} topology=${topology} id=${row.root_id} />`],
      ["Message", (row) => html`<${MessageId} id=${row.message_id} />`], ["Outcome", (row) => html`<${Badge} name=${row.outcome} />`],
      ["Tries", (row) => count(row.attempts), "number"], ["Error", (row) => row.error ?? "–", "text"], ["At", (row) => html`<${Time} at_ms=${row.at_ms} />`, "time"],
    ]} />`}
    <${ListFoot} list=${list} />
  </section>`;
}

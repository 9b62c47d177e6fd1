// Find one by its id, in all topologies: pending roots, then failures, unread completions and dead letters.

import { get, topologyPath, withQuery } from "../api.js";
import { duration } from "../format.js";
import { clock, useLive } from "../live.js";
import { Badge, Failure, MessageId, RootLink, Table, useLoaded } from "../ui.js";
import { html } from "../vendor/preact-htm.js";

const MOST_PAGES = 20;
const PAGE = 1_000;
const ROOT_ID = /^[0-9a-f]{16}$/;

// Nothing, where the key does not show it or it is not there; any other problem is thrown on.
function orNothing(nothing) {
  return (problem) => {
    if (problem.status !== 403 && problem.status !== 404) throw problem;
    return nothing;
  };
}

// A page after the other, until the list ends or enough is read: then `cut` notes what. What the key does not show is left out.
async function readAll(path, query, items, cursorName, cut) {
  const found = [];
  let cursor;
  for (let page = 0; ; page += 1) {
    if (page === MOST_PAGES) {
      cut.push(path.replace("/v1/topologies/", "").replaceAll("/", " "));
      break;
    }
    const document = await get(withQuery(path, { limit: PAGE, ...query, [cursorName]: cursor })).catch(orNothing(null));
    if (!document) break;
    found.push(...document[items]);
    if (!document.cursor || document.cursor === cursor || (!document[items].length && document.scanned === undefined)) break;
    cursor = document.cursor;
  }
  return found;
}

async function pending(topology, id, cut) {
  const path = topologyPath(topology, "roots");
  const byMessage = (await readAll(path, { message_id: id }, "roots", "cursor", cut)).map((root) => ({ ...root, where: root.state }));
  if (byMessage.length || !ROOT_ID.test(id)) return byMessage;
  const root = await get(topologyPath(topology, "roots", id)).catch(orNothing(null));
  return root ? [{ ...root, where: root.outcome || root.state }] : [];
}

async function ofSpout(topology, { spout_task, unread, dead_letters }, fits, cut) {
  const path = (kind) => topologyPath(topology, "spouts", spout_task, kind);
  const lists = [
    unread ? readAll(path("completions"), { peek: true }, "completions", "after", cut) : [],
    dead_letters ? readAll(path("dead-letters"), {}, "dead_letters", "after", cut) : [],
  ];
  const [completions, letters] = await Promise.all(lists);
  const marked = (items, where) => items.filter(fits).map((item) => ({ ...item, spout_task, where }));
  return [...marked(completions, "unread"), ...marked(letters, "dead letter")];
}

async function findIn(topology, id, cut) {
  const fits = (item) => item.message_id === id || item.root_id === id;
  const spouts = await get(topologyPath(topology, "spouts")).catch(orNothing({ spouts: [] }));
  const found = await Promise.all([
    pending(topology, id, cut),
    readAll(topologyPath(topology, "failures"), {}, "failures", "after", cut).then((items) =>
      items.filter(fits).map((item) => ({ ...item, where: item.outcome }))),
    ...spouts.spouts.map((spout) => ofSpout(topology, spout, fits, cut)),
  ]);
  return found.flat().map((item) => ({ ...item, topology }));
}

export function Find({ query: { id = "" } }) {
  const live = useLive();
  const now_ms = clock();
  const names = live.topologies?.map(({ topology }) => topology);
  const { document: found, problem } = useLoaded(
    async () => {
      if (!names) return undefined;
      const cut = [];
      const rows = (await Promise.all(names.map((name) => findIn(name, id, cut)))).flat();
      return { rows, cut };
    }, `${id} ${names?.join()}`);
  return html`<div>
    <h1>Find ${id}</h1>
    <p class="muted">Looked for exactly as it is written: a root by all 16 digits of its id, a message by its whole id. Among pending roots, failures,
      unread completions and dead letters; roots that were acked and read are not kept. To find a part of a text, filter the failures of a topology.</p>
    ${found?.cut.length > 0 && html`<p class="problem" role="alert">Only the first ${(MOST_PAGES * PAGE).toLocaleString("en-US")} were looked at of: ${found.cut.join("; ")}.</p>`}
    <${Failure} problem=${problem || (!names && live.problem)} />
    ${found ? html`<${Table} caption="Found" rows=${found.rows} keyOf=${(row) => row.topology + row.root_id + row.where}
      empty="Not found: nothing has exactly this id. acker root find also takes the first 8 digits of a root id."
      columns=${[
        ["Root", (row) => html`<${RootLink} topology=${row.topology} id=${row.root_id} />`],
        ["Message", (row) => html`<${MessageId} id=${row.message_id} />`],
        ["Topology", (row) => row.topology],
        ["Spout task", (row) => row.spout_task ?? "–"],
        ["Where", (row) => html`<${Badge} name=${row.where} />`],
        ["Component", (row) => row.last_component ?? row.component ?? "–"],
        ["Reason", (row) => row.reason ?? "–", "text"],
        ["Age", (row) => duration(row.age_ms ?? now_ms - row.at_ms), "number"],
      ]} />` : !problem && !live.problem && html`<p class="muted">Looking…</p>`}</div>`;
}

// The tree of a traced root: its edges below the edges that they came from, the open ones marked.

import { get, topologyPath } from "../api.js";
import { age, count } from "../format.js";
import { Badge, Failure, useLoaded } from "../ui.js";
import { html, useState } from "../vendor/preact-htm.js";

const EVERY_MS = 3_000;
const MOST_SHOWN = 500;
const ROOT = "";

// The edges by the edge that they came from; an edge of several parents is below each.
export function childrenOf(edges) {
  const below = new Map();
  for (const edge of edges) {
    const parent = edge.parent ?? ROOT;
    below.set(parent, [...(below.get(parent) || []), edge]);
  }
  return below;
}

// The ids of all edges above an open or failed one, and itself: the part of a large tree that matters.
export function pathsTo(edges, wanted) {
  const parents = new Map();
  for (const edge of edges) parents.set(edge.edge_id, [...(parents.get(edge.edge_id) || []), edge.parent]);
  const kept = new Set();
  const left = edges.filter(wanted).map((edge) => edge.edge_id);
  while (left.length) {
    const id = left.pop();
    if (id === null || kept.has(id)) continue;
    kept.add(id);
    left.push(...(parents.get(id) || []));
  }
  return kept;
}

function Edges({ below, parent, kept, now_ms, above }) {
  const edges = (below.get(parent) || []).filter((edge) => kept.has(edge.edge_id) && !above.has(edge.edge_id));
  if (!edges.length) return null;
  return html`<ul class="tree">
    ${edges.map((edge) => html`<li key=${edge.edge_id} class=${edge.state}>
      <span class="id">${edge.edge_id}</span> <${Badge} name=${edge.state} />
      ${edge.component && html` made by ${edge.component}`}
      ${edge.since_at_ms && html` <span class="muted">for ${age(edge.since_at_ms, now_ms)}</span>`}
      <${Edges} below=${below} parent=${edge.edge_id} kept=${kept} now_ms=${now_ms} above=${new Set([...above, edge.edge_id])} />
    </li>`)}
  </ul>`;
}

export function Tree({ topology, id }) {
  const path = topologyPath(topology, "roots", id, "tree");
  const { document: tree, problem } = useLoaded(() => get(path), path, EVERY_MS);
  const [all, setAll] = useState(false);
  if (problem?.status === 404) return null;
  if (!tree) return html`<${Failure} problem=${problem} />`;
  if (!tree.traced) {
    return html`<section aria-label="Tree"><h2>Tree</h2><p id="untraced">This root is not traced, so its edges cannot be told apart:${" "}
      ${count(tree.outstanding)} are open, and ${tree.last_component ? html`<strong>${tree.last_component}</strong> acked last` : "no component has named itself in an ack"}.
      Set <code>trace</code> of the topology, or of an init, to see the edges of the next ones.</p></section>`;
  }
  const open = tree.edges.filter((edge) => edge.state === "open");
  const kept = all ? new Set(tree.edges.slice(0, MOST_SHOWN).map((edge) => edge.edge_id))
    : pathsTo(tree.edges, (edge) => edge.state !== "acked");
  return html`<section aria-label="Tree">
    <h2>Tree</h2>
    <p id="open-edges">${count(open.length)} of ${count(tree.edges.length)} edges are open${
      open.length ? html`, made by ${[...new Set(open.map((edge) => edge.component || "an unnamed component"))].join(", ")}` : ""}.
      ${tree.truncated ? "Some edges or acks are missing here: an operation named none, or came before the root was traced, or the trace reached its bound." : ""}</p>
    <label class="tick"><input type="checkbox" checked=${all} onChange=${(event) => setAll(event.target.checked)} />
      Show acked edges too${tree.edges.length > MOST_SHOWN ? ` (the first ${MOST_SHOWN})` : ""}</label>
    <${Edges} below=${childrenOf(tree.edges)} parent=${ROOT} kept=${kept} now_ms=${Date.now()} above=${new Set()} />
  </section>`;
}

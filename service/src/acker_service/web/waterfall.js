// Lays the tree of a traced root out over time: one row an edge, parents before children. All functions are pure.

export const UNNAMED = "unnamed component";

// The edges by the edge that they came from; one whose parent is not among them stands below the root, "".
function childrenOf(edges) {
  const ids = new Set(edges.map((edge) => edge.edge_id));
  const below = new Map();
  for (const edge of edges) {
    const parent = ids.has(edge.parent) ? edge.parent : "";
    if (below.has(parent)) below.get(parent).push(edge);
    else below.set(parent, [edge]);
  }
  return below;
}

// An edge as a bar: from when it was sent to when it ended, or to `until_ms` while it is open. An edge of which the sending
// is not known begins where its parent ended.
function barOf(edge, above, began_ms, until_ms) {
  const begin_ms = edge.sent_at_ms ?? above?.end_ms ?? began_ms;
  const end_ms = Math.max(begin_ms, edge.state === "open" ? until_ms : edge.since_at_ms);
  const bar = { edge, above, level: above ? above.level + 1 : 1, begin_ms, end_ms, children: 0, is_on_path: false, is_slowest: false };
  bar.first = above ? above.first : bar;
  return bar;
}

// All bars, parents before their children; edges that only lead to each other are below the root.
function barsOf(edges, began_ms, until_ms) {
  const below = childrenOf(edges);
  const bars = new Map();
  const walk = (first) => {
    const left = first.map((edge) => [edge, null]).reverse();
    while (left.length) {
      const [edge, above] = left.pop();
      if (bars.has(edge.edge_id)) continue;
      const bar = barOf(edge, above, began_ms, until_ms);
      bars.set(edge.edge_id, bar);
      if (above) above.children += 1;
      left.push(...(below.get(edge.edge_id) || []).map((child) => [child, bar]).reverse());
    }
  };
  walk(below.get("") || []);
  for (const edge of edges) if (!bars.has(edge.edge_id)) walk([edge]);
  return [...bars.values()];
}

// Whether one bar is a later end of the longest path than another: it ended later; else its path began earlier; else it
// lasted longer.
const isLater = (one, other) =>
  one.end_ms !== other.end_ms ? one.end_ms > other.end_ms
    : one.first.begin_ms !== other.first.begin_ms ? one.first.begin_ms < other.first.begin_ms
      : one.begin_ms < other.begin_ms;

// Mark the longest path: from the edge that ended last up to the root. Gives its time and its slowest edge; null without edges.
function markPath(bars) {
  if (!bars.length) return null;
  const last = bars.reduce((best, bar) => (isLater(bar, best) ? bar : best));
  const path = [];
  for (let bar = last; bar; bar = bar.above) path.push(bar);
  const slowest = path.reduce((best, bar) => (lasted(bar) >= lasted(best) ? bar : best));
  for (const bar of path) bar.is_on_path = true;
  slowest.is_slowest = true;
  return { edges: path.length, ms: last.end_ms - path.at(-1).begin_ms, slowest };
}

export const lasted = (bar) => bar.end_ms - bar.begin_ms;

// What worked on the tuple of an edge: what acked or failed it; of an open one only what sent it is known.
export const workerOf = ({ state, ended_by }) => ended_by ?? (state === "acked" ? UNNAMED : "nobody yet");

// The rows of a tree of the contract, where it begins and ends, and its longest path. Open edges reach to now, or to the
// end of the root.
export function layOut(tree, now_ms) {
  const known = tree.edges.flatMap((edge) => [edge.sent_at_ms, edge.since_at_ms]).filter((at) => at !== null && at !== undefined);
  const began_ms = Math.min(...known);
  const until_ms = tree.ended_at_ms ?? Math.max(now_ms, ...known);
  const bars = barsOf(tree.edges, began_ms, until_ms);
  return { bars, began_ms, ended_ms: Math.max(began_ms, ...bars.map((bar) => bar.end_ms)), path: markPath(bars) };
}

// The bars that a way to an open or failed edge passes: the part of a large tree that matters.
export function unfinished(bars) {
  const kept = new Set();
  for (const bar of bars) {
    for (let at = bar.edge.state === "acked" ? null : bar; at && !kept.has(at); at = at.above) kept.add(at);
  }
  return bars.filter((bar) => kept.has(bar));
}

// The bars that are not below a folded edge.
export const visible = (bars, folded) => {
  const hidden = new Set();
  return bars.filter((bar) => {
    const isHidden = bar.above !== null && (hidden.has(bar.above) || folded.has(bar.above.edge.edge_id));
    if (isHidden) hidden.add(bar);
    return !isHidden;
  });
};

// The value below which a share of ascending numbers lies; null without any.
export const percentile = (sorted, share) => (sorted.length ? sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] : null);

// How long the edges took, by the component that ended them, the slowest first; open edges are not among them.
export function byComponent(bars) {
  const times = new Map();
  for (const bar of bars) {
    if (bar.edge.ended_by === null || bar.edge.ended_by === undefined) continue;
    if (!times.has(bar.edge.ended_by)) times.set(bar.edge.ended_by, []);
    times.get(bar.edge.ended_by).push(lasted(bar));
  }
  const rows = [...times].map(([component, list]) => {
    const sorted = list.sort((one, other) => one - other);
    return {
      component, edges: sorted.length, p50_ms: percentile(sorted, 0.5), p95_ms: percentile(sorted, 0.95),
      p99_ms: percentile(sorted, 0.99), most_ms: sorted.at(-1),
    };
  });
  return rows.sort((one, other) => other.most_ms - one.most_ms);
}

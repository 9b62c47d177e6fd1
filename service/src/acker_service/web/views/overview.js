// The overview: trouble first, then all topologies.

import { Sparkline } from "../chart.js";
import { age, count, rate } from "../format.js";
import { rateOf, ringOf, useLive } from "../live.js";
import { Trouble } from "../trouble.js";
import { Table, link } from "../ui.js";
import { html } from "../vendor/preact-htm.js";

const OUTCOMES = ["acked", "failed", "timed_out"];

// How many roots ended in each of the last seconds.
function endedEach(topology) {
  const ring = ringOf(topology);
  const total = (point) => OUTCOMES.reduce((sum, name) => sum + point[name], 0);
  return ring.slice(1).map((point, n) => Math.max(0, total(point) - total(ring[n])));
}

export function Overview() {
  const live = useLive();
  const trouble = html`<${Trouble} live=${live} />`;
  if (live.topologies === undefined) return html`<h1>Topologies</h1><p class="muted">Waiting for the first second…</p>${live.problem && trouble}`;
  const columns = [
    ["Topology", (row) => html`<a href=${link("t", row.topology)}>${row.topology}</a>`],
    ["Acked/s", (row) => rate(rateOf(row.topology, "acked")), "number"],
    ["Ended", (row) => html`<${Sparkline} values=${endedEach(row.topology)} label="roots ended each second" />`],
    ["Pending", (row) => count(row.pending), "number"],
    ["Oldest", (row) => age(row.oldest_pending_at_ms, live.at_ms), "number"],
    ["Unread", (row) => count(row.unread), "number"],
    ["Acked", (row) => count(row.counts.acked), "number"],
    ["Failed", (row) => count(row.counts.failed), "number"],
    ["Timed out", (row) => count(row.counts.timed_out), "number"],
  ];
  return html`
    <h1>Topologies</h1>
    ${trouble}
    <${Table} caption="Topologies" columns=${columns} rows=${live.topologies} keyOf=${(row) => row.topology}
      empty="No topology that this key is for." />`;
}

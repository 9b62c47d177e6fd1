// The overview: trouble first, then all topologies.

import { Sparkline } from "../chart.js";
import { age, count, rate, took } from "../format.js";
import { clock, endedOf, rateOf, useLive, withHistory } from "../live.js";
import { Trouble, useFindings } from "../trouble.js";
import { Table, link } from "../ui.js";
import { html } from "../vendor/preact-htm.js";
import { FirstMessage } from "./first_message.js";

// A percentile of the complete latency, in the last step of the history that has one.
const percentile = (points, name) => took(points.findLast((point) => (point[name] ?? null) !== null)?.[name]);

// Whether anything was ever sent to a topology, as far as it tells.
const isUsed = ({ pending, unread, counts }) => pending + unread + Object.values(counts).reduce((sum, each) => sum + each, 0) > 0;

export function Overview() {
  const live = useLive();
  const looked = useFindings(live);
  const pointsOf = (row) => looked?.history[row.topology]?.points || [];
  const columns = [
    ["Topology", (row) => html`<a href=${link("t", row.topology)}>${row.topology}</a>`],
    ["Acked/s", (row) => rate(rateOf(row.topology, "acked")), "number"],
    ["Ended, 10 min", (row) => html`<${Sparkline} label="roots that ended, over ten minutes"
      points=${withHistory(row.topology, looked?.history[row.topology]).map(endedOf)} />`],
    ["p50", (row) => percentile(pointsOf(row), "p50_ms"), "number"],
    ["p95", (row) => percentile(pointsOf(row), "p95_ms"), "number"],
    ["p99", (row) => percentile(pointsOf(row), "p99_ms"), "number"],
    ["p95, 10 min", (row) => html`<${Sparkline} label="95th percentile of the complete latency, over ten minutes"
      points=${pointsOf(row).filter(({ p95_ms }) => (p95_ms ?? null) !== null).map(({ at_ms, p95_ms }) => ({ at_ms, value: p95_ms }))} />`],
    ["Pending", (row) => count(row.pending), "number"],
    ["Oldest", (row) => age(row.oldest_pending_at_ms, clock()), "number"],
    ["Unread", (row) => count(row.unread), "number"],
    ["Acked", (row) => count(row.counts.acked), "number"],
    ["Failed", (row) => count(row.counts.failed), "number"],
    ["Timed out", (row) => count(row.counts.timed_out), "number"],
  ];
  return html`<div>
    <h1>Topologies</h1>
    ${(live.topologies || live.problem) && html`<${Trouble} looked=${looked} />`}
    ${live.topologies?.length > 0 && !live.topologies.some(isUsed) && html`<${FirstMessage} topology=${live.topologies[0].topology} />`}
    ${live.topologies ? html`<${Table} caption="Topologies" columns=${columns} rows=${live.topologies} keyOf=${(row) => row.topology}
      empty="No topology that this key is for." />` : !live.problem && html`<p class="muted">Waiting for the first second…</p>`}</div>`;
}

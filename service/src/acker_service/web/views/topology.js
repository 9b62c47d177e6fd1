// One topology: its counts, what happened over time, pending roots by age, failures by component and reason.

import { get, topologyPath, withQuery } from "../api.js";
import { Bar, Chart } from "../chart.js";
import { age, count, duration, rate, took } from "../format.js";
import { OUTCOMES, clock, perSecond, rateOf, useLive, withHistory } from "../live.js";
import { RangeFields, rangeOf, rangeOfForm } from "../range.js";
import { Badge, Facts, Failure, Table, Time, link, useLoaded } from "../ui.js";
import { html } from "../vendor/preact-htm.js";

const LIVE = "10m";
const ALL = "all";
const WINDOWS = [[LIVE, "10 min"], ["3h", "3 h"], ["1d", "1 d"], [ALL, "All time"]];
const SAMPLE = 1_000;
const REACHES = [[600_000, LIVE], [10_800_000, "3h"], [86_400_000, "1d"]];
const EVERY_MS = 10_000;

export const Tabs = ({ topology, at }) => html`<nav class="tabs" aria-label=${`Topology ${topology}`}>
  ${[["Overview", []], ["Roots", ["roots"]], ["Failures", ["failures"]], ["Spout tasks", ["spouts"]]].map(([name, below]) =>
    html`<a key=${name} href=${link("t", topology, ...below)} aria-current=${name === at ? "page" : null}>${name}</a>`)}
</nav>`;

// The one point of all time.
function Totals({ document: { step_ms, points: [point] } }) {
  return html`<${Facts} tiles facts=${[
    ["Since", `${duration(step_ms)} ago`],
    ["Emitted", count(point.emitted)], ["Acked", count(point.acked)], ["Failed", count(point.failed)], ["Timed out", count(point.timed_out)],
    ["Latency p50", took(point.p50_ms)], ["Latency p95", took(point.p95_ms)], ["Latency p99", took(point.p99_ms)],
  ]} />`;
}

// The window of the history that a range of one's own lies in: the smallest that reaches back to its beginning.
const windowFor = (from_ms) => (REACHES.find(([ms]) => clock() - from_ms <= ms) || REACHES.at(-1))[1];

function OwnRange({ topology, query }) {
  const show = (event) => {
    event.preventDefault();
    location.hash = withQuery(link("t", topology), rangeOfForm(Object.fromEntries(new FormData(event.target))));
  };
  return html`<form class="row" aria-label="Range of one's own" onSubmit=${show} key=${JSON.stringify(query)}>
    <${RangeFields} query=${query} /><button type="submit">Show</button>
  </form>`;
}

function Over({ topology, query }) {
  const { from_ms, to_ms } = rangeOf(query);
  const isOwn = from_ms !== undefined || to_ms !== undefined;
  const shown = isOwn ? windowFor(from_ms ?? 0) : query.window || LIVE;
  const setShown = (name) => { location.hash = withQuery(link("t", topology), { window: name === LIVE ? "" : name }); };
  const { document, problem } = useLoaded(
    () => get(withQuery(topologyPath(topology, "history"), { window: shown })), `${topology} ${shown}`, EVERY_MS);
  const isIn = ({ at_ms }) => at_ms >= (from_ms ?? 0) && at_ms <= (to_ms ?? Infinity);
  const points = (shown === LIVE && !isOwn ? withHistory(topology, document) : perSecond(document)).filter(isIn);
  const latencies = (document?.points || []).filter(isIn);
  return html`<section aria-label="Over time">
    <h2>Over time</h2>
    <div class="row" role="group" aria-label="Window">
      ${WINDOWS.map(([name, label]) => html`<button type="button" key=${name} aria-pressed=${!isOwn && name === shown} onClick=${() => setShown(name)}>
        ${label}</button>`)}
    </div>
    <${OwnRange} topology=${topology} query=${query} />
    ${isOwn && document && html`<p class="muted" role="status">${count(points.length)} points of ${duration(document.step_ms)} each; the history reaches back a day.</p>`}
    <${Failure} problem=${problem} />
    ${shown === ALL ? document && html`<${Totals} document=${document} />` : html`<div class="charts">
      <${Chart} title="Roots that ended, per second" points=${points} names=${OUTCOMES} />
      <${Chart} title="Pending and unread" points=${points} names=${["pending", "unread"]} />
      <${Chart} title="Complete latency, ms" points=${latencies} names=${["p50_ms", "p95_ms", "p99_ms"]} />
    </div>`}
  </section>`;
}

const nameOf = ({ from_ms, to_ms }) =>
  to_ms === null ? `over ${duration(from_ms)}` : from_ms ? `${duration(from_ms)} to ${duration(to_ms)}` : `under ${duration(to_ms)}`;

function ByAge({ topology }) {
  const path = topologyPath(topology, "ages");
  const { document, problem } = useLoaded(() => get(path), path, EVERY_MS);
  if (!document) return html`<${Failure} problem=${problem} />`;
  const { ages, pending, counted, is_sample } = document;
  const top = Math.max(1, ...ages.map((group) => group.roots));
  const number = ({ roots }) => (is_sample ? `about ${count(Math.round((pending * roots) / Math.max(1, counted)))}` : count(roots));
  return html`<section aria-label="Pending by age">
    <h2>Pending by age</h2>
    <p class="muted" id="counted">${is_sample ? `A sample: ${count(counted)} of ${count(pending)} pending roots, drawn by lot.`
      : `All ${count(counted)} pending roots were counted.`}</p>
    <${Table} caption="Pending by age" rows=${ages} keyOf=${(group) => group.from_ms} columns=${[
      ["Age", nameOf],
      ["Roots", number, "number"],
      ["Share", (group) => html`<${Bar} value=${group.roots} most=${top} />`],
    ]} />
  </section>`;
}

// Of topologies without a traced root only how to trace some.
function ByComponent({ topology }) {
  const path = topologyPath(topology, "components");
  const { document, problem } = useLoaded(() => get(path), path, EVERY_MS);
  if (!document) return html`<${Failure} problem=${problem} />`;
  return html`<section aria-label="Time by component">
    <h2>Time by component</h2>
    ${document.traces ? html`<p class="muted">From when a tuple was sent until it was acked or failed: in the queue, and at work. Of the ${
      count(document.traces)} roots that were traced last, whatever the range above.</p>`
      : html`<p class="muted">No root is traced. Set <code>trace</code> of the topology to see how long each component takes:${" "}
        <code>acker topology set ${topology} --trace 0.01</code>.</p>`}
    ${document.traces > 0 && html`<${Table} caption="Time by component" rows=${document.components} keyOf=${(row) => row.component}
      empty="No component named itself in an ack." columns=${[
        ["Component", (row) => row.component], ["Edges", (row) => count(row.edges), "number"], ["p50", (row) => took(row.p50_ms), "number"],
        ["p95", (row) => took(row.p95_ms), "number"], ["p99", (row) => took(row.p99_ms), "number"],
      ]} />`}
  </section>`;
}

// Failures counted by outcome, component and reason, most frequent first.
export function grouped(failures) {
  const groups = new Map();
  for (const { outcome, component, reason, at_ms } of failures) {
    const name = JSON.stringify([outcome, component, reason]);
    const group = groups.get(name) || { name, outcome, component, reason, number: 0, at_ms };
    group.number += 1;
    group.at_ms = Math.max(group.at_ms, at_ms);
    groups.set(name, group);
  }
  return [...groups.values()].sort((one, other) => other.number - one.number);
}

function Groups({ topology }) {
  const { document, problem } = useLoaded(
    () => get(withQuery(topologyPath(topology, "failures"), { limit: SAMPLE })), topology, EVERY_MS);
  const group = ({ outcome, component, reason }) => withQuery(link("t", topology, "failures"), { outcome, component, reason });
  return html`<section aria-label="Failures">
    <h2>Failures by component and reason</h2>
    <${Failure} problem=${problem} />
    ${document?.cursor && html`<p class="muted">Of the newest ${count(document.failures.length)} failures; a filter of all of them is under Failures.</p>`}
    ${document && html`<${Table} caption="Failures by component and reason" rows=${grouped(document.failures)}
      keyOf=${(row) => row.name} empty="None in the last day." columns=${[
        ["Component", (row) => html`<a href=${group(row)}>${row.component ?? "unnamed"}</a>`],
        ["Reason", (row) => row.reason ?? "–", "text"],
        ["Outcome", (row) => html`<${Badge} name=${row.outcome} />`],
        ["Roots", (row) => count(row.number), "number"],
        ["Last", (row) => html`<${Time} at_ms=${row.at_ms} />`, "time"],
      ]} />`}
  </section>`;
}

function Numbers({ shown, at_ms }) {
  return html`<div>
    <${Facts} tiles facts=${[
      ["Pending", count(shown.pending)],
      ["Oldest", age(shown.oldest_pending_at_ms, at_ms)],
      ["Unread", count(shown.unread)],
      ["Acked/s", rate(rateOf(shown.topology, "acked"))],
      ["Acked", count(shown.counts.acked)],
      ["Failed", count(shown.counts.failed)],
      ["Timed out", count(shown.counts.timed_out)],
    ]} />
    <${Facts} facts=${[
      ["Message timeout", duration(shown.message_timeout_ms)],
      ["Progress timeout", shown.progress_timeout_ms ? duration(shown.progress_timeout_ms) : "none"],
      ["Dedupe window", shown.dedupe_automatic ? "as the message timeout" : shown.dedupe_window_ms ? duration(shown.dedupe_window_ms) : "none"],
      ["Max spout pending", shown.max_spout_pending ? count(shown.max_spout_pending) : "no limit"],
      ["Traced", shown.trace ? `${shown.trace * 100} % of the roots` : "roots that ask for it"],
      ["Ackers", shown.ackers],
      ["Acked or failed without an init", count(shown.counts.dropped)],
      ["Acked more often than sent", count(shown.counts.unbalanced)],
    ]} /></div>`;
}

export function Topology({ names: [topology], query }) {
  const live = useLive();
  const shown = live.topologies?.find((each) => each.topology === topology);
  return html`<div>
    <h1>${topology}</h1>
    <${Tabs} topology=${topology} at="Overview" />
    ${shown ? html`<${Numbers} shown=${shown} at_ms=${clock()} />` : html`<p class="muted">Waiting for the first second…</p>`}
    <${Over} topology=${topology} query=${query} />
    <${ByComponent} topology=${topology} />
    <${ByAge} topology=${topology} />
    <${Groups} topology=${topology} /></div>`;
}

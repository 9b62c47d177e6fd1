// One topology: its counts, what happened over time, pending roots by age, failures by component and reason.

import { get, topologyPath, withQuery } from "../api.js";
import { Chart } from "../chart.js";
import { age, count, duration, rate, time } from "../format.js";
import { rateOf, ringOf, useLive } from "../live.js";
import { Facts, Failure, Table, link, useLoaded } from "../ui.js";
import { html, useState } from "../vendor/preact-htm.js";

const WINDOWS = ["live", "10m", "3h", "1d"];
const OUTCOMES = ["acked", "failed", "timed_out"];
const AGES = [["under 1 s", 1_000], ["1 to 10 s", 10_000], ["10 s to 1 min", 60_000], ["1 to 10 min", 600_000], ["over 10 min", Infinity]];
const SAMPLE = 1_000;

export const Tabs = ({ topology, at }) => html`<nav class="tabs" aria-label=${`Topology ${topology}`}>
  ${[["Overview", []], ["Roots", ["roots"]], ["Failures", ["failures"]], ["Spout tasks", ["spouts"]]].map(([name, below]) =>
    html`<a key=${name} href=${link("t", topology, ...below)} aria-current=${name === at ? "page" : null}>${name}</a>`)}
</nav>`;

// What a live ring of totals counts in each second, as the points of a history do.
function stepsOf(ring) {
  return ring.slice(1).map((point, n) => ({
    ...point, ...Object.fromEntries(OUTCOMES.map((name) => [name, Math.max(0, point[name] - ring[n][name])])),
  }));
}

function Over({ topology }) {
  const [window_, setWindow] = useState("live");
  const history = useLoaded(
    () => get(withQuery(topologyPath(topology, "history"), { window: window_ === "live" ? "10m" : window_ })),
    `${topology} ${window_}`, window_ === "live" ? 0 : 10_000);
  const isLive = window_ === "live";
  const points = isLive ? stepsOf(ringOf(topology)) : history.document?.points || [];
  const step = isLive ? "in each second" : `in each ${duration(history.document?.step_ms)}`;
  return html`<section aria-label="Over time">
    <h2>Over time</h2>
    <div class="row" role="group" aria-label="Window">
      ${WINDOWS.map((name) => html`<button type="button" key=${name} aria-pressed=${name === window_} onClick=${() => setWindow(name)}>
        ${name}</button>`)}
    </div>
    ${!isLive && html`<${Failure} problem=${history.problem} />`}
    <${Chart} title=${`Roots that ended, ${step}`} points=${points} names=${OUTCOMES} />
    <${Chart} title="Pending and unread" points=${points} names=${["pending", "unread"]} />
    ${!isLive && html`<${Chart} title="Complete latency, ms" points=${points} names=${["p50_ms", "p99_ms"]} />`}
  </section>`;
}

function ByAge({ topology }) {
  const { document, problem } = useLoaded(
    () => get(withQuery(topologyPath(topology, "roots"), { limit: SAMPLE })), topology, 10_000);
  if (!document) return html`<${Failure} problem=${problem} />`;
  const rows = AGES.map(([name, most], n) => {
    const least = n ? AGES[n - 1][1] : 0;
    return { name, number: document.roots.filter((root) => root.age_ms >= least && root.age_ms < most).length };
  });
  const top = Math.max(1, ...rows.map((row) => row.number));
  return html`<section aria-label="Pending by age">
    <h2>Pending by age</h2>
    ${document.cursor && html`<p class="muted">Of the first ${count(document.roots.length)} roots listed.</p>`}
    <${Table} caption="Pending by age" rows=${rows} keyOf=${(row) => row.name} columns=${[
      ["Age", (row) => row.name],
      ["Roots", (row) => count(row.number), "number"],
      ["", (row) => html`<meter min="0" max=${top} value=${row.number} aria-label=${row.name}></meter>`],
    ]} />
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
    () => get(withQuery(topologyPath(topology, "failures"), { limit: SAMPLE })), topology, 10_000);
  return html`<section aria-label="Failures">
    <h2>Failures by component and reason</h2>
    <${Failure} problem=${problem} />
    ${document && html`<${Table} caption="Failures by component and reason" rows=${grouped(document.failures)}
      keyOf=${(row) => row.name} empty="None in the last day." columns=${[
        ["Roots", (row) => count(row.number), "number"],
        ["Outcome", (row) => row.outcome],
        ["Component", (row) => row.component ?? "–"],
        ["Reason", (row) => row.reason ?? "–"],
        ["Last", (row) => time(row.at_ms)],
      ]} />`}
  </section>`;
}

export function Topology({ names: [topology] }) {
  const live = useLive();
  const shown = live.topologies?.find((each) => each.topology === topology);
  const facts = shown && [
    ["Pending", count(shown.pending)],
    ["Oldest pending", age(shown.oldest_pending_at_ms, live.at_ms)],
    ["Unread", count(shown.unread)],
    ["Acked/s", rate(rateOf(topology, "acked"))],
    ["Acked", count(shown.counts.acked)],
    ["Failed", count(shown.counts.failed)],
    ["Timed out", count(shown.counts.timed_out)],
    ["Dropped", count(shown.counts.dropped)],
    ["Unbalanced", count(shown.counts.unbalanced)],
    ["Ackers", shown.ackers],
    ["Message timeout", duration(shown.message_timeout_ms)],
    ["Progress timeout", shown.progress_timeout_ms ? duration(shown.progress_timeout_ms) : "none"],
    ["Most pending of a spout task", shown.max_spout_pending ? count(shown.max_spout_pending) : "no limit"],
    ["Traced", shown.trace ? `${shown.trace * 100} %` : "those that ask for it"],
  ];
  return html`
    <h1>${topology}</h1>
    <${Tabs} topology=${topology} at="Overview" />
    ${facts ? html`<${Facts} facts=${facts} />` : html`<p class="muted">This topology is not known yet.</p>`}
    <${Over} topology=${topology} />
    <${ByAge} topology=${topology} />
    <${Groups} topology=${topology} />`;
}

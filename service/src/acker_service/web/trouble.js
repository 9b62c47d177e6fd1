// Trouble first: reads what the rules of doctor judge, and shows what they find, each with its entry of the runbook.

import { get, topologyPath, withQuery } from "./api.js";
import { SILENT_MS, judge } from "./doctor.js";
import { age } from "./format.js";
import { link, useLoaded } from "./ui.js";
import { html } from "./vendor/preact-htm.js";

const EVERY_MS = 10_000;
const MOST_TOPOLOGIES = 30;
const SAMPLE = 100;

// What is known of the store without a key for the status.
const AWAY = { store: { up: false, url: "the address in its settings" } };

// What cannot be read is missing, and its rules find nothing: a key may not be for it.
const orNothing = (asked) => asked.catch(() => null);

async function byTopology(names, load) {
  const documents = await Promise.all(names.map((name) => orNothing(load(name))));
  return Object.fromEntries(names.map((name, n) => [name, documents[n]]).filter(([, document]) => document));
}

async function evidence(live) {
  const topologies = live.topologies || [];
  const busy = topologies.filter(({ pending, unread }) => pending || unread);
  const names = [...new Set([...busy, ...topologies])].slice(0, MOST_TOPOLOGIES).map(({ topology }) => topology);
  const silent = { no_ack_for_ms: SILENT_MS, limit: SAMPLE };
  const pending = busy.filter((each) => each.pending).map(({ topology }) => topology).slice(0, MOST_TOPOLOGIES);
  const away = live.problem !== null;
  const timedOut = { outcome: "timed_out", limit: SAMPLE };
  const late = topologies.filter(({ counts }) => counts.timed_out).map(({ topology }) => topology).slice(0, MOST_TOPOLOGIES);
  const [status, spouts, history, silent_roots, timed_out] = await Promise.all([
    orNothing(get("/v1/status")),
    away ? {} : byTopology(names, async (name) => (await get(topologyPath(name, "spouts"))).spouts),
    away ? {} : byTopology(names, (name) => get(withQuery(topologyPath(name, "history"), { window: "10m" }))),
    away ? {} : byTopology(pending, async (name) => (await get(withQuery(topologyPath(name, "roots"), silent))).roots),
    away ? {} : byTopology(late, async (name) => (await get(withQuery(topologyPath(name, "failures"), timedOut))).failures),
  ]);
  const known = status ?? (live.problem?.code === "store_unavailable" ? AWAY : null);
  return { now_ms: status?.now_ms ?? live.at_ms, status: known, topologies: away ? [] : topologies, spouts, history, silent_roots, timed_out };
}

// The findings and the history of each topology that they were found in; undefined until the first look has ended.
export function useFindings(live) {
  const key = `${live.problem?.code || "live"} ${live.topologies === undefined ? "" : "known"}`;
  const { document } = useLoaded(async () => {
    const seen = await evidence(live);
    return { findings: judge(seen), history: seen.history, now_ms: seen.now_ms, has_status: seen.status !== null };
  }, key, EVERY_MS);
  return document;
}

// Where a finding leads to on this page.
function placeOf({ rule, topology, spout_task: task, do: does }) {
  if (task) return link("t", topology, "spouts", task);
  const root = /\b[0-9a-f]{16}\b/.exec(does);
  if (topology && root) return link("t", topology, "roots", root[0]);
  if (rule === "nothing-ends") return `${link("t", topology, "roots")}?no_ack_for_ms=${SILENT_MS}`;
  if (["roots-time-out", "roots-fail"].includes(rule)) return `${link("t", topology, "failures")}?outcome=${/outcome (\w+)/.exec(does)?.[1] || ""}`;
  return link("system");
}

// What to do, its command of the command line in its own type.
function Advice({ text }) {
  const [before, command, after] = /^(.*?)(\backer [a-z-]+(?: (?:[^\s;]+))*)(.*)$/.exec(text)?.slice(1) || [text, "", ""];
  return html`${before}${command && html`<code>${command}</code>`}${after}`;
}

const Finding = ({ found, now_ms }) => html`<div class="finding">
  <a href=${placeOf(found)}>${found.what}</a>${found.since_at_ms && html`<span class="muted">, for ${age(found.since_at_ms, now_ms)}</span>`}
  <p>To do: <${Advice} text=${found.do} />.</p>
</div>`;

// The findings by rule, in the order of the first of each.
function byRule(findings) {
  const groups = new Map();
  for (const found of findings) groups.set(found.rule, [...(groups.get(found.rule) || []), found]);
  return [...groups.values()];
}

const titleOf = (rule) => rule.replaceAll("-", " ").replace(/^./, (letter) => letter.toUpperCase());

// What one rule found, as one card that folds; a rule that found several things is folded at first.
const Card = ({ group: [first, ...others], now_ms }) => html`<li class=${first.level}>
  <details open=${!others.length}>
    <summary><strong>${first.level === "trouble" ? "Trouble" : "Warning"}:</strong> ${titleOf(first.rule)}${
      others.length > 0 && html`, ${others.length + 1} findings <span class="muted">– ${first.what}</span>`}</summary>
    ${[first, ...others].map((found) => html`<${Finding} key=${found.what} found=${found} now_ms=${now_ms} />`)}
    <p><a href=${link("runbook", first.rule)}>Runbook: ${first.rule.replaceAll("-", " ")}</a></p>
  </details>
</li>`;

export function Trouble({ looked }) {
  if (!looked) return html`<p class="muted">Looking for trouble…</p>`;
  if (!looked.findings.length) {
    const unseen = looked.has_status ? "" : " A key of scope admin also shows the store and the processes.";
    return html`<p class="well" id="trouble">No trouble found.${unseen}</p>`;
  }
  return html`<section id="trouble" aria-label="Trouble">
    <ul class="findings">
      ${byRule(looked.findings).map((group) => html`<${Card} key=${group[0].rule} group=${group} now_ms=${looked.now_ms} />`)}
    </ul>
  </section>`;
}

// The tree of a traced root as a waterfall: one bar an edge, from when it was sent to when it was acked.

import { get, topologyPath } from "../api.js";
import { count, took } from "../format.js";
import { clock } from "../live.js";
import { Copy, Facts, Failure, Table, Time, useLoaded } from "../ui.js";
import { html, useMemo, useRef, useState } from "../vendor/preact-htm.js";
import { UNNAMED, byComponent, lasted, layOut, unfinished, visible, workerOf } from "../waterfall.js";

const EVERY_MS = 3_000;
const MOST_ROWS = 1_000;
const WIDTH = 1_000;
const LEAST_WIDTH = 4;
const STEPS = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 };

// How an edge stands, in words.
function stateOf(bar, isOver) {
  const time = took(lasted(bar));
  if (bar.edge.state === "acked") return time;
  return bar.edge.state === "failed" ? `failed after ${time}` : isOver ? `never acked, ${time}` : `open for ${time}`;
}

const sentBy = ({ edge }) => (edge.component ? `from ${edge.component}` : "");

function Bar({ bar, laid }) {
  const whole = Math.max(1, laid.ended_ms - laid.began_ms);
  const width = Math.max(LEAST_WIDTH, (WIDTH * lasted(bar)) / whole);
  const x = Math.min((WIDTH * (bar.begin_ms - laid.began_ms)) / whole, WIDTH - width);
  return html`<svg class="span" viewBox=${`0 0 ${WIDTH} 10`} preserveAspectRatio="none" aria-hidden="true">
    <line x1="0" x2=${WIDTH} y1="5" y2="5" /><rect x=${x} width=${width} height="10" />
  </svg>`;
}

function Row({ bar, laid, isFolded, isFirst, isOver, onFold, onChoose }) {
  const { edge, level } = bar;
  const state = stateOf(bar, isOver);
  const unseen = `sent after ${took(bar.begin_ms - laid.began_ms)}${bar.is_on_path ? ", on the longest path" : ""}`;
  return html`<div role="treeitem" class=${`edge ${edge.state}${bar.is_on_path ? " path" : ""}`} aria-level=${level}
      aria-expanded=${bar.children ? String(!isFolded) : null} tabindex=${isFirst ? 0 : -1} data-edge=${edge.edge_id}
      style=${{ "--level": level - 1 }} onFocus=${() => onChoose(edge.edge_id)}>
    <span class="who"><span class="fold" aria-hidden="true" onClick=${() => bar.children && onFold(edge.edge_id)}>${bar.children ? (isFolded ? "▸" : "▾") : ""}</span><b>${
      workerOf(edge)}</b> <small>${sentBy(bar)}</small></span>
    <${Bar} bar=${bar} laid=${laid} />
    <span class="took">${state}${bar.is_slowest ? html`<small> slowest</small>` : ""}</span>
    <span class="id"><span class="hidden">${unseen}, edge </span>${edge.edge_id}</span>
  </div>`;
}

// The next row for a key; arrows to the sides fold and unfold, or lead to the parent and to the first child.
function rowFor(key, row, fold) {
  const rows = [...row.parentNode.children];
  const at = rows.indexOf(row);
  const level = (each) => Number(each.ariaLevel);
  const expanded = row.getAttribute("aria-expanded");
  if (key === "Home") return rows[0];
  if (key === "End") return rows.at(-1);
  if (key in STEPS) return rows[Math.min(rows.length - 1, Math.max(0, at + STEPS[key]))];
  if (key === "ArrowRight" && expanded === "false") fold(row.dataset.edge);
  else if (key === "ArrowRight" && expanded === "true") return rows[at + 1];
  else if (key === "ArrowLeft" && expanded === "true") fold(row.dataset.edge);
  else if (key === "ArrowLeft") return rows.slice(0, at).reverse().find((each) => level(each) < level(row)) || row;
  return row;
}

const KEYS = new Set(["Home", "End", "ArrowRight", "ArrowLeft", ...Object.keys(STEPS)]);

// A list of a thousand rows is one stop of the Tab key; the row that the keys lead to has the focus.
function Rows({ bars, laid, folded, isOver, onFold, onChoose }) {
  const press = (event) => {
    const row = event.target.closest("[role=treeitem]");
    if (!row || !KEYS.has(event.key) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    focusOn(rowFor(event.key, row, onFold));
  };
  const focusOn = (row) => {
    for (const each of row.parentNode.querySelectorAll('[tabindex="0"]')) each.tabIndex = -1;
    row.tabIndex = 0;
    row.focus();
  };
  const click = (event) => {
    const row = event.target.closest("[role=treeitem]");
    if (row) focusOn(row);
  };
  return html`<div role="tree" class="waterfall" aria-label="Edges over time" onKeyDown=${press} onClick=${click}>
    ${bars.map((bar, n) => html`<${Row} key=${bar.edge.edge_id} bar=${bar} laid=${laid} isFolded=${folded.has(bar.edge.edge_id)} isFirst=${n === 0}
      isOver=${isOver} onFold=${onFold} onChoose=${onChoose} />`)}
  </div>`;
}

const Legend = ({ isOver }) => html`<ul class="legend" aria-label="Legend">
  <li class="acked"><i></i>acked</li>
  <li class="open"><i></i>${isOver ? "never acked" : "open, up to now"}</li>
  <li class="failed"><i></i>failed</li>
  <li class="path"><i></i>on the longest path</li>
</ul>`;

function Path({ path }) {
  if (!path) return null;
  const { slowest } = path;
  return html`<p id="longest-path">The longest path took <strong>${took(path.ms)}</strong> over ${count(path.edges)} ${path.edges === 1 ? "edge" : "edges"};
    its slowest edge took <strong>${took(lasted(slowest))}</strong>, ${
      slowest.edge.ended_by ? html`at <strong>${slowest.edge.ended_by}</strong>` : html`sent by <strong>${slowest.edge.component ?? UNNAMED}</strong> and ${
        slowest.edge.state === "open" ? "not acked yet" : "ended by no component that named itself"}`}.
    <span class="muted"> It leads from the edge that ended last up to the root; of several open edges, the one whose path began first, then the one that is
    open longest. An edge's time is from when its tuple was sent until that was acked: in the queue, and at work.</span></p>`;
}

function Chosen({ bar, laid, isOver }) {
  if (!bar) return html`<p class="muted">Choose an edge to see its times: by a click, or with the arrow keys; left and right fold and unfold.</p>`;
  const { edge } = bar;
  return html`<section aria-label="Chosen edge"><${Facts} facts=${[
    ["Edge", html`<span class="id">${edge.edge_id}</span> <${Copy} text=${edge.edge_id} what="the edge id" />`],
    ["Sent by", edge.component], ["Ended by", edge.ended_by], ["State", stateOf(bar, isOver)],
    ["Sent", html`<${Time} at_ms=${edge.sent_at_ms} />`],
    ["Ended", edge.state === "open" ? null : html`<${Time} at_ms=${edge.since_at_ms} />`],
    ["Sent after", took(bar.begin_ms - laid.began_ms)], ["Children", count(bar.children)],
  ]} /></section>`;
}

const Components = ({ rows }) => rows.length > 0 && html`<section aria-label="By component">
  <h3>By component</h3>
  <${Table} caption="Time of the edges by component" rows=${rows} keyOf=${(row) => row.component} columns=${[
    ["Component", (row) => row.component], ["Edges", (row) => count(row.edges), "number"],
    ["p50", (row) => took(row.p50_ms), "number"], ["p95", (row) => took(row.p95_ms), "number"],
    ["p99", (row) => took(row.p99_ms), "number"], ["Longest", (row) => took(row.most_ms), "number"],
  ]} />
</section>`;

function Waterfall({ tree }) {
  const [folded, setFolded] = useState(new Set());
  const [chosen, setChosen] = useState(null);
  const [onlyOpen, setOnlyOpen] = useState(null);
  const [most, setMost] = useState(MOST_ROWS);
  const now_ms = clock();
  const isOver = tree.state === "finished";
  const fold = useRef(null);
  fold.current = (id) => setFolded((old) => {
    const next = new Set(old);
    if (!next.delete(id)) next.add(id);
    return next;
  });
  const laid = useMemo(() => layOut(tree, now_ms), [tree]);
  const isPart = onlyOpen ?? (laid.bars.length > MOST_ROWS && unfinished(laid.bars).length > 0);
  const shown = useMemo(() => visible(isPart ? unfinished(laid.bars) : laid.bars, folded), [laid, folded, isPart]);
  const rows = useMemo(() => html`<${Rows} bars=${shown.slice(0, most)} laid=${laid} folded=${folded} isOver=${isOver}
    onFold=${(id) => fold.current(id)} onChoose=${setChosen} />`, [shown, most]);
  const middle = laid.began_ms + (laid.ended_ms - laid.began_ms) / 2;
  return html`<div>
    <${Path} path=${laid.path} />
    <div class="row">
      <${Legend} isOver=${isOver} />
      <label class="tick"><input type="checkbox" checked=${isPart} onChange=${(event) => setOnlyOpen(event.target.checked)} />
        Only the ways to open and failed edges</label>
    </div>
    <div class="axis" aria-hidden="true"><span>0</span><span>${took(middle - laid.began_ms)}</span><span>${took(laid.ended_ms - laid.began_ms)}</span></div>
    ${shown.length ? rows : html`<p class="muted">No edge is open or failed.</p>`}
    ${shown.length > most && html`<p>${count(most)} of ${count(shown.length)} rows are shown.
      <button type="button" onClick=${() => setMost(most + MOST_ROWS)}>Show ${count(Math.min(MOST_ROWS, shown.length - most))} more</button></p>`}
    <${Chosen} bar=${laid.bars.find((bar) => bar.edge.edge_id === chosen)} laid=${laid} isOver=${isOver} />
    <${Components} rows=${byComponent(laid.bars)} />
  </div>`;
}

export function Tree({ topology, id }) {
  const path = topologyPath(topology, "roots", id, "tree");
  const { document: tree, problem } = useLoaded(() => get(path), path, EVERY_MS);
  if (problem?.status === 404) return null;
  if (!tree) return html`<${Failure} problem=${problem} />`;
  if (!tree.traced) {
    return html`<section aria-label="Tree"><h2>Tree</h2><p id="untraced">This root is not traced, so its edges cannot be told apart:${" "}
      ${count(tree.outstanding)} are open, and ${tree.last_component ? html`<strong>${tree.last_component}</strong> acked last` : "no component has named itself in an ack"}.
      Set <code>trace</code> of the topology, or of an init, to see the edges of the next ones.</p></section>`;
  }
  const open = tree.edges.filter((edge) => edge.state === "open");
  return html`<section aria-label="Tree">
    <h2>Tree</h2>
    <p id="open-edges">${count(open.length)} of ${count(tree.edges.length)} edges are open${
      open.length ? html`, made by ${[...new Set(open.map((edge) => edge.component || "an unnamed component"))].join(", ")}` : ""}.
      ${tree.truncated ? "Some edges or acks are missing here: an operation named none, or came before the root was traced, or the trace reached its bound." : ""}</p>
    ${tree.edges.length > 0 && html`<${Waterfall} tree=${tree} />`}
  </section>`;
}

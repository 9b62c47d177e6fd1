// One root: its number as 64 squares, its times, its tree where it is traced, and how to ask for it elsewhere.

import { get, topologyPath, withQuery } from "../api.js";
import { age, count, duration } from "../format.js";
import { clock, useLive } from "../live.js";
import { Badge, Copy, Facts, Failure, MessageId, Time, useLoaded } from "../ui.js";
import { html } from "../vendor/preact-htm.js";
import { FailByHand } from "./roots.js";
import { Tabs } from "./topology.js";
import { Tree } from "./tree.js";

const EVERY_MS = 1_000;

// Each bit of a number of 16 hex digits is a square; XOR lights it and puts it out.
export function Squares({ hex }) {
  const bits = BigInt(`0x${hex}`).toString(2).padStart(64, "0");
  const lit = [...bits].filter((bit) => bit === "1").length;
  return html`<svg class="squares" viewBox="0 0 8 8" role="img" aria-label=${`${lit} of 64 squares are lit`} data-lit=${lit}>
    ${[...bits].map((bit, n) => html`<rect key=${n} class=${bit === "1" ? "lit" : ""}
      x=${(n % 8) + 0.06} y=${Math.floor(n / 8) + 0.06} width="0.88" height="0.88" rx="0.15" />`)}
  </svg>`;
}

function Timeline({ root, now_ms }) {
  const began = root.began_at_ms;
  const whole = Math.max(1, root.deadline_at_ms - began);
  const share = (at_ms) => Math.min(100, Math.max(0, (100 * (at_ms - began)) / whole));
  const said = `Began ${age(began, now_ms)} ago; the deadline ${root.deadline_at_ms > now_ms ? `is in ${duration(root.deadline_at_ms - now_ms)}` : "has passed"}`;
  return html`<div><svg class="timeline" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label=${said}>
      <rect class="whole" width="100" height="6" /><rect class="passed" width=${share(now_ms)} height="6" />
      ${root.last_ack_at_ms && html`<rect class="last" x=${Math.max(0, share(root.last_ack_at_ms) - 0.3)} width="0.6" height="6" />`}
    </svg>
    <p class="muted" id="times">${said}${root.last_ack_at_ms ? `; the mark is the last ack, ${age(root.last_ack_at_ms, now_ms)} ago` : ""}.</p></div>`;
}

function Pending({ root, now_ms, topology, reload }) {
  return html`<div>
    <div class="beside">
      <${Squares} hex=${root.ack_val} />
      <${Facts} facts=${[
        ["Message", root.message_id !== null && html`<${MessageId} id=${root.message_id} /> <${Copy} text=${root.message_id} what="the message id" />`],
        ["Spout task", root.spout_task && html`<a href=${`#/t/${encodeURIComponent(topology)}/spouts/${encodeURIComponent(root.spout_task)}`}>${root.spout_task}</a>`],
        ["Last component", root.last_component],
        ["Last ack", root.last_ack_at_ms ? `${age(root.last_ack_at_ms, now_ms)} ago` : root.acks === 0 ? "none yet" : "–"],
        ["Acks", count(root.acks)],
        ["Open edges", count(root.outstanding)],
        ["Ack val", html`<span class="id">${root.ack_val}</span>`],
        ["Deadline", html`<${Time} at_ms=${root.deadline_at_ms} />`],
      ]} />
    </div>
    <p class="muted">The ack val is the XOR of the ids of all open edges. Sending a tuple puts the id of its edge in, acking it takes the id out:
      at zero every square is out, and the root is done.</p>
    <${Timeline} root=${root} now_ms=${now_ms} />
    <${FailByHand} topology=${topology} ids=${[root.root_id]} onDone=${reload} /></div>`;
}

// What is known of a root that ended: of one that was acked nothing more is kept.
const Ended = ({ root }) => root.outcome !== "acked" && html`<div><${Facts} facts=${[
  ["Component", root.component], ["Reason", root.reason], ["Ended", html`<${Time} at_ms=${root.at_ms} />`],
]} />
<p class="muted">Reason and component are shown for a day after a root failed or timed out, while its topology lists them.</p></div>`;

function Elsewhere({ topology, id }) {
  const path = topologyPath(topology, "roots", id);
  const curl = `curl -H "Authorization: Bearer $ACKER_API_KEY" ${location.origin}${path}`;
  const python = "import os\n\nfrom acker_client import Acker\n\n" +
    `with Acker("${location.origin}", "${topology}", os.environ.get("ACKER_API_KEY")) as acker:\n    print(acker.roots.get("${id}"))`;
  return html`<section aria-label="Elsewhere">
    <h2>The same elsewhere</h2>
    ${[["Command line", `acker root show ${topology} ${id} --acker ${location.origin}`], ["curl", curl], ["Python", python]].map(([name, text]) =>
      html`<h3 key=${name}>${name} <${Copy} text=${text} what=${`the lines for ${name}`} /></h3><pre tabindex="0" aria-label=${name}>${text}</pre>`)}
  </section>`;
}

export function Root({ names: [topology, id] }) {
  useLive();
  const path = topologyPath(topology, "roots", id);
  const { document: root, problem, reload } = useLoaded(async () => {
    const read = await get(path);
    return { ...read, began_at_ms: clock() - (read.age_ms ?? 0) };
  }, path, EVERY_MS);
  const now_ms = clock();
  const isOver = root?.state === "finished";
  return html`<div>
    <h1>Root <span class="id">${id}</span> <${Copy} text=${id} what="the root id" /></h1>
    <${Tabs} topology=${topology} at="Roots" />
    <${Failure} problem=${problem} />
    ${problem?.code === "unknown_root" && html`<p>A root that has ended is remembered for the retention time of its topology only.
      <a href=${withQuery("#/find", { id })}>Find it</a> among failures, unread completions and dead letters.</p>`}
    ${root && html`<p role="status"><span id="root-state"><${Badge} big name=${isOver ? root.outcome : root.state} /></span></p>`}
    ${root && (isOver ? html`<${Ended} root=${root} />`
      : html`<${Pending} root=${root} now_ms=${now_ms} topology=${topology} reload=${reload} />`)}
    <${Tree} topology=${topology} id=${id} />
    <${Elsewhere} topology=${topology} id=${id} /></div>`;
}

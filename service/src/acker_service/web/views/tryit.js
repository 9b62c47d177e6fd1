// A toy: emit a root, split it into tuples, ack and fail them by clicking, and watch its number go to zero.

import { call, get, post, topologyPath } from "../api.js";
import { useLive } from "../live.js";
import { Badge, Failure, ReadOnly, link, useLoaded } from "../ui.js";
import { html, useContext, useEffect, useState } from "../vendor/preact-htm.js";
import { Squares } from "./root.js";

const COMPONENTS = ["split", "count", "store"];
const CHILDREN = 2;
const ZERO = "0".repeat(16);

function drawId() {
  const [high, low] = crypto.getRandomValues(new Uint32Array(2));
  return `${high.toString(16).padStart(8, "0")}${low.toString(16).padStart(8, "0")}`;
}

const componentAt = (depth) => COMPONENTS[Math.min(depth, COMPONENTS.length - 1)];

function Tuples({ tuples, onAct, disabled }) {
  return html`<ul class="tree" aria-label="Tuples">
    ${tuples.map(({ id, depth, state }) => html`<li key=${id} class=${`${state} depth-${Math.min(depth, 4)}`}>
      <span class="id">${id.slice(0, 8)}</span> at <b>${componentAt(depth)}</b> <${Badge} name=${state} />
      ${state === "open" && !disabled && html`<span class="row">
        <button type="button" onClick=${() => onAct(id, depth, CHILDREN)}>Split in ${CHILDREN}</button>
        <button type="button" onClick=${() => onAct(id, depth, 0)}>Ack</button>
        <button type="button" class="danger" onClick=${() => onAct(id, depth, null)}>Fail</button>
      </span>`}
    </li>`)}
  </ul>`;
}

function useToy(topology) {
  const [root, setRoot] = useState(null);
  const [tuples, setTuples] = useState([]);
  const [problem, setProblem] = useState(null);
  const guarded = (act) => async (...given) => {
    try {
      setProblem(null);
      await act(...given);
    } catch (error) {
      setProblem(error);
    }
  };
  const emit = guarded(async () => {
    const [id, edge] = [drawId(), drawId()];
    await call("PUT", topologyPath(topology, "spouts", "try-it"), { ephemeral: true });
    await post(topologyPath(topology, "init"), { root_id: id, spout_task: "try-it", edges: [edge], message_id: `try ${id.slice(0, 8)}` });
    setTuples([{ id: edge, depth: 0, state: "open" }]);
    setRoot(id);
  });
  const act = guarded(async (edge_id, depth, children) => {
    const component = componentAt(depth);
    if (children === null) {
      await post(topologyPath(topology, "fail"), { root_id: root, reason: "clicked", component });
      setTuples(tuples.map((each) => (each.id === edge_id ? { ...each, state: "failed" } : each)));
      return;
    }
    const ids = Array.from({ length: children }, drawId);
    await post(topologyPath(topology, "ack"), { root_id: root, edge_id, children: ids, component });
    const acked = tuples.map((each) => (each.id === edge_id ? { ...each, state: "acked" } : each));
    setTuples([...acked, ...ids.map((id) => ({ id, depth: depth + 1, state: "open" }))]);
  });
  return { root, tuples, problem, emit, act };
}

export function TryIt() {
  const live = useLive();
  const readOnly = useContext(ReadOnly);
  const [chosen, setTopology] = useState("");
  const topology = chosen || live.topologies?.[0]?.topology || "default";
  const { root, tuples, problem, emit, act } = useToy(topology);
  const shown = useLoaded(() => (root ? get(topologyPath(topology, "roots", root)) : Promise.resolve(null)), `${root}`, 2_000);
  useEffect(() => { shown.reload(); }, [tuples]);
  const state = shown.document?.outcome || shown.document?.state;
  const isOver = shown.document?.state === "finished";
  return html`<div>
    <h1>Try it</h1>
    <p>Emit a root, then be its bolts: split a tuple into two, ack it, or fail it. Each id lights squares when a tuple is sent and puts
      them out when it is acked. When all are out, the root is done.</p>
    <div class="row">
      <label>Topology <select onChange=${(event) => setTopology(event.target.value)} disabled=${root !== null && !isOver}>
        ${(live.topologies || []).map((each) => html`<option key=${each.topology} value=${each.topology} selected=${each.topology === topology}>${each.topology}</option>`)}
      </select></label>
      <button type="button" disabled=${readOnly} onClick=${emit}>Emit a root</button>
    </div>
    <${Failure} problem=${problem} />
    ${root && html`<div>
      <p id="toy-state" role="status">Root <a class="id" href=${link("t", topology, "roots", root)}>${root}</a> <${Badge} big name=${state || "…"} /></p>
      <div class="beside"><${Squares} hex=${isOver ? ZERO : shown.document?.ack_val || ZERO} />
        <${Tuples} tuples=${tuples} onAct=${act} disabled=${isOver} /></div>
    </div>`}</div>`;
}

// The spout tasks of a topology: who reads, who does not.

import { get, topologyPath } from "../api.js";
import { age, count } from "../format.js";
import { clock, useLive } from "../live.js";
import { Failure, Table, link, useLoaded } from "../ui.js";
import { html } from "../vendor/preact-htm.js";
import { Tabs } from "./topology.js";

const EVERY_MS = 5_000;

export const readerOf = ({ callback }) => (callback ? `${callback.kind}, ${callback.state}` : "none: a process reads its completions");

export function Spouts({ names: [topology] }) {
  useLive();
  const now_ms = clock();
  const path = topologyPath(topology, "spouts");
  const { document, problem } = useLoaded(() => get(path), path, EVERY_MS);
  return html`<div>
    <h1>Spout tasks of ${topology}</h1>
    <${Tabs} topology=${topology} at="Spout tasks" />
    <${Failure} problem=${problem} />
    ${document && html`<${Table} caption="Spout tasks" rows=${document.spouts} keyOf=${(row) => row.spout_task} columns=${[
      ["Spout task", (row) => html`<a href=${link("t", topology, "spouts", row.spout_task)}>${row.spout_task}</a>`],
      ["Callback", readerOf],
      ["Pending", (row) => count(row.pending), "number"],
      ["Unread", (row) => count(row.unread), "number"],
      ["Oldest unread", (row) => age(row.oldest_unread_at_ms, now_ms), "number"],
      ["Last read", (row) => age(row.last_read_at_ms, now_ms), "number"],
      ["Last emit", (row) => age(row.last_emit_at_ms, now_ms), "number"],
      ["Dead letters", (row) => count(row.dead_letters), "number"],
      ["Error", (row) => row.callback?.error ?? "–", "text"],
    ]} />`}</div>`;
}

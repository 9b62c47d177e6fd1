// Calls an acker with the generated types, and gets an error from it: call.js URL KEY.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

type Init = components["schemas"]["Init"];
type Problem = components["schemas"]["Problem"];

const [url, key] = process.argv.slice(2) as [string, string];
const path = { topology: "default" };
const spoutTask = "typescript-1";
const root = "5f2c1e0b9a7d4838";
const edge = "00f3a19c5be27d40";

function show(problem: Problem | undefined): void {
  if (problem === undefined) throw new Error("no problem");
  console.log(["error", problem.status, problem.code, problem.retryable, problem.root_id].join(" ").trim());
}

const acker = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${key}` } });
const body: Init = { root_id: root, spout_task: spoutTask, edges: [edge], message_id: "42" };

const emitted = await acker.POST("/v1/topologies/{topology}/init", {
  params: { path, header: { "Idempotency-Key": "typescript-1.42" } },
  body,
});
if (emitted.data === undefined) throw new Error(emitted.error.detail);
console.log("init", emitted.data.state);

const refused = await acker.POST("/v1/topologies/{topology}/init", {
  params: { path },
  body: { ...body, spout_task: "another" },
});
show(refused.error);

const applied = await acker.POST("/v1/topologies/{topology}/batch", {
  params: { path },
  body: {
    ops: [
      { op: "reset-timeout", root_id: root },
      { op: "ack", root_id: root, edge_id: edge },
    ],
  },
});
if (applied.data === undefined || !("results" in applied.data)) throw new Error("no results");
console.log("batch", applied.data.accepted, ...applied.data.results);

const read = await acker.GET("/v1/topologies/{topology}/spouts/{spout_task}/completions", {
  params: { path: { ...path, spout_task: spoutTask }, query: { wait_ms: 5000 } },
});
if (typeof read.data !== "object") throw new Error("no JSON");
const done = read.data.completions[0];
console.log("completion", done?.outcome, done?.message_id);

const stranger = createClient<paths>({ baseUrl: url });
show((await stranger.POST("/v1/topologies/{topology}/init", { params: { path }, body })).error);

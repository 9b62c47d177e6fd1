// How to send the first message to an acker, in three languages. It imports nothing, so that a test can read the lines
// with Node and run them.

// The lines by language, for the acker of an address.
export function linesOf(acker, topology) {
  return {
    curl: `# begin a root with one edge, then ack that edge: the root is done
curl -X POST ${acker}/v1/topologies/${topology}/batch -H "Authorization: Bearer $ACKER_API_KEY" \\
  -H 'Content-Type: application/json' -d '{"ops": [
  {"op": "init", "root_id": "00000000000000a1", "spout_task": "first", "edges": ["7d1f0c5be29a4683"], "message_id": "hello"},
  {"op": "ack", "root_id": "00000000000000a1", "edge_id": "7d1f0c5be29a4683", "component": "print"}]}'`,
    Python: `import os

from acker_client import Acker

with Acker("${acker}", "${topology}", os.environ.get("ACKER_API_KEY")) as acker:
    spout = acker.spout("first")
    with spout.emit(message_id="hello") as root:
        headers = root.headers()  # travels with the message to its consumer
    with acker.receive(headers, component="print"):  # there: acks when the block ends
        print("hello")`,
    TypeScript: `import { Acker } from "acker-client";

const acker = new Acker("${acker}", { topology: "${topology}", apiKey: process.env.ACKER_API_KEY });
const spout = acker.spout("first");
const headers = await spout.emit("hello", (root) => root.headers()); // travels with the message
await acker.process(headers, "print", () => console.log("hello")); // acks when it returns
await acker.close();`,
  };
}

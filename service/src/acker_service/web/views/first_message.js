// What an acker shows that has not seen a message yet: how to send the first one, in three languages.

import { Copy, link } from "../ui.js";
import { html, useState } from "../vendor/preact-htm.js";

// The lines for one language, for the acker that serves this page.
function linesOf(topology) {
  const acker = location.origin;
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

export function FirstMessage({ topology }) {
  const [chosen, setChosen] = useState("curl");
  const lines = linesOf(topology);
  return html`<section id="first-message" aria-label="Send your first message">
    <h2>Send your first message</h2>
    <p>Nothing has been sent to this acker yet. Run these lines, and see the message in the list below.</p>
    <div class="row" role="group" aria-label="Language">
      ${Object.keys(lines).map((name) => html`<button type="button" key=${name} aria-pressed=${name === chosen} onClick=${() => setChosen(name)}>${name}</button>`)}
      <${Copy} text=${lines[chosen]} what=${`the lines for ${chosen}`} />
    </div>
    <pre tabindex="0" aria-label=${chosen}>${lines[chosen]}</pre>
    <p>Or <a href=${link("try")}>try it here</a> without a program. The addresses of this acker: <a href="/openapi.json">openapi.json</a>. The
      documentation begins with the tutorial, <code>docs/tutorial.md</code>; <code>make docs-serve</code> shows it.</p>
  </section>`;
}

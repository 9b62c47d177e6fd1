// What an acker shows that has not seen a message yet: how to send the first one, in three languages.

import { linesOf } from "../first_lines.js";
import { Copy, link } from "../ui.js";
import { html, useState } from "../vendor/preact-htm.js";

export function FirstMessage({ topology }) {
  const [chosen, setChosen] = useState("curl");
  const lines = linesOf(location.origin, topology);
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

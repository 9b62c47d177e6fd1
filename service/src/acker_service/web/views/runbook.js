// The runbook: what to do about each trouble. It is the text of docs/runbook.md.

import { Problem } from "../api.js";
import { Markdown, sectionsOf } from "../markdown.js";
import { Failure, link, useLoaded } from "../ui.js";
import { html } from "../vendor/preact-htm.js";

async function load() {
  const answer = await fetch("runbook.md");
  if (!answer.ok) throw new Problem({ detail: `the runbook cannot be loaded: status ${answer.status}` }, answer.status);
  return sectionsOf(await answer.text());
}

const linkOf = (target) => (target.startsWith("#") ? link("runbook", target.slice(1)) : null);

export function Runbook({ names: [name] }) {
  const { document: sections, problem } = useLoaded(load, "runbook");
  const section = sections?.get(name);
  return html`<div>
    <h1>${section ? section.title : "Runbook"}</h1>
    <${Failure} problem=${problem} />
    ${section && html`<article id="entry"><${Markdown} text=${section.text} linkOf=${linkOf} /></article>`}
    ${sections && html`<h2>All entries</h2>
      <ul>${[...sections].map(([each, { title }]) => html`<li key=${each}><a href=${link("runbook", each)}>${title}</a></li>`)}</ul>`}</div>`;
}

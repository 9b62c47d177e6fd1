// Draws the part of Markdown that docs/runbook.md uses: headings, paragraphs, tables, blocks of code and inline marks.

import { html } from "./vendor/preact-htm.js";

const INLINE = /\*\*(.+?)\*\*|`([^`]+)`|\[(.+?)\]\((.+?)\)/g;
const NO_ANSWER = "…";

// `linkOf` gives the address on this page of a link, or null where it has none.
function inline(text, linkOf) {
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    const [whole, bold, code, label, target] = match;
    parts.push(text.slice(from, match.index));
    from = match.index + whole.length;
    if (bold) parts.push(html`<strong>${bold}</strong>`);
    else if (code) parts.push(html`<code>${code}</code>`);
    else parts.push(linkOf(target) ? html`<a href=${linkOf(target)}>${inline(label, linkOf)}</a>` : inline(label, linkOf));
  }
  return [...parts, text.slice(from)];
}

function block(lines, linkOf) {
  if (lines[0].startsWith("```")) {
    const code = lines.slice(1, -1).join("\n");
    return code === NO_ANSWER ? null : html`<pre tabindex="0">${code}</pre>`;
  }
  if (lines[0].startsWith("# ") || lines[0].startsWith("<!--")) return null;
  return html`<p>${inline(lines.join(" "), linkOf)}</p>`;
}

// The blocks of a text: a fence to its end, else lines up to an empty one.
function* blocksOf(text) {
  let lines = [];
  for (const line of text.split("\n")) {
    const inFence = lines[0]?.startsWith("```");
    const starts = !inFence && line.startsWith("```");
    if (lines.length && (starts || (!inFence && !line))) {
      yield lines;
      lines = [];
    }
    if (line || inFence) lines.push(line);
    if (inFence && line === "```") {
      yield lines;
      lines = [];
    }
  }
  if (lines.length) yield lines;
}

export const Markdown = ({ text, linkOf }) => [...blocksOf(text)].map((lines) => block(lines, linkOf));

// The sections of a text by the anchors of their headings of second rank: title and text.
export function sectionsOf(text) {
  const parts = text.split(/^## /m).slice(1).map((part) => part.split(/\n([\s\S]*)/));
  return new Map(parts.map(([title, body]) => [title.toLowerCase().replaceAll(" ", "-"), { title, text: body }]));
}

// Small parts that all views use: tables, problems, what has to be confirmed, what is loaded.
//
// A component gives one element: this Preact misplaces the elements of one that gives several, when they change.

import { timeParts } from "./format.js";
import { createContext, html, useCallback, useContext, useEffect, useRef, useState } from "./vendor/preact-htm.js";

// Whether the page only reads: its buttons that would change something are then disabled.
export const ReadOnly = createContext(false);

// The link template from a message id to the user's own system (ACKER_MESSAGE_URL); null: there is none.
export const MessageUrl = createContext(null);

// Load a document again whenever `key` changes, and each `every_ms`; an answer to an older key is dropped.
export function useLoaded(load, key, every_ms = 0) {
  const [state, setState] = useState({ document: undefined, problem: null, key: null });
  const current = useRef(key);
  current.current = key;
  const reload = useCallback(async () => {
    const asked = key;
    try {
      const document = await load();
      if (current.current === asked) setState({ document, problem: null, key: asked });
    } catch (problem) {
      if (current.current === asked) {
        setState((old) => ({ document: old.key === asked ? old.document : undefined, problem, key: asked }));
      }
    }
  }, [key]);
  useEffect(() => {
    reload();
    if (!every_ms) return undefined;
    const timer = setInterval(() => document.hidden || reload(), every_ms);
    return () => clearInterval(timer);
  }, [reload, every_ms]);
  const isOld = state.key !== key;
  return { document: isOld ? undefined : state.document, problem: isOld ? null : state.problem, reload };
}

export const Failure = ({ problem, what = "" }) =>
  problem && html`<p class="problem" role="alert">${what && `${what}: `}${sayProblem(problem)}</p>`;

export function sayProblem(problem) {
  if (problem.code === "forbidden") return `This key does not allow it: ${problem.message}.`;
  if (problem.status === 401) return `A key is needed: ${problem.message}.`;
  return `${problem.message}.`.replace(/\.\.$/, ".");
}

const NOTHING = "–";
const SAID_MS = 4_000;

// What roles a table has is said, as a narrow screen shows its rows as cards. A column is [head, how to draw a row, kind];
// kinds are "number", "time", "text" and "pick".
export function Table({ caption, columns, rows, keyOf, empty = "None." }) {
  if (!rows.length) return html`<p class="muted">${empty}</p>`;
  const title = columns.findIndex(([head]) => head);
  const cell = (row, [head, draw, kind], n) => {
    const drawn = draw(row);
    const classes = [kind, n === title && "title", drawn === NOTHING && "nothing"].filter(Boolean).join(" ");
    return html`<td role="cell" class=${classes} data-label=${head}>${drawn}</td>`;
  };
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}>
    <table class="list" role="table" aria-label=${caption}>
      <thead role="rowgroup"><tr role="row">
        ${columns.map(([head, , kind]) => html`<th role="columnheader" scope="col" class=${kind || ""}>${head || html`<span class="hidden">${kind}</span>`}</th>`)}
      </tr></thead>
      <tbody role="rowgroup">
        ${rows.map((row) => html`<tr role="row" key=${keyOf(row)}>${columns.map((column, n) => cell(row, column, n))}</tr>`)}
      </tbody>
    </table>
  </div>`;
}

// A time where the reader is, and UTC beside it.
export function Time({ at_ms }) {
  if (at_ms === null || at_ms === undefined) return NOTHING;
  const [here, there] = timeParts(at_ms);
  return html`<time datetime=${new Date(at_ms).toISOString()}>${here}${there && html` <small class="utc">${there}</small>`}</time>`;
}

// A button that copies a text; `what` says which.
export function Copy({ text, what }) {
  const [said, setSaid] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setSaid("Copied");
    } catch {
      setSaid("The browser does not let this page copy: select the text"); // without TLS, from another machine
    }
    setTimeout(() => setSaid(""), SAID_MS);
  };
  return html`<span class="copy"><button type="button" aria-label=${`Copy ${what}`} onClick=${copy}>Copy</button>
    <span role="status">${said}</span></span>`;
}

// A root id that leads to its root.
export const RootLink = ({ topology, id }) => html`<a class="id" href=${link("t", topology, "roots", id)}>${id}</a>`;

// A message id; where the acker has a link template, a link to the user's own system.
export function MessageId({ id }) {
  const template = useContext(MessageUrl);
  if (id === null || id === undefined) return NOTHING;
  if (!template) return id;
  const href = template.replaceAll("{message_id}", encodeURIComponent(id));
  return html`<a href=${href} target="_blank" rel="noopener noreferrer" title=${`Message ${id} in your own system`}>${id}</a>`;
}

// A state or an outcome, in its colour.
export const Badge = ({ name, big = false }) => html`<span class=${`badge ${name}${big ? " big" : ""}`}>${name.replace("_", " ")}</span>`;

// Pairs of a name and a value; as tiles, the numbers that matter most.
export const Facts = ({ facts, tiles = false }) => html`<dl class=${tiles ? "facts tiles" : "facts"}>
  ${facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value ?? "–"}</dd></div>`)}
</dl>`;

// A button that asks for a word to be typed before it acts; `onConfirm` gives the sentence to show, or throws.
export function Confirmed({ label, question, word, onConfirm, danger = false, disabled = false, children = null }) {
  const [typed, setTyped] = useState("");
  const [said, setSaid] = useState(null);
  const [busy, setBusy] = useState(false);
  const readOnly = useContext(ReadOnly);
  const dialog = useRef(null);
  const act = async (event) => {
    event.preventDefault();
    if (typed !== word || busy) return;
    setBusy(true);
    try {
      setSaid({ text: await onConfirm() });
      dialog.current?.close();
    } catch (problem) {
      setSaid({ problem });
      dialog.current?.close();
    } finally {
      setBusy(false);
      setTyped("");
    }
  };
  return html`<span class="confirmed">
    <button type="button" class=${danger ? "danger" : ""} disabled=${readOnly || disabled} onClick=${() => { setSaid(null); dialog.current.showModal(); }}>
      ${label}
    </button>
    <dialog ref=${dialog} aria-label=${label}>
      <form onSubmit=${act}>
        <p>${question}</p>
        ${children}
        <label>Type <b>${word}</b> to confirm
          <input value=${typed} autocomplete="off" onInput=${(event) => setTyped(event.target.value)} />
        </label>
        <div class="row">
          <button type="submit" class=${danger ? "danger" : ""} disabled=${typed !== word || busy}>${label}</button>
          <button type="button" onClick=${() => dialog.current?.close()}>Cancel</button>
        </div>
      </form>
    </dialog>
    <span role="status">${said && (said.problem ? html`<${Failure} problem=${said.problem} />` : said.text)}</span>
  </span>`;
}

// A button that acts at once and says what came of it.
export function Act({ label, act }) {
  const [said, setSaid] = useState(null);
  const readOnly = useContext(ReadOnly);
  const click = async () => {
    setSaid({ text: "…" });
    try {
      setSaid({ text: await act() });
    } catch (problem) {
      setSaid({ problem });
    }
  };
  return html`<span class="act"><button type="button" disabled=${readOnly} onClick=${click}>${label}</button>
    <span role="status">${said && (said.problem ? html`<${Failure} problem=${said.problem} />` : said.text)}</span></span>`;
}

export const link = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

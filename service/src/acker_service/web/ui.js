// Small parts that all views use: tables, problems, what has to be confirmed, what is loaded.

import { useCallback, useEffect, useRef, useState, html } from "./vendor/preact-htm.js";

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
  if (problem.status === 403) return `This key does not allow it: ${problem.message}.`;
  if (problem.status === 401) return `A key is needed: ${problem.message}.`;
  return `${problem.message}.`.replace(/\.\.$/, ".");
}

// A table that scrolls sideways on a narrow screen. A column is [head, how to draw a row, "number" or nothing].
export function Table({ caption, columns, rows, keyOf, empty = "None." }) {
  if (!rows.length) return html`<p class="muted">${empty}</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}>
    <table>
      <caption class="hidden">${caption}</caption>
      <thead><tr>${columns.map(([head, , kind]) => html`<th scope="col" class=${kind || ""}>${head}</th>`)}</tr></thead>
      <tbody>
        ${rows.map((row) => html`<tr key=${keyOf(row)}>
          ${columns.map(([, draw, kind]) => html`<td class=${kind || ""}>${draw(row)}</td>`)}
        </tr>`)}
      </tbody>
    </table>
  </div>`;
}

// Pairs of a name and a value.
export const Facts = ({ facts }) => html`<dl class="facts">
  ${facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value ?? "–"}</dd></div>`)}
</dl>`;

// A button that asks for a word to be typed before it acts; `onConfirm` gives the sentence to show, or throws.
export function Confirmed({ label, question, word, onConfirm, danger = false, children = null }) {
  const [typed, setTyped] = useState("");
  const [said, setSaid] = useState(null);
  const [busy, setBusy] = useState(false);
  const dialog = useRef(null);
  const act = async (event) => {
    event.preventDefault();
    if (typed !== word || busy) return;
    setBusy(true);
    try {
      setSaid({ text: await onConfirm() });
      dialog.current.close();
    } catch (problem) {
      setSaid({ problem });
      dialog.current.close();
    } finally {
      setBusy(false);
      setTyped("");
    }
  };
  return html`<span class="confirmed">
    <button type="button" class=${danger ? "danger" : ""} onClick=${() => { setSaid(null); dialog.current.showModal(); }}>
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
          <button type="button" onClick=${() => dialog.current.close()}>Cancel</button>
        </div>
      </form>
    </dialog>
    <span role="status">${said && (said.problem ? html`<${Failure} problem=${said.problem} />` : said.text)}</span>
  </span>`;
}

export const link = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

// Reads a list page by page: one more, or all of them until it ends or is stopped; sorts what is loaded.

import { download, toCsv, toJson } from "./export.js";
import { count } from "./format.js";
import { Failure } from "./ui.js";
import { html, useEffect, useRef, useState } from "./vendor/preact-htm.js";

const EMPTY = { rows: [], cursor: undefined, scanned: 0, pages: 0, is_done: false, busy: false, reads_all: false, problem: null };

// `load(cursor)` gives {rows, cursor, scanned, is_last} of one page. Another `key` begins anew.
export function usePages(key, load) {
  const [state, setState] = useState({ ...EMPTY, key, busy: true });
  const run = useRef(0); // the reading in progress; a later number ends it
  const latest = useRef(state);
  const put = (next) => {
    latest.current = next;
    setState(next);
  };
  const read = async ({ from, all }) => {
    run.current += 1;
    const mine = run.current;
    let now = { ...from, busy: true, reads_all: all, problem: null };
    put(now);
    do {
      let page = null;
      let problem = null;
      try {
        page = await load(now.cursor);
      } catch (error) {
        problem = error;
      }
      if (run.current !== mine) return;
      if (problem) {
        put({ ...now, busy: false, problem });
        return;
      }
      now = {
        ...now, rows: [...now.rows, ...page.rows], cursor: page.cursor, scanned: now.scanned + (page.scanned ?? page.rows.length),
        pages: now.pages + 1, is_done: page.is_last,
      };
      put({ ...now, busy: all && !now.is_done });
    } while (all && !now.is_done);
  };
  useEffect(() => {
    read({ from: { ...EMPTY, key }, all: false });
    return () => { run.current += 1; };
  }, [key]);
  const stop = () => {
    run.current += 1;
    put({ ...latest.current, busy: false });
  };
  return {
    ...(state.key === key ? state : { ...EMPTY, busy: true }),
    more: () => read({ from: latest.current, all: false }),
    all: () => read({ from: latest.current, all: true }),
    again: () => read({ from: { ...EMPTY, key }, all: false }),
    stop,
  };
}

// What is loaded, in the order that was chosen: `by` is the head of a column of `orders`, [head, value of a row].
export function sorted(rows, orders, { by, down }) {
  const value = orders.find(([head]) => head === by)?.[1];
  if (!value) return rows;
  const compare = (one, other) => (one === other ? 0 : (one ?? "") === "" ? 1 : (other ?? "") === "" ? -1
    : typeof one === "number" ? one - other : String(one).localeCompare(String(other)));
  return [...rows].sort((one, other) => (down ? -1 : 1) * compare(value(one), value(other)));
}

// How much is loaded, of how many where that is known, and whether more may come.
export function sayLoaded({ rows, scanned, is_done, busy }, total, what) {
  const whole = is_done ? `all ${what} that match: ${count(rows.length)}` : `${count(rows.length)} ${what} loaded${
    total !== undefined && total >= rows.length ? ` of ${count(total)}` : ""}`;
  const looked = scanned > rows.length ? `, ${count(scanned)} looked at` : "";
  return `${whole[0].toUpperCase()}${whole.slice(1)}${looked}${busy ? "; loading…" : is_done ? "." : "; there may be more."}`;
}

// Above a list: what is loaded, its order, and its export.
export function ListHead({ list, total, what, orders, order, onOrder, name }) {
  const keep = (end, type, write) => () => download(`${name}.${end}`, type, write(list.rows));
  return html`<div class="row list-head">
    <p class="muted" role="status">${sayLoaded(list, total, what)}</p>
    ${list.busy && list.reads_all ? html`<button type="button" onClick=${list.stop}>Stop</button>`
      : !list.is_done && html`<button type="button" disabled=${list.busy} onClick=${list.all}>Load all</button>`}
    ${list.rows.length > 1 && html`<label>Sort the loaded by <select onChange=${(event) => onOrder({ ...order, by: event.target.value })}>
      <option value="" selected=${!order.by}>as listed</option>
      ${orders.map(([head]) => html`<option key=${head} value=${head} selected=${head === order.by}>${head}</option>`)}
    </select></label>`}
    ${order.by && html`<button type="button" aria-pressed=${order.down} onClick=${() => onOrder({ ...order, down: !order.down })}>
      ${order.down ? "Largest first" : "Smallest first"}</button>`}
    ${list.rows.length > 0 && html`<span class="row exports">
      <button type="button" onClick=${keep("csv", "text/csv", toCsv)}>Export CSV</button>
      <button type="button" onClick=${keep("json", "application/json", toJson)}>Export JSON</button>
    </span>`}
  </div>`;
}

// Below a list: one more page, look again.
export const ListFoot = ({ list }) => html`<div class="row">
  <${Failure} problem=${list.problem} />
  ${!list.is_done && html`<button type="button" disabled=${list.busy} onClick=${list.more}>Load more</button>`}
  <button type="button" disabled=${list.busy} onClick=${list.again}>Look again</button>
</div>`;

// A range of time in the address: times of UTC there, local times in the form. A link shows others the same.

import { html } from "./vendor/preact-htm.js";
import { local } from "./format.js";

const PRESETS = [["15 min", 900_000], ["1 h", 3_600_000], ["24 h", 86_400_000]];

const msOf = (text) => {
  const ms = text ? Date.parse(text) : NaN;
  return Number.isNaN(ms) ? undefined : ms;
};

// The range of an address as the acker asks for it; what is missing or no time is left out. To the end of its second.
export const rangeOf = ({ from, to }) => ({ from_ms: msOf(from), to_ms: msOf(to) === undefined ? undefined : msOf(to) + 999 });

// A time as the address has it.
export const stampOf = (at_ms) => new Date(at_ms).toISOString().replace(/\.\d+/, "");

// The range that a form gives, as the address has it. A field of datetime-local is read as a local time.
export const rangeOfForm = ({ from, to }) => {
  const stamp = (text) => (msOf(text) === undefined ? "" : stampOf(msOf(text)));
  return { from: stamp(from), to: stamp(to) };
};

export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";

const field = (text) => (msOf(text) === undefined ? "" : local(msOf(text)).replace(" ", "T"));

// The two fields of a range, in local time.
export const RangeFields = ({ query }) => html`<span class="range">
  <label>From <input name="from" type="datetime-local" step="1" defaultValue=${field(query.from)} /></label>
  <label>To <input name="to" type="datetime-local" step="1" defaultValue=${field(query.to)} /></label>
  <small class="muted">${zone()}</small>
</span>`;

// Links to ranges that end now; `href` gives the address of a range.
export const Presets = ({ now_ms, href }) => html`<span class="presets">
  ${PRESETS.map(([name, ms]) => html`<a key=${name} href=${href({ from: stampOf(now_ms - ms), to: "" })}>last ${name}</a>`)}
</span>`;

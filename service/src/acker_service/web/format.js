// Writes numbers, ages and times for people. All functions are pure.

const UNITS = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1_000]];

export const count = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en-US"));

export function rate(value) {
  if (value === null || value === undefined) return "–";
  return value < 10 ? value.toFixed(1) : count(Math.round(value));
}

// A duration in its two largest units: "3 min 20 s".
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  const at = UNITS.findIndex(([, size]) => ms >= size);
  const [unit, size] = UNITS[at];
  const whole = Math.floor(ms / size);
  const next = UNITS[at + 1];
  const rest = next ? Math.floor((ms % size) / next[1]) : 0;
  return rest ? `${whole} ${unit} ${rest} ${next[0]}` : `${whole} ${unit}`;
}

// A duration of work: below ten seconds to the hundredth.
export const took = (ms) => (ms !== null && ms !== undefined && ms >= 1_000 && ms < 10_000 ? `${(ms / 1_000).toFixed(2)} s` : duration(ms));

export const age = (at_ms, now_ms) => (at_ms === null || at_ms === undefined ? "–" : duration(now_ms - at_ms));

const two = (number) => String(number).padStart(2, "0");

// The time in UTC.
export const utc = (at_ms) => new Date(at_ms).toISOString().replace("T", " ").slice(0, 19);

// The time where the reader is.
export function local(at_ms) {
  const at = new Date(at_ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

// The local time, and UTC beside it where that is another; the date of UTC where that is another day.
export function timeParts(at_ms) {
  const [here, there] = [local(at_ms), utc(at_ms)];
  if (here === there) return [`${here} UTC`, ""];
  return [here, `${here.slice(0, 10) === there.slice(0, 10) ? there.slice(11) : there} UTC`];
}

export const time = (at_ms) => (at_ms === null || at_ms === undefined ? "–" : timeParts(at_ms).filter(Boolean).join(" = "));

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const at = Math.min(units.length - 1, value > 0 ? Math.floor(Math.log2(value) / 10) : 0);
  return `${(value / 1024 ** at).toFixed(at ? 1 : 0)} ${units[at]}`;
}

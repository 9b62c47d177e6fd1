// Draws numbers: a chart over time with axes by uPlot, a small line, and a bar.

import { time } from "./format.js";
import { html, useEffect, useRef } from "./vendor/preact-htm.js";

const HEIGHT = 170;
const SMALLEST = 240;
const SHORTEST_S = 60;
const COLOURS = ["--line-1", "--line-2", "--line-3", "--line-4"];
const FONT = "12px system-ui, sans-serif";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const compact = new Intl.NumberFormat("en-US", { notation: "compact" });
const labelOf = (name) => name.replace("_ms", "").replace("_", " ");

// From the first point to the last, at least a minute.
function rangeOf({ data: [times] }) {
  const last = times.at(-1) ?? Date.now() / 1000;
  return [Math.min(times[0] ?? last, last - SHORTEST_S), last];
}

// The last point that has any of the numbers: what the legend shows while nothing is pointed at.
const restOf = ([times, ...numbers]) => times.findLastIndex((_, n) => numbers.some((each) => each[n] !== null));

function showRest(plot) {
  const at = restOf(plot.data);
  if (plot.cursor.idx === null && at >= 0) plot.setLegend({ idx: at }, false);
}

function optionsOf(width, names) {
  const axis = { stroke: colour("--muted"), font: FONT, grid: { stroke: colour("--border"), width: 1 }, ticks: { show: false } };
  const value = (plot, number) => (number === null || number === undefined ? "–" : number.toLocaleString("en-US", { maximumFractionDigits: 1 }));
  const series = names.map((name, n) => ({
    label: labelOf(name), value, stroke: colour(COLOURS[n]), width: 2, spanGaps: true, points: { size: 5 } }));
  return {
    width, height: HEIGHT, cursor: { y: false, drag: { x: false } },
    series: [{ label: "Time", value: (plot, seconds) => (seconds ? time(seconds * 1000) : "–") }, ...series],
    hooks: { ready: [showRest], setCursor: [showRest] },
    axes: [
      { ...axis, size: 42, space: 76, values: [
        [86400, "{MM}-{DD}", null, null, null, null, null, null, 0],
        [60, "{HH}:{mm}", "\n{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 0],
        [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 0]] },
      { ...axis, size: 48, values: (plot, ticks) => ticks.map((tick) => compact.format(tick)) },
    ],
    scales: { x: { range: rangeOf }, y: { range: (plot, least, most) => [0, Math.max(1, most * 1.05)] } },
  };
}

// `points` have at_ms and a number, or null, for each of the names.
export function Chart({ title, points, names }) {
  const place = useRef(null);
  const plot = useRef(null);
  const data = [points.map((point) => point.at_ms / 1000), ...names.map((name) => points.map((point) => point[name] ?? null))];
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    const width = () => Math.max(SMALLEST, place.current.clientWidth);
    const make = () => {
      plot.current?.destroy();
      plot.current = new window.uPlot(optionsOf(width(), names), latest.current, place.current);
    };
    make();
    const resized = new ResizeObserver(() => plot.current.setSize({ width: width(), height: HEIGHT }));
    resized.observe(place.current);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", make);
    return () => {
      resized.disconnect();
      dark.removeEventListener("change", make);
      plot.current.destroy();
    };
  }, [title, names.join()]);
  useEffect(() => {
    if (!plot.current) return;
    plot.current.setData(data);
    showRest(plot.current);
  });
  const last = points.at(-1) || {};
  const said = names.map((name) => `${name} ${last[name] ?? "unknown"}`).join(", ");
  return html`<figure class="chart" role="img" aria-label=${`${title}: ${said}`} data-last=${said} data-points=${points.length}>
    <h3>${title}</h3>
    ${!points.length && html`<p class="muted">Nothing is recorded yet.</p>`}
    <div ref=${place} aria-hidden="true" hidden=${!points.length}></div>
  </figure>`;
}

// The numbers over their times, on a line without axes.
export function Sparkline({ points, label }) {
  const [first, last] = [points[0], points.at(-1)];
  const top = Math.max(1e-9, ...points.map(({ value }) => value));
  const x = ({ at_ms }) => (100 * (at_ms - first.at_ms)) / Math.max(1, last.at_ms - first.at_ms);
  const line = points.map((point) => `${x(point).toFixed(1)},${(24 - (point.value / top) * 22).toFixed(1)}`).join(" ");
  return html`<svg class="sparkline" viewBox="0 0 100 26" role="img" aria-label=${label} preserveAspectRatio="none" data-top=${top}>
    <polyline points=${line} />
  </svg>`;
}

export const Bar = ({ value, most }) => html`<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
  <rect class="whole" width="100" height="10" /><rect width=${(100 * Math.min(value, most)) / most} height="10" />
</svg>`;

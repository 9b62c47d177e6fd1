// Draws numbers over time: a chart with axes by uPlot, and a small line without.

import { html, useEffect, useRef } from "./vendor/preact-htm.js";

const HEIGHT = 180;
const COLOURS = ["--line-1", "--line-2", "--line-3", "--line-4"];

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function optionsOf(width, title, names) {
  const axis = { stroke: colour("--text"), grid: { stroke: colour("--border"), width: 1 } };
  const series = names.map((label, n) => ({ label, stroke: colour(COLOURS[n]), width: 2, points: { show: false } }));
  return { title, width, height: HEIGHT, series: [{}, ...series], axes: [axis, { ...axis, size: 60 }], cursor: { y: false } };
}

// `points` have at_ms and a number for each of the names.
export function Chart({ title, points, names }) {
  const place = useRef(null);
  const plot = useRef(null);
  const data = [points.map((point) => point.at_ms / 1000), ...names.map((name) => points.map((point) => point[name]))];
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    const width = () => Math.max(240, place.current.clientWidth);
    const make = () => {
      plot.current?.destroy();
      plot.current = new window.uPlot(optionsOf(width(), title, names), latest.current, place.current);
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
  useEffect(() => plot.current?.setData(data));
  const last = points.at(-1) || {};
  const said = names.map((name) => `${name} ${last[name] ?? "unknown"}`).join(", ");
  return html`<figure class="chart" role="img" aria-label=${`${title}: ${said}`} data-last=${said} data-points=${points.length}>
    <div ref=${place} aria-hidden="true"></div>
  </figure>`;
}

export function Sparkline({ values, label }) {
  const shown = values.slice(-60);
  const top = Math.max(1, ...shown);
  const step = 100 / Math.max(1, shown.length - 1);
  const points = shown.map((value, n) => `${(n * step).toFixed(1)},${(24 - (value / top) * 22).toFixed(1)}`).join(" ");
  return html`<svg class="sparkline" viewBox="0 0 100 26" role="img" aria-label=${label} preserveAspectRatio="none">
    <polyline points=${points} />
  </svg>`;
}

// The live state of all topologies: the latest event that had them, the problem since then, and a ring buffer of the last ten minutes for rates and charts.

import { Problem, follow } from "./api.js";
import { useEffect, useState } from "./vendor/preact-htm.js";

const KEPT = 600;
const RETRY_MS = 1_000;
const RATE_MS = 10_000;
const SECOND_MS = 1_000;

export const OUTCOMES = ["acked", "failed", "timed_out"];

const state = { at_ms: 0, ahead_ms: 0, topologies: undefined, problem: null, rings: new Map(), started: false };
const listeners = new Set();
let abort = new AbortController();

function publish() {
  for (const listener of listeners) listener();
}

// A point of the ring buffer: the time, and what a chart or a rate is drawn from.
const pointOf = (at_ms, { pending, unread, counts }) => ({
  at_ms, pending, unread, acked: counts.acked, failed: counts.failed, timed_out: counts.timed_out,
});

function take(event) {
  state.problem = null;
  if (event.topologies === null) {
    state.problem = new Problem({ code: "store_unavailable", detail: "the store does not answer" }, 503);
  } else {
    Object.assign(state, { at_ms: event.at_ms, ahead_ms: event.at_ms - Date.now(), topologies: event.topologies });
    for (const topology of event.topologies) {
      const ring = state.rings.get(topology.topology) || [];
      ring.push(pointOf(event.at_ms, topology));
      state.rings.set(topology.topology, ring.slice(-KEPT));
    }
  }
  publish();
}

async function run(signal) {
  while (!signal.aborted) {
    try {
      await follow(take, signal);
    } catch (error) {
      if (signal.aborted) return;
      state.problem = error;
      publish();
      if (error.needsKey || error.code === "forbidden") return;
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

// Start again, with the key that is kept now.
export function restart() {
  abort.abort();
  abort = new AbortController();
  state.problem = null;
  run(abort.signal);
}

// The time of the acker: the one clock by which the page counts ages, last acks and deadlines.
export const clock = () => Date.now() + state.ahead_ms;

// Let a component be drawn again at each event; gives the state.
export function useLive() {
  const [, draw] = useState(0);
  useEffect(() => {
    const listener = () => draw((n) => n + 1);
    listeners.add(listener);
    if (!state.started) {
      state.started = true;
      restart();
    }
    return () => listeners.delete(listener);
  }, []);
  return state;
}

const ringOf = (topology) => state.rings.get(topology) || [];

// A point with the outcomes as numbers a second.
const scaled = (point, counts, ms) => ({
  ...point, ...Object.fromEntries(OUTCOMES.map((name) => [name, (Math.max(0, counts[name]) * SECOND_MS) / ms])),
});

// The points of a history, with the outcomes as numbers a second.
export const perSecond = (history) => (history?.points || []).map((point) => scaled(point, point, history.step_ms));

// The last ten minutes: the points of the history, then those that this page saw itself, with the outcomes as numbers a second.
export function withHistory(topology, history) {
  const ring = ringOf(topology);
  const seen = ring.slice(1).map((point, n) => {
    const counts = Object.fromEntries(OUTCOMES.map((name) => [name, point[name] - ring[n][name]]));
    return scaled(point, counts, Math.max(1, point.at_ms - ring[n].at_ms));
  });
  const [first, last] = [ring[0]?.at_ms ?? Infinity, ring.at(-1)?.at_ms ?? 0];
  const before = perSecond(history).filter(({ at_ms }) => at_ms < first && at_ms > last - KEPT * SECOND_MS);
  return [...before, ...seen];
}

// How many roots ended a second, at a point with numbers a second.
export const endedOf = (point) => ({ at_ms: point.at_ms, value: OUTCOMES.reduce((sum, name) => sum + point[name], 0) });

// How many a second, over the last ten seconds; null until there are two points.
export function rateOf(topology, name) {
  const ring = ringOf(topology);
  const last = ring.at(-1);
  const first = last && ring.find((point) => point.at_ms >= last.at_ms - RATE_MS);
  if (!last || first === last) return null;
  return Math.max(0, ((last[name] - first[name]) * SECOND_MS) / (last.at_ms - first.at_ms));
}

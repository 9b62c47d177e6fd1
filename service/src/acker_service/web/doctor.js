// The rules of `acker doctor`, for the page: documents of the contract in, findings out, without I/O.
//
// There is a rule for each entry of docs/runbook.md, in its order. The rules of the command line are the same, in
// Python (acker_client/_cli/doctor); both are tested against tests/support/doctor_cases.json.

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
export const SILENT_MS = MINUTE_MS;
const RECENT_MS = 10 * MINUTE_MS;
const UNREAD_MS = 5 * MINUTE_MS;
const LONG_UNREAD_MS = 60 * MINUTE_MS;
const NEARLY_FULL = 0.8;
const FILLS = 0.75;
const SHORTENS = 0.5;
const REFUSES_INITS = 0.9;
const SLOWER_THAN_P99 = 10;
const [TIMED_OUT_SHARE, FAILED_SHARE, MOST] = [0.05, 0.2, 0.5];
const ACKED_TOO_OFTEN = "a tuple was acked more often than sent"; // how the reason of such a timeout begins
const UNITS = [[24 * 60 * MINUTE_MS, "d"], [60 * MINUTE_MS, "h"], [MINUTE_MS, "min"], [SECOND_MS, "s"]];

// A length of time in its largest whole unit.
export function span(ms) {
  const unit = UNITS.find(([size]) => ms >= size);
  return unit ? `${Math.floor(ms / unit[0])} ${unit[1]}` : "0 s";
}

const finding = (rule, level, what, does, { since_at_ms = null, topology = null, spout_task = null } = {}) =>
  ({ rule, level, what, do: does, since_at_ms: since_at_ms ?? null, topology, spout_task });

const part = (seen, name) => seen.status?.[name] || {};
const ended = (point) => point.acked + point.failed + point.timed_out;
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

const pointsOf = (seen, topology, within_ms = RECENT_MS) =>
  (seen.history?.[topology]?.points || []).filter((point) => point.at_ms > seen.now_ms - within_ms);

const silentSince = (seen, root) => root.last_ack_at_ms || seen.now_ms - root.age_ms;

// How long a root of a topology may go without an ack.
function patienceOf(seen, topology) {
  const slowest = Math.max(0, ...pointsOf(seen, topology.topology).map((point) => point.p99_ms || 0));
  const half = Math.floor(topology.message_timeout_ms / 2);
  return Math.max(SILENT_MS, Math.floor(Math.min(SLOWER_THAN_P99 * slowest, half)));
}

// Each topology with silent roots, these roots, and whether others end meanwhile.
function* silentOf(seen) {
  for (const topology of seen.topologies || []) {
    const patience = patienceOf(seen, topology);
    const roots = seen.silent_roots?.[topology.topology] || [];
    const silent = roots.filter((root) => seen.now_ms - silentSince(seen, root) >= patience);
    if (silent.length) yield [topology, silent, pointsOf(seen, topology.topology, patience).some(ended)];
  }
}

function mostCommon(names) {
  const counts = new Map();
  for (const name of [...names].sort()) counts.set(name, (counts.get(name) || 0) + 1);
  return [...counts].reduce((best, each) => (best && best[1] >= each[1] ? best : each), null)?.[0] ?? null;
}

// The first spout task with as many pending roots as it may have; empty if there is none.
function refusedOf(seen, { topology, max_spout_pending: most }) {
  const atLimit = (seen.spouts?.[topology] || []).find(({ pending }) => most && pending >= most);
  return atLimit ? `new inits of ${topology}/${atLimit.spout_task} are refused with max_spout_pending: ` : "";
}

function* nothingEnds(seen) {
  for (const [config, silent, othersEnd] of silentOf(seen)) {
    const { topology, pending } = config;
    if (othersEnd) continue;
    const since_at_ms = Math.min(...silent.map((root) => silentSince(seen, root)));
    const last = mostCommon(silent.map((root) => root.last_component).filter(Boolean));
    const where = last ? `the last acks came from ${last}` : "no component has acked them";
    yield finding("nothing-ends", seen.now_ms - since_at_ms >= UNREAD_MS ? "trouble" : "warning",
      `${refusedOf(seen, config)}no root of ${topology} ends; ${pending} are pending, ${where}`,
      `look at the component that should ack next: it is silent; acker root list ${topology} --no-ack-for 60`, { since_at_ms, topology });
  }
}

// How many timeouts have the reason that a tuple was acked more often than sent, and what to do; or nothing.
function ackedTooOften(seen, { topology, dedupe_window_ms: window }) {
  const listed = (seen.timed_out?.[topology] || []).filter((root) => root.at_ms > seen.now_ms - RECENT_MS);
  const hit = listed.filter(({ reason }) => reason?.startsWith(ACKED_TOO_OFTEN)).length;
  if (!hit) return ["", ""];
  const advice = window ? `let the acks of ${topology} name their edge_id, or make dedupe_window_ms longer; `
    : `let a tuple that comes twice count once: acker topology set ${topology} --dedupe-window automatic; `;
  return [`, ${hit} of the last ${listed.length} because ${ACKED_TOO_OFTEN}`, advice];
}

const hasMoreAcksThanEdges = ({ outstanding, ack_val: value }) =>
  (outstanding ?? null) !== null && (outstanding < 0 || (outstanding === 0 && !/^0*$/.test(value)));

// Each topology with more than this share of such ends: their number, that of all ends, and since when.
function* endedAs(seen, outcome, allowed) {
  for (const config of seen.topologies || []) {
    const points = pointsOf(seen, config.topology);
    const [hit, all] = [sum(points.map((point) => point[outcome])), sum(points.map(ended))];
    if (hit > allowed * all) yield { config, topology: config.topology, hit, all, since_at_ms: points.find((point) => point[outcome]).at_ms };
  }
}

function* rootsTimeOut(seen) {
  for (const { config, topology, hit, all, since_at_ms } of endedAs(seen, "timed_out", TIMED_OUT_SHARE)) {
    const [because, advice] = ackedTooOften(seen, config);
    yield finding("roots-time-out", hit > MOST * all ? "trouble" : "warning",
      `${hit} of ${all} roots of ${topology} timed out in the last 10 min${because}`,
      `${advice}acker failures ${topology} --outcome timed_out --group`, { since_at_ms, topology });
  }
}

function* rootsFail(seen) {
  for (const { topology, hit, all, since_at_ms } of endedAs(seen, "failed", FAILED_SHARE)) {
    yield finding("roots-fail", "warning", `${hit} of ${all} roots of ${topology} failed in the last 10 min`,
      `acker failures ${topology} --outcome failed --group`, { since_at_ms, topology });
  }
}

function* oneMessageIsMissing(seen) {
  for (const [{ topology, pending }, silent, othersEnd] of silentOf(seen)) {
    const known = silent.filter((root) => (root.acks ?? null) !== null); // without details the last ack is unknown
    if (!othersEnd || !known.length) continue;
    const first = known.reduce((one, other) => (silentSince(seen, other) < silentSince(seen, one) ? other : one));
    const from = first.last_component ? `its last ack came from ${first.last_component}` : "no component has acked it";
    const tooOften = hasMoreAcksThanEdges(first) ? `, and ${ACKED_TOO_OFTEN.replace("tuple", "tuple of it")}` : "";
    yield finding("one-message-is-missing", "warning",
      `${known.length} of ${pending} pending roots of ${topology} get no ack while others end; ` +
        `the first is ${first.root_id}, ${from}${tooOften}`,
      `acker root tree ${topology} ${first.root_id}`, { since_at_ms: silentSince(seen, first), topology });
  }
}

function* storeFull(seen) {
  const store = part(seen, "store");
  const [used, most] = [store.used_bytes || 0, store.max_bytes || 0];
  const share = most ? `Redis uses ${Math.floor((100 * used) / most)} % of its memory` : "Redis has no memory left, or may evict";
  if (store.full) {
    yield finding("store-full", "trouble", `new roots are refused with store_full: ${share}`,
      "give Redis more memory, or release and discard unread completions; acker topology list shows which");
  } else if (most && used > FILLS * most) {
    yield finding("store-full", "warning", `${share}; from 90 % on new roots are refused`,
      "acker topology list shows what is pending and unread");
  }
}

function* earlyRootsFill(seen) {
  const most = part(seen, "store").early_max_bytes || 0;
  for (const { topology, early_bytes: taken } of seen.topologies || []) {
    if (!most || !(taken > SHORTENS * most)) continue;
    const isFull = taken > NEARLY_FULL * most;
    const effect = isFull ? "acks and fails of unknown roots are refused with store_full" : "reasons are cut";
    yield finding("early-roots-fill", isFull ? "trouble" : "warning",
      `roots of ${topology} without their init take ${Math.floor((100 * taken) / most)} % of what they may: ${effect}`,
      "find the program that acks or fails roots which no spout emitted, and take its key away", { topology });
  }
}

function* rememberedEdgesFill(seen) {
  const most = part(seen, "store").remembered_max_bytes || 0;
  for (const { topology, remembered_bytes: taken } of seen.topologies || []) {
    if (!most || !(taken > FILLS * most)) continue;
    const isFull = taken > REFUSES_INITS * most;
    const effect = isFull ? "inits are refused with store_full" : "from 90 % on inits are refused";
    yield finding("remembered-edges-fill", isFull ? "trouble" : "warning",
      `what a shard of ${topology} remembers of ended edges and requests takes ${Math.floor((100 * taken) / most)} % of what it may: ${effect}`,
      "shorten its dedupe window or ACKER_IDEMPOTENCY_WINDOW_MS, or find the program that acks ever new edges", { topology });
  }
}

function* redisAway(seen) {
  const store = part(seen, "store");
  if (store.up === false) {
    yield finding("redis-away", "trouble",
      `the acker cannot reach its Redis at ${store.url}; callers get 503 store_unavailable`,
      "look at Redis, its address, its password and the network between; acker doctor --store URL asks it");
  }
  for (const warning of store.warnings || []) {
    yield finding("redis-away", "warning", warning, "change the configuration of Redis");
  }
}

function* spoutsOf(seen) {
  for (const [topology, spouts] of Object.entries(seen.spouts || {})) for (const spout of spouts) yield [topology, spout];
}

const hasWebhook = (spout) => spout.callback?.kind === "webhook";
const stored = ({ unread, dead_letters: dead }) => unread + dead; // what counts against the limit of a mailbox

const unreadOf = (topology, { unread, spout_task: task }) => `${unread} completions of ${topology}/${task} are unread`;

function nearLimit(topology, spout, limit) {
  const { spout_task: task, unread, dead_letters: letters } = spout;
  const dead = letters ? ` and ${letters} are dead letters` : "";
  if (stored(spout) < limit) {
    return `${unreadOf(topology, spout)}${dead}, at ${limit} new inits are refused with mailbox_full`;
  }
  const refused = `new inits of ${topology}/${task} are refused with mailbox_full`;
  return `${refused}: ${unread} completions are unread${dead}, at most ${limit} may be`;
}

function lastRead(seen, spout) {
  if (hasWebhook(spout)) return "";
  return spout.last_read_at_ms ? `; they were last read ${span(seen.now_ms - spout.last_read_at_ms)} ago` : "; they were never read";
}

function emptiedBy(topology, spout, nearlyFull) {
  const task = spout.spout_task;
  if (nearlyFull && spout.dead_letters > spout.unread) return `replay or discard them: acker dead-letters list ${topology} ${task}`;
  if (hasWebhook(spout)) return `let its webhook take them: acker webhook show ${topology} ${task}`;
  return `start the reader of ${task}: it continues where it stopped. If its process is gone, read them with: ` +
    `acker completions ${topology} ${task}`;
}

function* mailboxGrows(seen) {
  const limit = Number(part(seen, "settings").ACKER_MAILBOX_MAX?.value || 0);
  for (const [topology, spout] of spoutsOf(seen)) {
    const unreadMs = seen.now_ms - (spout.oldest_unread_at_ms || seen.now_ms);
    const nearlyFull = limit > 0 && stored(spout) > NEARLY_FULL * limit;
    if (!nearlyFull && (hasWebhook(spout) || unreadMs < UNREAD_MS)) continue;
    yield finding("mailbox-grows", nearlyFull || unreadMs >= LONG_UNREAD_MS ? "trouble" : "warning",
      (nearlyFull ? nearLimit(topology, spout, limit) : unreadOf(topology, spout)) + lastRead(seen, spout),
      emptiedBy(topology, spout, nearlyFull),
      { since_at_ms: spout.oldest_unread_at_ms, topology, spout_task: spout.spout_task });
  }
}

// Level, what, what to do and since when, of a webhook; null where it is well.
function judgeWebhook(seen, topology, spout) {
  const { callback, spout_task: task, oldest_unread_at_ms: since, dead_letters: dead } = spout;
  const error = callback.error ? `: ${callback.error}` : "";
  const late = (since ?? null) !== null && seen.now_ms - since >= UNREAD_MS;
  const name = `${topology}/${task}`;
  if (callback.state !== "on") {
    return [spout.unread ? "trouble" : "warning", `the webhook of ${name} is ${callback.state}${error}`,
      `acker webhook resume ${topology} ${task}`, since];
  }
  if (spout.unread && (late || callback.error)) {
    return [late ? "trouble" : "warning", `the webhook of ${name} does not arrive${error}`,
      `acker webhook test ${topology} ${task}`, since];
  }
  if (!dead) return null;
  return ["warning", `${dead} completions of ${name} could not be delivered`, `acker dead-letters list ${topology} ${task}`, null];
}

function* webhookNotDelivered(seen) {
  for (const [topology, spout] of spoutsOf(seen)) {
    const judged = hasWebhook(spout) ? judgeWebhook(seen, topology, spout) : null;
    if (!judged) continue;
    const [level, what, does, since_at_ms] = judged;
    yield finding("webhook-not-delivered", level, what, does, { since_at_ms, topology, spout_task: spout.spout_task });
  }
}

function* overloaded(seen) {
  const load = part(seen, "load");
  const refused = load.overloaded_recently_at_ms ?? null;
  if (refused !== null && seen.now_ms - refused < RECENT_MS) {
    yield finding("overloaded", seen.now_ms - refused < MINUTE_MS ? "trouble" : "warning",
      `the acker refused requests with 503 overloaded ${span(seen.now_ms - refused)} ago`,
      "acker status shows which limit is near; add acker processes or raise the limit", { since_at_ms: refused });
  }
  for (const name of ["in_flight", "body_bytes", "waiting", "connections"]) {
    const limit = load[`${name}_limit`] || 0;
    if (limit && load[name] > NEARLY_FULL * limit) {
      yield finding("overloaded", "warning", `${name} is ${load[name]} of at most ${limit}`,
        "add acker processes or raise the limit");
    }
  }
}

function* timeStandsStill(seen) {
  const store = part(seen, "store");
  if (!store.up || store.ticked !== false) return;
  const works = (seen.status?.processes || []).some((process) => process.role !== "api");
  yield finding("time-stands-still", "trouble",
    `nothing times out and nothing is delivered: ${works ? "a worker runs, but ends no roots" : "no worker runs"}`,
    works ? "read the log of the worker" : "start a worker: acker serve --role worker");
}

function* keys(seen) {
  const { error, count, loaded_at_ms: since_at_ms } = part(seen, "keys");
  if (error) {
    yield finding("keys", "trouble",
      `the file of keys cannot be read: ${error}; the ${count} keys read before are in force`,
      "correct the file that ACKER_KEYS_FILE names; it is read again by itself", { since_at_ms });
  }
  if (seen.refused) {
    yield finding("keys", "trouble", `the acker refuses the key: ${seen.refused.detail}`,
      "give a key of scope admin by --api-key or ACKER_API_KEY");
  }
}

const RULES = [nothingEnds, rootsTimeOut, rootsFail, oneMessageIsMissing, storeFull, earlyRootsFill, rememberedEdgesFill,
  redisAway, mailboxGrows, webhookNotDelivered, overloaded, timeStandsStill, keys];

// Find what is wrong: trouble first, else in the order of the runbook.
export function judge(seen) {
  const found = RULES.flatMap((rule) => [...rule(seen)]);
  return [...found.filter(({ level }) => level === "trouble"), ...found.filter(({ level }) => level !== "trouble")];
}

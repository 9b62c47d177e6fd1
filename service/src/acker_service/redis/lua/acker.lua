#!lua name=acker
--[[
  The acker's law inside Redis. This library holds what acker_protocol/tree.py states; a stateful property test holds
  the two equal. Files are joined in this order: acker (names, clock, stamp), record, completions, law, requests, tick,
  mailbox, delivery, dead, roots, topologies, removal.

  House rules: validate, then write, then never error. Replies are words or flat lists that begin with one. A changed
  signature is a _v2 beside the _v1. No KEYS, no unbounded loop.

  Keys. K = acker:{TOPOLOGY/SHARD} is the stamp and the only key without the incarnation in its name; all others of the
  shard begin with K:INCARNATION: and share its hash tag. Times are Unix milliseconds unless said otherwise.

    K         string  stamp: the pair of incarnation (16 hex digits) and version (10 digits); with an x behind it a
                      tombstone, which stays for a day
    r<b>      hash    bucket b of roots: root id (8 raw bytes) -> record (see record.lua); TTL 21 days as a backstop
    x<b>      hash    what is too long for a record: root id -> message id, 'f' .. root id -> early failure
    due       zset    bucket -> earliest deadline in it; a hint when to look, the record is the truth
    f0:<b> f1:<b>     hash  outcomes by root id (A, F or T), in slices of one retention by its parity, expiring whole
    s0:<n> s1:<n>     set   hashes of requests that were applied, in slices of one idempotency window
    p0:<n> p1:<n>     set   hashes of acked (root, edge) pairs, in slices of one dedupe window
    pending   hash    spout index -> roots pending
    unread    hash    spout index -> completions not released
    m<i>      stream  mailbox of spout index i: c = completions one after another (completions.lua), n = how many
    heads     hash    spout index -> entry and count of the completions already released from that first entry
    tips      hash    spout index -> newest entry, for whoever looks for news
    retry<i>  zset    entry of m<i> -> when it is tried again; what failed together has one score and is tried together
    tries<i>  hash    entry of m<i> -> how often it was tried
    d<i>      stream  dead letters: n and c as in m<i>, a = tries, e = what went wrong last, t = when
    begun     hash    spout index -> since when its callback is what it is
    sent      hash    spout index -> newest entry that was tried, or published
    leases    hash    spout index -> worker that delivers, and until when nobody else may
    failing   hash    spout index -> since when no delivery succeeded
    dead      hash    spout index -> completions in d<i>
    used      hash    spout index -> when it was last emitted under or read
    gone      set     indexes of removed spout tasks: what ends under them is told to nobody
    counts    hash    dropped (early roots without an init), unbalanced (see the law); completions delivered, retried,
                      published, dead (moved to the dead letters), discarded; of each outcome (acked, failed,
                      timed_out) NAME:e = completions with a latency of at most 2^e ms (and above 2^(e-1)), NAME_ms = all
                      their latencies together

    barrier   string  what was written last before replicas were waited for; K's own, without the incarnation
    hints     channel INCARNATION and spout index whose mailbox has news; a shard channel, K's own likewise
    none      never exists; K's own likewise (see refusal)

  All configuration lies in one slot, so that it is written in one step; with T = acker:{topologies}

    T                             set     the names of topologies
    T:TOPOLOGY                    hash    pair, config (JSON), next (the next spout index), mark (see removal.lua)
    T::ticked                     string  there while a worker lets time pass
    T:TOPOLOGY:INCARNATION:spouts hash    spout task -> index, when it was made, document (JSON); spaces between
]]

local VERSION = 6
local MAILBOX_FULL = -2147483648
local BACKSTOP_MS = 21 * 86400000

-- Registers a function that Redis runs when its memory is full, too: all but those that make new roots, topologies or
-- spout tasks. At maxmemory Redis refuses every other function, even one that only frees or reads.
local function provide(name, callback)
  redis.register_function { function_name = name, callback = callback, flags = { 'allow-oom' } }
end

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Checks a shard's stamp against the pair that a call names. Gives nil if the call may go on; else the reply that
-- refuses it, with the shard's own pair ('' where it has none). A higher pair is adopted: a PUT that died half-way heals.
-- In a cluster this also refuses a slot that is on its way to another server, before anything is written: Redis answers
-- a call that names a key which is here and one which is not with an error, and the second key here never exists. (The
-- keys that a call touches are not declared, so that Redis would else run it until it met the first one that has gone.)
local function refusal(key, pair)
  local stamp = redis.call('MGET', key, key .. ':none')[1]
  if stamp == pair then return nil end
  if not stamp or pair < stamp or pair:sub(1, 16) == stamp:sub(1, 16) and #stamp > #pair then
    return { 'stale', stamp or '' }
  end
  redis.call('SET', key, pair)
  return nil
end

-- Opens a shard for one call: the names, the time and what the call gathers before it is closed.
local function open(key, pair, settings)
  local c = { base = key .. ':' .. pair:sub(1, 16) .. ':', incarnation = pair:sub(1, 16), now = clock() }
  c.timeout, c.progress, c.dedupe, c.retention, c.window, c.tracked = struct.unpack('>I4I4I4I4I4B', settings)
  c.finished = c.base .. 'f' .. math.floor(c.now / c.retention) % 2 .. ':'
  c.due, c.hints, c.t = c.base .. 'due', key .. ':hints', {}
  c.boxes, c.pending, c.counts, c.latencies, c.kept, c.emitted = {}, {}, {}, {}, {}, {}
  return c
end

-- Lets a key vanish from a store that nobody serves any more: no timeout is longer than a third of this.
local function backstop(c, key)
  redis.call('PEXPIREAT', key, c.now + BACKSTOP_MS)
end

local function count(c, name, by)
  c.counts[name] = (c.counts[name] or 0) + (by or 1)
end

-- Makes a slice expire when it is remembered no longer: at the end of the window after its own. A slice that a longer
-- window wrote before keeps its later end; one that a shorter window wrote gets the later end of this one.
local function keep(c, key, window)
  if c.kept[key] then return end
  c.kept[key] = true
  if redis.call('PEXPIRETIME', key) < c.now + window then
    redis.call('PEXPIREAT', key, (math.floor(c.now / window) + 2) * window - 1)
  end
end

-- Input: KEYS[1] any key. Writes something at its place, for WAIT to wait for all that was written there before.
-- Output: {'ok'}
provide('acker_barrier_v1', function(keys)
  redis.call('SET', keys[1]:match('^[^}]*}') .. ':barrier', '', 'PX', BACKSTOP_MS)
  return { 'ok' }
end)

provide('acker_version', function() return VERSION end)

-- Input: KEYS[1] stamp; ARGV[1] pair. Stamps a shard that has no stamp or a lower one. Output: 'ok' or {'stale', pair}
provide('acker_stamp_v1', function(keys, args)
  if redis.call('EXISTS', keys[1]) == 0 then redis.call('SET', keys[1], args[1]) end
  return refusal(keys[1], args[1]) or { 'ok' }
end)

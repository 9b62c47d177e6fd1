#!lua name=acker
--[[
  The acker inside Redis. transitions.lua holds the same state machine as acker_protocol/tree.py; a stateful property
  test compares the two. Files are joined in this order: acker (names, clock, stamp), buckets, details, traces, memory,
  early, remembered, record, failures, completions, delays, transitions, operations, fast_path, requests, sweep, grace, tick,
  mailboxes, delivery, dead, spouts, roots, failure_list, oldest, topologies, removal, monitoring, history.

  Rules: validate first, then write, then raise no error. A reply is a flat list that begins with a status. A changed
  signature becomes a _v2 beside the _v1. No KEYS command, no unbounded loop. A file's private names are in do ... end,
  because Lua allows 200 local variables at a time. In all files, `call` is the state of one call (begin_call), `root`
  the root that it works on (record.lua) and `op` the operation that it applies (operations.lua).

  A comment "rule: ..." says what the statement below it is for; tests break each rule on purpose (CONTRIBUTING.md).

  Keys. K = acker:{TOPOLOGY/SHARD} holds the stamp and is the only key without the incarnation in its name; all other
  keys of the shard begin with K:INCARNATION: and share its hash tag. Times are Unix milliseconds unless another unit is
  given.

    K         string  stamp: incarnation (16 hex digits) and version (10 digits); a trailing x makes it a tombstone,
                      which lasts one day
    r<b>      hash    bucket b (4 raw bytes) of roots: root id (8 raw bytes) -> record (record.lua) or, of a finished root,
                      marker (buckets.lua); TTL 21 days as a backstop
    x<b>      hash    values too long for a record: root id -> message id, 'f' .. root id -> first failure of a root that
                      has not ended, 't' .. root id -> traceparent
    names     string  names of components and their numbers in records (details.lua)
    due       zset    bucket (4 raw bytes) -> earliest deadline in it, or the time to remove its outcomes; a hint when to
                      look, the record decides. SWEEP (buckets.lua) -> when to look whether to sweep
    slices    string  when outcomes expire (buckets.lua)
    sweep     hash    the sweep of expired outcomes (sweep.lua)
    ticks     string  last tick and gap, of a topology with grace (grace.lua); TTL 21 days
    s0:<n> s1:<n>     set   hashes of requests that were applied, in slices of one idempotency window; odd where operations
                            of the request were refused
    n0:<n> n1:<n>     hash  odd hash in s<slice>:<n> -> which operations were refused (pack_refused); as long as that
    p0:<b> p1:<b>     set   hashes of (root, edge) pairs that ended, in slices of one dedupe window; two sets a bucket, 0 or 1
                            behind its bytes
    remembered  string  bytes that the sets p<slice>:… take, and s<slice>:… with n<slice>:… (remembered.lua); as long as
                      the longest of them
    pending   hash    spout index -> roots pending
    unread    hash    spout index -> completions not released
    m<i>      stream  mailbox of spout index i: c = completions one after another (completions.lua), n = their number
    heads     hash    spout index -> first entry and the number of its completions that are already released
    tips      hash    spout index -> newest entry, for those who poll for new completions
    retry<i>  zset    entry of m<i> -> time of its next try; entries that failed together share one score and one try
    tries<i>  hash    entry of m<i> -> number of tries
    d<i>      stream  dead letters: n and c as in m<i>, a = tries, e = last error, t = time
    begun     hash    spout index -> epoch of its callback: the time of its last change
    sent      hash    spout index -> newest entry that was tried, or published
    leases    hash    spout index -> worker that delivers, and the end of its lease
    failing   hash    spout index -> time of the first failure since the last success
    dead      hash    spout index -> completions in d<i>
    used      hash    spout index -> time of the last emit
    read      hash    spout index -> time of the last read, noted once a second at most
    delivered hash    spout index -> time of the last delivery of which the receiver took something
    errors    hash    spout index -> time and text of the last error of a delivery
    early     string  number of early roots and the bytes that they take (early.lua), with a space between them; none if it
                      is missing; TTL 28 days
    traces    zset    root id -> time at which its trace began, or later (traces.lua); TTL: that of all traces
    acked     zset    root id of a traced root that was acked -> when; TTL: that of a trace
    traced    hash    root id -> bytes reserved for a long trace, '' -> bytes of all traces; TTL: that of all traces
    trace:<r> cut:<r> string  trace of the root r (8 raw bytes); TTL: that of a trace
    gone      set     indexes of removed spout tasks: roots that end under them give no completion
    counts    hash    dropped (early roots without an init), unbalanced (see resolve); completions delivered, retried,
                      published, dead (moved to the dead letters), discarded; of each outcome (acked, failed,
                      timed_out) NAME:e = completions with a latency of at most 2^e ms (and above 2^(e-1)), NAME_ms =
                      the sum of their latencies; listed, chunk: of the last failures (failures.lua)
    failures0 to failures8  string  the last failures (failures.lua); TTL 1 day
    failed    hash    failures by outcome and component (count_kind)
    delays    hash    NAME:e and NAME_ms, as in counts, of late (timeouts after their deadline) and release (completions
                      from their end to their release)

    barrier   string  the last write before a wait for replicas; K's own, without the incarnation
    hints     channel INCARNATION and spout index of a mailbox with new completions; a shard channel, K's own likewise
    none      never exists; K's own likewise (see check_stamp)

  The configuration of all topologies has one slot, so that one step can write it; with T = acker:{topologies}

    T                             set     the names of topologies
    T:TOPOLOGY                    hash    pair (the stamp), config (JSON), next (the next spout index), mark
                                          (see removal.lua)
    T::ticked                     string  exists while a worker ticks
    T::acts                       zset    number and act (JSON), by number (monitoring.lua); TTL 30 days
    T::processes                  hash    id of a process -> when it was noted and what it is (JSON); TTL 10 seconds
    T::sampled                    string  number of the step of time whose history a worker took last (history.lua)
    T::layout                     string  number of this layout of keys and records; a store of another one is refused
    T:TOPOLOGY:INCARNATION:spouts hash    spout task -> index, creation time and document (JSON), separated by spaces
    T:TOPOLOGY:INCARNATION:history<l>  zset  samples of level l, from 1 to 3, by the number of their step (history.lua)
]]

local VERSION = 62
local LAYOUT = 8
local MAILBOX_FULL = -2147483648
local ALL_ENDED, ENDS_EDGE, DROPPED = 1, 1, 1  -- forms of an init, of a fail and of an ack (operations.lua)
-- rule: the backstop is three times the longest timeout
local BACKSTOP_MS = 21 * 86400000

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Returns the prefix of the keys of one incarnation of a shard.
local function base_of(key, stamp)
  -- rule: all functions of a shard use keys with the incarnation
  return key .. ':' .. stamp:sub(1, 16) .. ':'
end

-- The names of keys that calls on a shard need, by its key: to join them anew takes as long as to read a key. Of so many
-- shards as this is something kept between calls.
local MOST_SHARDS = 4096
local names_by_key, named_shards = {}, 0

local function names_of(key, stamp)
  local names = names_by_key[key]
  -- rule: the names of one stamp are not those of another
  if names and names.stamp == stamp then return names end
  if not names then
    if named_shards >= MOST_SHARDS then names_by_key, named_shards = {}, 0 end
    named_shards = named_shards + 1
  end
  local base = base_of(key, stamp)
  names_by_key[key] = { stamp = stamp, base = base, none = key .. ':none', remembered = base .. 'remembered' }
  return names_by_key[key]
end

-- Compares a shard's stamp with the stamp of a call. Returns nil if they fit, and what lies in a further key of the shard,
-- if one is asked for: to read it here costs a third of a call of its own. Else returns the reply that refuses the call,
-- with the shard's own stamp ('' if it has none). A higher stamp is adopted: this heals a PUT that died half-way.
-- In a cluster this also refuses a slot that is being moved to another server, before anything is written: Redis
-- answers a command that names one key that exists here and one that does not with an error, and the second key never
-- exists. (The keys of a call are not declared; without this check Redis would run it until it met the first key that
-- has moved.)
local function check_stamp(key, stamp, none, further)
  local found = further and redis.call('MGET', key, none, further) or redis.call('MGET', key, none)
  local own = found[1]
  if own == stamp then return nil, found[3] end
  -- rule: a pair is stale if it is lower, the shard has none, or its incarnation has a tombstone
  if not own or stamp < own or stamp:sub(1, 16) == own:sub(1, 16) and #own > #stamp then
    return { 'stale', own or '' }
  end
  -- rule: a higher pair is adopted, and is the shard's own from then on
  redis.call('SET', key, stamp)
  return nil, found[3]
end

-- Registers a function that Redis also runs at maxmemory: all but those that make roots, topologies or spout tasks, or
-- write these two anew.
-- At maxmemory Redis refuses every other function, even one that only frees or reads.
local function register(name, callback, flags)
  -- rule: what frees or reads runs in a full store
  redis.register_function { function_name = name, callback = callback, flags = flags or { 'allow-oom' } }
end

-- Wraps a function of a shard: KEYS[1] is the shard, ARGV[1] the stamp. The wrapped function runs only if the stamp
-- fits, and gets the shard's key, the prefix of its keys, ARGV, and the value of the key that is `read` with the stamp.
local function on_shard(callback, read)
  return function(keys, args)
    local names = names_of(keys[1], args[1])
    local stale, value = check_stamp(keys[1], args[1], names.none, read and names[read])
    -- rule: a stale call applies nothing
    if stale then return stale end
    return callback(keys[1], names.base, args, value)
  end
end

local function register_on_shard(name, callback)
  register(name, on_shard(callback))
end

-- Fields of a call that many calls do not need: each is made when it is first used, because to make all of them takes
-- nearly as long as to apply an ack. `collected` reads a table without making it.
local MADE, NONE = {}, {}

function MADE.due_key(call) return call.base .. 'due' end
-- rule: hints go to the channel of their shard
function MADE.hints_channel(call) return call.key .. ':hints' end
-- rule: hints carry the incarnation
function MADE.incarnation(call) return call.stamp:sub(1, 16) end

function MADE.max_failures(call) return (struct.unpack('>I2', call.settings, 22)) end
function MADE.trace_max(call) return (struct.unpack('>I6', call.settings, 24)) end
function MADE.trace_ttl(call) return (struct.unpack('>I5', call.settings, 30)) end

for name in ('completions_by_spout pending emitted scores counts latencies acked_latencies failures failures_by_spout '
  .. 'numbers new_rests'):gmatch('%S+') do
  MADE[name] = function() return {} end
end

local CALL = {
  __index = function(call, name)
    local make = MADE[name]
    if not make then return nil end
    local made = make(call)
    call[name] = made
    -- rule: a call that collected something writes it
    if type(made) == 'table' then call.is_unused = false end
    return made
  end,
}

local function collected(call, name)
  return rawget(call, name) or NONE
end

-- Begins one call: its names, its time, and the changes that `commit` writes. ARGV[1] is the stamp, ARGV[2] the
-- settings: message timeout, progress timeout, dedupe window, retention, idempotency window (I4 each), and B: 1 with
-- ackers, 2 where new roots get details, 4 where roots end when all of their edges have ended; most failures that the
-- shard lists I2; of traces: most bytes of the shard I6, time to live I5 (traces.lua). With what most calls set besides,
-- the table has at most 32 fields: with one more it is built anew, and that takes as long as to read a key.
local function begin_call(key, base, args)
  local message_timeout, progress_timeout, dedupe_window, retention, idempotency_window, flags =
    struct.unpack('>I4I4I4I4I4B', args[2])
  return setmetatable({
    -- rule: the keys of a call carry the incarnation
    key = key, base = base, stamp = args[1], now = clock(), root = {},
    message_timeout = message_timeout, progress_timeout = progress_timeout, dedupe_window = dedupe_window,
    retention = retention, idempotency_window = idempotency_window, tracked = flags % 2, has_details = flags % 4 >= 2, all_ended = flags >= 4,
    settings = args[2], early_change = 0, early_growth = 0, traces_growth = 0, traces_expiry = 0, has_acked_traces = false,
    store_full = false, changed = false, free_slots = false, is_unused = true,
  }, CALL)
end

-- Lets a key expire in a store that nobody serves any more: no timeout is longer than a third of this.
local function set_backstop_ttl(call, key)
  -- rule: a key that nobody ends goes with the backstop
  redis.call('PEXPIREAT', key, call.now + BACKSTOP_MS)
end

local function count(call, name, by)
  call.counts[name] = (call.counts[name] or 0) + (by or 1)
end

-- Input: KEYS[1] any key. Writes to its slot, so that WAIT covers all earlier writes to that server. Output: {'ok'}
register('acker_barrier_v1', function(keys)
  -- rule: a barrier is a write at the place of its key, and goes on its own
  redis.call('SET', keys[1]:match('^[^}]*}') .. ':barrier', '', 'PX', BACKSTOP_MS)
  return { 'ok' }
end)

register('acker_version', function() return VERSION end)

-- Checks what the login of the caller may do: Redis runs a function by the rights of its caller, and stops it half-way
-- where one is missing. Also runs on a replica. A command that the server does not have is not allowed.
-- Any other error is none of the login's: Redis 8.0 raises one for a command that lacks a word.
-- Input: no keys; ARGV commands, their words separated by a space.
-- Output: {'ok', per command '1' (allowed) or '0'}, or {'unknown', command, error} of the first that cannot be checked
register('acker_rights_v1', function(_, args)
  local allowed = {}
  for i, command in ipairs(args) do
    local words = {}
    for word in command:gmatch('%S+') do words[#words + 1] = word end
    local is_checked, may = pcall(redis.acl_check_cmd, unpack(words))
    -- rule: an error of the check is no missing right
    if not is_checked and not may:find('Invalid command', 1, true) then return { 'unknown', command, may } end
    -- rule: a command is allowed if the server has it and the login may run it
    allowed[i] = is_checked and may and '1' or '0'
  end
  return { 'ok', table.concat(allowed) }
end, { 'allow-oom', 'no-writes' })

-- Input: KEYS[1] shard; ARGV[1] stamp. Stamps a shard that has no stamp or a lower one.
-- Output: {'ok'} or {'stale', stamp}
register('acker_stamp_v1', function(keys, args)
  -- rule: a shard without a stamp is stamped, a higher stamp is left alone
  if redis.call('EXISTS', keys[1]) == 0 then redis.call('SET', keys[1], args[1]) end
  return check_stamp(keys[1], args[1], keys[1] .. ':none') or { 'ok' }
end)

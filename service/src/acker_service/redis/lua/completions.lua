--[[
  A completion in a mailbox, big-endian: root id c8, started I5 and ended I5 (milliseconds since 2020-01-01), flags B
  (the outcome 0 acked, 1 failed, 2 timed out; 4 message id, 8 reason, 16 component, 32 traceparent, 64 failures,
  128 dropped), then in that order each text that has a flag, as its length I2 and its bytes; a traceparent is trace id,
  span id and flags, 25 bytes, failures the number of edges that failed and dropped of those that were dropped, I4. A
  timeout has no component: of a root with details its text 16 says where it hung, as flags B (1 outstanding is known, 2 an ack came), outstanding i4, time of the last ack I5, and the
  component of the last ack.
]]

-- rule: an outcome has its own code
local OUTCOME = { A = 0, F = 1, T = 2 }
-- rule: an outcome has its own count
local COUNTED = { A = 'acked', F = 'failed', T = 'timed_out' }
local LATENCY_SUM = { A = 'acked_ms', F = 'failed_ms', T = 'timed_out_ms' }
local MAX_EXPONENT = 23

-- The number of texts by flags: the four outcomes have the same. While a library is loaded, there is no `math`.
local TEXTS = {}
do
  local by_texts = { 0, 1, 1, 2, 1, 2, 2, 3 }
  for i = 0, 31 do
    TEXTS[i] = by_texts[(i - i % 4) / 4 + 1]
    TEXTS[i + 32] = TEXTS[i] + 1
    TEXTS[i + 64], TEXTS[i + 96] = TEXTS[i] + 1, TEXTS[i] + 2
  end
  for i = 0, 127 do TEXTS[i + 128] = TEXTS[i] + 1 end
end

-- Returns the position behind so many completions that begin at a position. Without struct.unpack and calls of its own it
-- takes a quarter of the time, and an entry may hold ten thousand.
local function skip_completions(packed, at, n)
  local byte = string.byte
  for _ = 1, n do
    local texts = TEXTS[byte(packed, at + 18)]
    at = at + 19
    for _ = 1, texts do
      local high, low = byte(packed, at, at + 1)
      -- rule: a completion ends behind its texts
      at = at + 2 + high * 256 + low
    end
  end
  return at
end

local function exponent_of(latency)
  if latency <= 1 then return 0 end
  -- rule: a latency is counted at the least power of two that holds it
  local _, exponent = math.frexp(latency - 1)
  -- rule: long latencies are counted together
  return exponent < MAX_EXPONENT and exponent or MAX_EXPONENT
end

-- Counts completions by outcome and complete latency. Keys are numbers here: `commit` makes the names, once a call.
local function count_completion(call, outcome, latency, times)
  local counted, exponent = call.latencies[outcome] or {}, exponent_of(latency)
  call.latencies[outcome] = counted
  counted[exponent] = (counted[exponent] or 0) + times
  -- rule: latencies are added up
  if latency > 0 then count(call, LATENCY_SUM[outcome], latency * times) end
end

-- Writes the counts by latency. An outcome's total is their sum, so that a single completion writes one field less.
local function write_latencies(call)
  for outcome, counted in pairs(collected(call, 'latencies')) do
    for exponent, change in pairs(counted) do
      -- rule: ended roots are counted
      redis.call('HINCRBY', call.base .. 'counts', COUNTED[outcome] .. ':' .. exponent, change)
    end
  end
end

local function add_text(flags, packed, flag, value)
  if not value then return flags, packed end
  return flags + flag, packed .. struct.pack('>I2', #value) .. value
end

-- Packs a failure as an early root stores it and as a completion carries it: flags, then the texts.
local function pack_failure(reason, component)
  -- rule: a failure has a reason
  local flags, packed = add_text(0, '', 8, reason)
  -- rule: a failure names its component
  flags, packed = add_text(flags, packed, 16, component)
  return string.char(flags) .. packed
end

local function read_failure(call, root)
  -- rule: the failure of an earlier call lies beside the record
  return root.failure or redis.call('HGET', call.base .. 'x' .. root.bucket, 'f' .. root.id)
end

local function read_message_id(call, root)
  -- rule: a long message id lies beside the record
  return root.message_id
    or root.message_id_is_long and redis.call('HGET', call.base .. 'x' .. root.bucket, root.id) or nil
end

local function read_traceparent(call, root)
  -- rule: a traceparent lies beside the record
  return root.traceparent
    or root.has_traceparent and redis.call('HGET', call.base .. 'x' .. root.bucket, 't' .. root.id) or nil
end

-- Whether more edges were acked than sent.
local function is_acked_too_often(high, low, outstanding)
  -- rule: a tuple was acked more often than sent if fewer edges than none are outstanding, or none and the ack val is not
  return outstanding < 0 or outstanding == 0 and (high ~= 0 or low ~= 0)
end

-- Returns the reason of a timeout where the root knows it: more edges were acked than sent.
local function timeout_reason(call, root)
  -- rule: a count that is unknown gives a timeout no reason
  if not root.outstanding or not is_acked_too_often(root.high, root.low, root.outstanding) then return nil end
  -- rule: a timeout lacks a window, or the names of edges in one
  local lacking = call.dedupe_window > 0 and 'its acks name no edge_id or came after the dedupe window or in a full store'
    or 'dedupe_window_ms is 0'
  return 'a tuple was acked more often than sent: it came twice and ' .. lacking
    .. ', or the ack that names it as a child is lost'
end

-- Packs where a root with details hung: its outstanding edges (nil: unknown), the time of its last ack since the epoch
-- of completions (nil: none came), and the component that this named.
local function pack_progress(outstanding, acked_at, component)
  local flags = (outstanding and 1 or 0) + (acked_at and 2 or 0)
  return struct.pack('>I2Bi4I5', 10 + #component, flags, outstanding or 0, acked_at or 0) .. component
end

-- Ends a root: collects its completion for its spout task; `commit` appends it to the mailbox.
local function finish(call, root, outcome)
  -- rule: a completion carries the message id
  local flags, packed = add_text(OUTCOME[outcome], '', 4, read_message_id(call, root))
  local component, progress = '', nil
  -- rule: a failed root is told with its reason
  if outcome == 'F' then
    local failure = read_failure(call, root) or string.char(0)
    flags, packed = flags + failure:byte(), packed .. failure:sub(2)
    component = component_of_failure(failure)
  elseif outcome == 'T' then
    component = last_component(call, root) or ''
    -- rule: a timeout is told with its reason
    flags, packed = add_text(flags, packed, 8, timeout_reason(call, root))
    -- rule: a timeout of a root with details tells where it hung
    progress = root.acks and pack_progress(root.outstanding, root.acked_at and root.acked_at - EPOCH, component)
  end
  -- rule: a completion carries the traceparent
  local behind, last_texts = add_text(0, '', 32, read_traceparent(call, root))
  -- rule: the completion of a root that ends when all have ended carries how many failed
  if root.tally then
    behind, last_texts = add_text(behind, last_texts, 64, struct.pack('>I4', root.tally.failures))
  end
  -- rule: a completion carries how many edges were dropped
  if root.dropped then behind, last_texts = add_text(behind, last_texts, 128, struct.pack('>I4', root.dropped)) end
  local completions = call.completions_by_spout[root.spout] or {}
  call.completions_by_spout[root.spout] = completions
  -- rule: a completion says when the tree began
  local head = struct.pack('>c8I5I5', root.id, root.started - EPOCH, call.now - EPOCH)
  local listed = head .. string.char(flags + behind) .. packed .. last_texts
  completions[#completions + 1] = progress
    and head .. string.char(flags + behind + 16) .. packed .. progress .. last_texts or listed
  if outcome ~= 'A' then
    local failures = failures_of(call, root.spout, outcome .. component)
    failures[#failures + 1] = listed
  end
  local free = root.holds_slot and call.free_slots and call.free_slots[root.spout]
  -- rule: a root that ends gives its slot back, but opens no full mailbox
  if free and free ~= MAILBOX_FULL then call.free_slots[root.spout] = free + 1 end
  -- rule: an ended root is remembered with its outcome
  root.state, root.outcome, root.dirty = 'F', outcome, true
  count_completion(call, outcome, call.now - root.started, 1)
end

-- Whether a spout task was removed while roots of it were pending: those give no completion.
local function is_gone(call, spout)
  return redis.call('SISMEMBER', call.base .. 'gone', spout) == 1
end

-- Announces new completions. A hint may be lost, so a login that may not publish must not stop the step half-way:
-- readers also poll.
local function publish_hint(channel, incarnation, spout)
  -- rule: a hint that may not be published stops nothing
  redis.pcall('SPUBLISH', channel, incarnation .. ' ' .. spout)
end

local function append_completions(call, spout, completions)
  local entry = redis.call('XADD', call.base .. 'm' .. spout, '*', 'n', #completions, 'c', table.concat(completions))
  -- rule: every completion of an entry is counted as unread
  redis.call('HINCRBY', call.base .. 'unread', spout, #completions)
  -- rule: the newest entry is noted
  redis.call('HSET', call.base .. 'tips', spout, entry)
  -- rule: a hint tells of a new entry
  publish_hint(call.hints_channel, call.incarnation, spout)
end

-- Commits a call: appends completions to the mailboxes, publishes hints, writes counts. One entry per spout task holds
-- all completions of the call, so that a batch costs one append.
local function commit(call)
  -- rule: a trace that grew counts though nothing else changed, and so does an early root
  if call.is_unused and call.early_change == 0 and call.early_growth == 0
    and call.traces_growth == 0 and call.traces_expiry == 0 then return end
  write_scores(call)
  for spout, completions in pairs(collected(call, 'completions_by_spout')) do
    -- rule: a root under a removed spout task is told to nobody
    if not is_gone(call, spout) then append_completions(call, spout, completions) end
  end
  for spout, change in pairs(collected(call, 'pending')) do
    -- rule: pending roots are counted, but not under a removed spout task
    if change ~= 0 and not is_gone(call, spout) then redis.call('HINCRBY', call.base .. 'pending', spout, change) end
  end
  -- rule: an emit uses its spout task
  for spout in pairs(collected(call, 'emitted')) do redis.call('HSET', call.base .. 'used', spout, call.now) end
  -- rule: the number of early roots is written with all else
  write_early(call)
  write_traces(call)
  write_failures(call)
  for latency, times in pairs(collected(call, 'acked_latencies')) do count_completion(call, 'A', latency, times) end
  write_latencies(call)
  -- rule: what a call counted is added to the counts
  for name, change in pairs(collected(call, 'counts')) do redis.call('HINCRBY', call.base .. 'counts', name, change) end
end

--[[
  A record holds one early or pending root: 22 bytes, or 28 with details, and a tail, big-endian.

    ack val            2 x i4   two halves: numbers are doubles here, bit operations 32-bit
    outstanding        i2
    flags              B        1 emitted, 2 failed, 4 outstanding unknown, 8 message timeout of its own, 16 rare
                                fields, 32 message id in the tail, 64 message id in x<b>, 128 details
    details            6 bytes  if the topology had root_details when the root began:
                                I3 from the start to the last ack (pack_span), B component of the last ack
                                (component_number; 0 none), I2 number of acks (65535: or more)
    started            I5       milliseconds since 2020-01-01
    deadline           I4       milliseconds after started
    spout index        I2       of an early root the bytes that it takes (early.lua)
    message timeout    I4       if it has its own
    rare fields        B        1 wide: outstanding i4 and spout index I4 follow, instead of those before
                                2 progress timeout I4 and idle deadline I4 (milliseconds after started) follow
                                4 traced (traces.lua)
                                8 traceparent in x<b>
                                16 it ends when all of its edges have ended
                                32 number of failed edges I4 follows
                                64 a plain fail came (of an early root)
                                128 number of dropped edges I4 follows
    message id                  the rest, if the record stays within 58 bytes without details, and so within 64 with
                                them: one longer value would turn the whole small hash of the bucket into a large one

  An ack rewrites the first 10 bytes, and the details.

  The table `root` is one root while a call works on it. id is the root id, state N (unknown), E (early), P (pending) or
  F (finished; outcome is A, F or T); high and low are the ack val. failure is the packed failure (completions.lua) of a
  fail of this call; the failure of an earlier call lies in x<b>. tally is what is counted of its fails, by a pending root
  only if it ends when all have ended (ends_when_all_have), by an early one once it was failed, else nil: failures is the
  number of edges that failed, all_ended says that the init came, has_plain_fail that a fail without an edge did. dropped
  is the number of edges that were acked as dropped, nil for none.
  message_id_is_long says that the message id lies in x<b>, has_traceparent that the traceparent does. holds_slot says
  that the root counts against its spout task's cap of pending roots. acks is the number of acks, nil without details;
  acked_at is the time of the last one, nil if none came, and component the number of its component. The number of early
  roots (key early) is the number of records of early roots. size is what an early root takes, early_size what it took
  when it was loaded: false if it was not early then.
]]

local MAX_RECORD_BYTES = 58
local HEAD_BYTES, DETAIL_BYTES = 22, 6
-- The flag of a record with details, their position in it, and the position behind them.
local DETAILS, DETAILS_AT, BEHIND_DETAILS = 128, 12, 12 + DETAIL_BYTES
local MAX_ACKS = 65535
local TRACED, TRACEPARENT, ENDS_ON_ALL, FAILED_EDGES, PLAIN_FAIL, DROPPED_EDGES = 4, 8, 16, 32, 64, 128 -- of the rare fields

-- Begins a tally: { all_ended = whether the init came }.
local function new_tally(tally)
  tally.failures, tally.has_plain_fail = 0, false
  return tally
end

local function read_rare_fields(root, raw, pos)
  local fields
  fields, pos = struct.unpack('>B', raw, pos)
  if fields % 2 == 1 then root.outstanding, root.spout, pos = struct.unpack('>i4I4', raw, pos) end
  root.traced = fields % TRACEPARENT >= TRACED
  root.has_traceparent = fields % ENDS_ON_ALL >= TRACEPARENT
  if fields % DROPPED_EDGES >= ENDS_ON_ALL then
    root.tally = new_tally { all_ended = fields % FAILED_EDGES >= ENDS_ON_ALL }
    root.tally.has_plain_fail = fields % DROPPED_EDGES >= PLAIN_FAIL
  end
  if fields % 4 >= 2 then
    root.progress_timeout, root.idle_deadline, pos = struct.unpack('>I4I4', raw, pos)
    root.idle_deadline = root.started + root.idle_deadline
  end
  if fields % PLAIN_FAIL >= FAILED_EDGES then root.tally.failures, pos = struct.unpack('>I4', raw, pos) end
  if fields >= DROPPED_EDGES then root.dropped, pos = struct.unpack('>I4', raw, pos) end
  return pos
end

local function read_record(root, raw)
  local span, acked_after, flags, pos
  root.high, root.low, root.outstanding, flags, pos = struct.unpack('>i4i4i2B', raw)
  root.acks, root.acked_at = nil, nil
  if flags >= DETAILS then acked_after, root.component, root.acks, pos = struct.unpack('>I3BI2', raw, pos) end
  root.started, span, root.spout, pos = struct.unpack('>I5I4I2', raw, pos)
  root.started = root.started + EPOCH
  if acked_after and root.acks > 0 then root.acked_at = root.started + unpack_span(acked_after) end
  root.deadline = root.started + span
  root.state = flags % 2 == 1 and 'P' or 'E'
  root.failed = bit.band(flags, 2) ~= 0
  root.message_timeout, root.progress_timeout, root.idle_deadline = nil, nil, nil
  root.message_id, root.message_id_is_long = nil, bit.band(flags, 64) ~= 0
  root.traced, root.begins_trace = false, false
  root.traceparent, root.has_traceparent = nil, false
  if root.tally then root.tally = nil end
  if root.dropped then root.dropped = nil end
  if bit.band(flags, 8) ~= 0 then root.message_timeout, pos = struct.unpack('>I4', raw, pos) end
  if bit.band(flags, 16) ~= 0 then pos = read_rare_fields(root, raw, pos) end
  if bit.band(flags, 32) ~= 0 then root.message_id = raw:sub(pos) end
  if bit.band(flags, 4) ~= 0 then root.outstanding = nil end
  -- rule: the record of an early root says what it takes
  if root.state == 'E' then root.size, root.spout = root.spout, 0 end
end

-- Whether a value of a bucket is a record, and no marker.
local function is_record(raw)
  return #raw > LONGEST_MARKER
end

-- Returns the last moment at which a root is in time: its message deadline or, if nearer, its idle deadline.
local function due_ms(root)
  -- rule: a root is in time up to the nearer of its two deadlines
  return root.idle_deadline and math.min(root.idle_deadline, root.deadline) or root.deadline
end

-- Sets up the table of a root from what its bucket holds of it: a record, a marker, or false.
local function set_root(call, root, root_id, bucket, raw)
  root.id, root.bucket, root.key = root_id, bucket, call.base .. 'r' .. bucket
  root.dirty, root.outcome, root.failure, root.was_due, root.entries = false, nil, nil, nil, nil
  root.stored = raw and is_record(raw)
  if root.stored then
    read_record(root, raw)
    root.was_due = due_ms(root)
  else
    root.outcome, root.traced = raw and read_marker(call, raw) or nil, false
    root.state = root.outcome and 'F' or 'N'
  end
  -- rule: it is known of a loaded root whether it was early, and what it took
  root.was_pending, root.holds_slot, root.early_size = root.state == 'P', root.state == 'P', root.state == 'E' and root.size
end

-- Loads a root: its record, or its outcome if that is still stored, or nothing.
local function load_root(call, root, root_id, bucket)
  set_root(call, root, root_id, bucket, redis.call('HGET', call.base .. 'r' .. bucket, root_id))
end

local function is_wide(root)
  local outstanding = root.outstanding or 0
  return outstanding > 32767 or outstanding < -32768 or root.spout > 65535
end

local function pack_rare_fields(root)
  local has_traceparent, tally, dropped = root.traceparent or root.has_traceparent, root.tally, root.dropped
  if not is_wide(root) and not root.progress_timeout and not root.traced and not has_traceparent and not tally
    and not dropped then
    return ''
  end
  local fields, packed = 0, ''
  if is_wide(root) then fields, packed = 1, struct.pack('>i4I4', root.outstanding or 0, root.spout) end
  if root.progress_timeout then
    fields = fields + 2
    packed = packed .. struct.pack('>I4I4', root.progress_timeout, root.idle_deadline - root.started)
  end
  if root.traced then fields = fields + TRACED end
  if has_traceparent then fields = fields + TRACEPARENT end
  if tally then
    if tally.all_ended then fields = fields + ENDS_ON_ALL end
    -- rule: a root that waits keeps how many edges failed
    if tally.failures > 0 then fields, packed = fields + FAILED_EDGES, packed .. struct.pack('>I4', tally.failures) end
    -- rule: an early root keeps whether a plain fail came
    if tally.has_plain_fail then fields = fields + PLAIN_FAIL end
  end
  -- rule: a root keeps how many edges were dropped
  if dropped then fields, packed = fields + DROPPED_EDGES, packed .. struct.pack('>I4', dropped) end
  return string.char(fields) .. packed
end

-- Writes what lies in x<b> of a root: a message id that is too long for its record, the failure of an early root or of
-- one that waits for all of its edges, a traceparent.
local function write_long_values(call, root, record_bytes)
  local key = call.base .. 'x' .. root.bucket
  if root.message_id and not root.message_id_is_long and record_bytes + #root.message_id > MAX_RECORD_BYTES then
    root.message_id_is_long = true
    redis.call('HSET', key, root.id, root.message_id)
    set_backstop_ttl(call, key)
  end
  -- rule: a failure with texts lies beside the record
  if root.failure and has_texts(root.failure) then
    redis.call('HSET', key, 'f' .. root.id, root.failure)
    set_backstop_ttl(call, key)
  elseif root.failure then
    -- rule: a failure without texts leaves none of those that it replaces
    redis.call('HDEL', key, 'f' .. root.id)
  end
  if root.traceparent then
    redis.call('HSET', key, 't' .. root.id, root.traceparent)
    set_backstop_ttl(call, key)
    root.traceparent, root.has_traceparent = nil, true
  end
end

local function pack_details(root)
  if not root.acks then return '' end
  local span = root.acked_at and pack_span(root.acked_at - root.started) or 0
  return struct.pack('>I3BI2', span, root.component, math.min(root.acks, MAX_ACKS))
end

local function write_record(call, root)
  -- rule: what an early root takes stands in its record
  if root.state == 'E' then root.spout = root.size end
  local flags, tail, rare = root.state == 'P' and 1 or 0, '', pack_rare_fields(root)
  if root.failed then flags = flags + 2 end
  if not root.outstanding then flags = flags + 4 end
  if root.message_timeout then flags, tail = flags + 8, struct.pack('>I4', root.message_timeout) end
  if rare ~= '' then flags, tail = flags + 16, tail .. rare end
  write_long_values(call, root, HEAD_BYTES + #tail)
  if root.message_id_is_long then
    flags = flags + 64
  elseif root.message_id then
    flags, tail = flags + 32, tail .. root.message_id
  end
  if root.acks then flags = flags + DETAILS end
  local outstanding, spout = root.outstanding or 0, root.spout
  if is_wide(root) then outstanding, spout = 0, 0 end
  redis.call('HSET', root.key, root.id, struct.pack('>i4i4i2B', root.high, root.low, outstanding, flags)
    .. pack_details(root)
    .. struct.pack('>I5I4I2', root.started - EPOCH, root.deadline - root.started, spout) .. tail)
end

local function remove_long_values(call, root)
  -- rule: what lies beside a record goes with it
  if root.message_id_is_long or root.has_traceparent or root.failed and (not root.was_pending or root.tally) then
    redis.call('HDEL', call.base .. 'x' .. root.bucket, root.id, 'f' .. root.id, 't' .. root.id)
  end
end

-- Saves a root that changed: its record, or its outcome in place of the record; and what was noted of a traced one.
local function save_root(call, root)
  if not root.id then return end
  -- rule: what is noted of a root is written though the rest did not change
  if root.traced and (root.dirty or root.entries) then
    -- rule: where early roots take all that they may, the trace of one that is stored ends
    if root.early_size and root.state == 'E' and is_early_full(call, root) then
      cut_trace(call, root.id)
      root.entries = nil
    end
    local before = call.traces_growth
    write_trace(call, root.id, root.entries, root.begins_trace, root.state == 'F' and root.outcome or nil, root.deadline)
    -- rule: the trace of an early root counts among what it takes
    if root.state == 'E' then root.size = root.size + call.traces_growth - before end
  end
  if not root.dirty then return end
  local pending = (root.state == 'P' and 1 or 0) - (root.was_pending and 1 or 0)
  -- rule: a root that begins or ends changes the number of pending ones
  if pending ~= 0 then call.pending[root.spout] = (call.pending[root.spout] or 0) + pending end
  -- rule: a root that becomes early, or was, changes the number of early ones
  call.early_change = call.early_change + (root.state == 'E' and 1 or 0) - (root.early_size and 1 or 0)
  -- rule: a root that becomes early, grows, or was early, changes what they take
  call.early_growth = call.early_growth + (root.state == 'E' and root.size or 0) - (root.early_size or 0)
  local scan_at
  if root.state == 'F' then
    if root.stored then remove_long_values(call, root) end
    local marker, expiry = pack_outcome(call, root.outcome)
    redis.call('HSET', root.key, root.id, marker)
    scan_at = not root.was_due and expiry
  else
    write_record(call, root)
    scan_at = due_ms(root)
    -- rule: a bucket is scored again only if its root is due earlier
    if root.was_due and scan_at >= root.was_due then scan_at = nil end
  end
  if scan_at then score_bucket(call, root.bucket, scan_at) end
end

-- Drops an early root whose init did not come: it gives no completion.
-- rule: nothing stays stored of an early root that is dropped
local function drop_record(call, root)
  redis.call('HDEL', root.key, root.id)
  remove_long_values(call, root)
  -- rule: an early root that is dropped is counted
  count(call, 'dropped')
  if root.traced then drop_trace(call.base, root.id) end
  -- rule: a root that is dropped is early no more
  call.early_change = call.early_change - 1
  -- rule: a root that is dropped takes nothing more
  call.early_growth = call.early_growth - root.size
end

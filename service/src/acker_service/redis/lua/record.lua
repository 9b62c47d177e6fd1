--[[
  A record holds one early or pending root: 26 bytes and a tail, big-endian.

    ack val            2 x i4   two halves: numbers are doubles here, bit operations 32-bit
    started            I5       milliseconds since 2020-01-01
    deadline           I4       milliseconds after started
    outstanding        i4
    spout index        I4
    flags              B        1 emitted, 2 failed, 4 outstanding unknown, 8 own timeout, 16 progress timeout,
                                32 message id in the tail, 64 message id in x<b>, 128 counted among the early roots
    message timeout    I4       if it has its own
    progress timeout   I4, idle deadline I4 (milliseconds after started), if it has one
    message id                  the rest, if the record stays within 64 bytes: one longer value would turn the whole
                                small hash of the bucket into a large one

  The table `root` is one root while a call works on it. id is the root id, state N (unknown), E (early), P (pending) or
  F (finished; outcome is A, F or T); high and low are the ack val. failure is the packed failure (completions.lua) of a
  fail of this call; the failure of an earlier call lies in x<b>. message_id_is_long says that the message id lies in
  x<b>. holds_slot says that the root counts against its spout task's cap of pending roots. was_counted says that the
  record has flag 128: all early ones that this library wrote, none that an older one wrote. The number of early roots
  (key early) is the number of records with this flag: so it is right also where an older library counted none.
]]

local EPOCH = 1577836800000
local MAX_RECORD_BYTES = 64

local function read_record(root, raw)
  local span, flags, pos
  root.high, root.low, root.started, span, root.outstanding, root.spout, flags, pos =
    struct.unpack('>i4i4I5I4i4I4B', raw)
  root.started = root.started + EPOCH
  root.deadline = root.started + span
  root.state = flags % 2 == 1 and 'P' or 'E'
  root.failed, root.was_counted = bit.band(flags, 2) ~= 0, flags >= 128
  if bit.band(flags, 4) ~= 0 then root.outstanding = nil end
  root.message_timeout, root.progress_timeout, root.idle_deadline = nil, nil, nil
  root.message_id, root.message_id_is_long = nil, bit.band(flags, 64) ~= 0
  if flags >= 8 then
    if bit.band(flags, 8) ~= 0 then root.message_timeout, pos = struct.unpack('>I4', raw, pos) end
    if bit.band(flags, 16) ~= 0 then
      root.progress_timeout, root.idle_deadline, pos = struct.unpack('>I4I4', raw, pos)
      root.idle_deadline = root.started + root.idle_deadline
    end
    if bit.band(flags, 32) ~= 0 then root.message_id = raw:sub(pos) end
  end
end

-- Gives the last moment at which a root is in time: its message deadline or, if nearer, its idle deadline.
local function due_ms(root)
  return root.idle_deadline and math.min(root.idle_deadline, root.deadline) or root.deadline
end

-- Loads a root: its record, or its outcome if that is still stored, or nothing.
local function load_root(call, root, root_id, bucket)
  root.id, root.bucket, root.key = root_id, bucket, call.base .. 'r' .. bucket
  root.dirty, root.outcome, root.failure, root.was_due, root.was_counted = false, nil, nil, nil, false
  local raw = redis.call('HGET', root.key, root_id)
  root.stored = raw and true
  if raw then
    read_record(root, raw)
    root.was_due = due_ms(root)
  else
    root.outcome = redis.call('HGET', call.base .. 'f0:' .. bucket, root_id)
      or redis.call('HGET', call.base .. 'f1:' .. bucket, root_id)
    root.state = root.outcome and 'F' or 'N'
  end
  root.was_pending, root.holds_slot = root.state == 'P', root.state == 'P'
end

local function write_record(call, root)
  local flags, tail = root.state == 'P' and 1 or 128, ''
  if root.failed then flags = flags + 2 end
  if not root.outstanding then flags = flags + 4 end
  if root.message_timeout then flags, tail = flags + 8, struct.pack('>I4', root.message_timeout) end
  if root.progress_timeout then
    flags, tail = flags + 16, tail .. struct.pack('>I4I4', root.progress_timeout, root.idle_deadline - root.started)
  end
  if root.message_id_is_long then
    flags = flags + 64
  elseif root.message_id and 26 + #tail + #root.message_id > MAX_RECORD_BYTES then
    flags, root.message_id_is_long = flags + 64, true
    redis.call('HSET', call.base .. 'x' .. root.bucket, root.id, root.message_id)
    set_backstop_ttl(call, call.base .. 'x' .. root.bucket)
  elseif root.message_id then
    flags, tail = flags + 32, tail .. root.message_id
  end
  if root.failure then
    redis.call('HSET', call.base .. 'x' .. root.bucket, 'f' .. root.id, root.failure)
    set_backstop_ttl(call, call.base .. 'x' .. root.bucket)
  end
  redis.call('HSET', root.key, root.id, struct.pack('>i4i4I5I4i4I4B', root.high, root.low, root.started - EPOCH,
    root.deadline - root.started, root.outstanding or 0, root.spout, flags) .. tail)
end

local function remove_record(call, root)
  if not root.stored then return end
  redis.call('HDEL', root.key, root.id)
  if root.message_id_is_long or root.failed and not root.was_pending then
    redis.call('HDEL', call.base .. 'x' .. root.bucket, root.id, 'f' .. root.id)
  end
end

-- Saves a root that changed: its record, or its outcome in place of the record.
local function save_root(call, root)
  if not root.id or not root.dirty then return end
  local pending = (root.state == 'P' and 1 or 0) - (root.was_pending and 1 or 0)
  if pending ~= 0 then call.pending[root.spout] = (call.pending[root.spout] or 0) + pending end
  call.early_change = call.early_change + (root.state == 'E' and 1 or 0) - (root.was_counted and 1 or 0)
  if root.state == 'F' then
    remove_record(call, root)
    redis.call('HSET', call.outcome_slice .. root.bucket, root.id, root.outcome)
    expire_slice(call, call.outcome_slice .. root.bucket, call.retention)
    return
  end
  write_record(call, root)
  local due = due_ms(root)
  if not root.was_due or due < root.was_due then redis.call('ZADD', call.due_key, 'LT', due, root.bucket) end
  if not root.stored and redis.call('HLEN', root.key) == 1 then set_backstop_ttl(call, root.key) end
end

-- Drops an early root whose init did not come: it gives no completion.
local function drop_record(call, root)
  remove_record(call, root)
  count(call, 'dropped')
  if root.was_counted then call.early_change = call.early_change - 1 end
end

-- Gives the number of early roots before this call, read once.
local function early_before(call)
  call.early_before = call.early_before or tonumber(redis.call('GET', call.base .. 'early') or 0)
  return call.early_before
end

-- Writes the number of early roots. Nobody serves a store in which it expires: no root is early for longer than a third
-- of the backstop, so that the hashes with early roots expire before.
local function write_early(call)
  if call.early_change == 0 then return end
  local number = early_before(call) + call.early_change
  if number > 0 then
    redis.call('SET', call.base .. 'early', number, 'PXAT', call.now + BACKSTOP_MS * 4 / 3)
  else
    redis.call('UNLINK', call.base .. 'early')
  end
end

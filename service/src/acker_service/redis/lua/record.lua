--[[
  A record: what is kept of one early or pending root, 26 bytes and a tail, big-endian.

    ack val            2 x i4   two halves: numbers are doubles here, bit operations 32-bit
    started            I5       milliseconds since 2020-01-01
    deadline           I4       milliseconds after started
    outstanding        i4
    spout index        I4
    flags              B        1 emitted, 2 failed, 4 outstanding unknown, 8 own timeout, 16 progress timeout,
                                32 message id in the tail, 64 message id in x<b>
    message timeout    I4       if it has its own
    progress timeout   I4, idle deadline I4 (milliseconds after started), if it has one
    message id                  the rest, if the record stays within 64 bytes: one longer value would turn the whole
                                small hash of the bucket into a large one

  The table t is the record of one root while a call works on it. t.state is N (nothing known), E (early), P (pending)
  or F (finished, t.outcome A, F or T). t.failure is the packed failure (completions.lua) of a fail that this call brought;
  that of an earlier call lies in x<b>. t.placed says that the root takes one of its spout task's places.
]]

local EPOCH = 1577836800000
local MAX_SPAN = 4294967295
local SMALL = 64

local function read_record(t, raw)
  local span, flags, pos
  t.high, t.low, t.started, span, t.outstanding, t.spout, flags, pos = struct.unpack('>i4i4I5I4i4I4B', raw)
  t.started = t.started + EPOCH
  t.deadline = t.started + span
  t.state = flags % 2 == 1 and 'P' or 'E'
  t.failed = bit.band(flags, 2) ~= 0
  if bit.band(flags, 4) ~= 0 then t.outstanding = nil end
  t.timeout, t.progress, t.idle, t.id, t.long = nil, nil, nil, nil, bit.band(flags, 64) ~= 0
  if flags >= 8 then
    if bit.band(flags, 8) ~= 0 then t.timeout, pos = struct.unpack('>I4', raw, pos) end
    if bit.band(flags, 16) ~= 0 then
      t.progress, t.idle, pos = struct.unpack('>I4I4', raw, pos)
      t.idle = t.started + t.idle
    end
    if bit.band(flags, 32) ~= 0 then t.id = raw:sub(pos) end
  end
end

local function due(t)
  return t.idle and math.min(t.idle, t.deadline) or t.deadline
end

-- Takes up a root: its record, or its outcome if it is remembered, or nothing.
local function take_up(c, t, root, bucket)
  t.root, t.bucket, t.key = root, bucket, c.base .. 'r' .. bucket
  t.dirty, t.outcome, t.failure, t.was_due = false, nil, nil, nil
  local raw = redis.call('HGET', t.key, root)
  t.stored = raw and true
  if raw then
    read_record(t, raw)
    t.was_due = due(t)
  else
    t.outcome = redis.call('HGET', c.base .. 'f0:' .. bucket, root)
      or redis.call('HGET', c.base .. 'f1:' .. bucket, root)
    t.state = t.outcome and 'F' or 'N'
  end
  t.was_pending, t.placed = t.state == 'P', t.state == 'P'
end

-- Begins a tree at its first message, of any kind.
local function begin(c, t)
  t.state, t.high, t.low, t.outstanding, t.spout = 'E', 0, 0, 0, 0
  t.started, t.deadline, t.failed = c.now, c.now + c.timeout, false
  t.timeout, t.progress, t.idle, t.id, t.long = nil, nil, nil, nil, false
end

local function write_record(c, t)
  local flags, tail = t.state == 'P' and 1 or 0, ''
  if t.failed then flags = flags + 2 end
  if not t.outstanding then flags = flags + 4 end
  if t.timeout then flags, tail = flags + 8, struct.pack('>I4', t.timeout) end
  if t.progress then
    flags, tail = flags + 16, tail .. struct.pack('>I4I4', t.progress, t.idle - t.started)
  end
  if t.long then
    flags = flags + 64
  elseif t.id and 26 + #tail + #t.id > SMALL then
    flags, t.long = flags + 64, true
    redis.call('HSET', c.base .. 'x' .. t.bucket, t.root, t.id)
    backstop(c, c.base .. 'x' .. t.bucket)
  elseif t.id then
    flags, tail = flags + 32, tail .. t.id
  end
  if t.failure then
    redis.call('HSET', c.base .. 'x' .. t.bucket, 'f' .. t.root, t.failure)
    backstop(c, c.base .. 'x' .. t.bucket)
  end
  redis.call('HSET', t.key, t.root, struct.pack('>i4i4I5I4i4I4B', t.high, t.low, t.started - EPOCH,
    t.deadline - t.started, t.outstanding or 0, t.spout, flags) .. tail)
end

local function remove_record(c, t)
  if not t.stored then return end
  redis.call('HDEL', t.key, t.root)
  if t.long or t.failed and not t.was_pending then redis.call('HDEL', c.base .. 'x' .. t.bucket, t.root, 'f' .. t.root) end
end

-- Puts a root down: what became of it is written, once.
local function put_down(c, t)
  if not t.root or not t.dirty then return end
  local pending = (t.state == 'P' and 1 or 0) - (t.was_pending and 1 or 0)
  if pending ~= 0 then c.pending[t.spout] = (c.pending[t.spout] or 0) + pending end
  if t.state == 'F' then
    remove_record(c, t)
    redis.call('HSET', c.finished .. t.bucket, t.root, t.outcome)
    keep(c, c.finished .. t.bucket, c.retention)
    return
  end
  write_record(c, t)
  if not t.was_due or due(t) < t.was_due then redis.call('ZADD', c.due, 'LT', due(t), t.bucket) end
  if not t.stored and redis.call('HLEN', t.key) == 1 then backstop(c, t.key) end
end

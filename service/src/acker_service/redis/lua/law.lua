--[[
  The law: what one message does to the root t. o is the operation: high and low (the value to XOR), outstanding (nil:
  unknown), spout, timeout, progress, first and second (message id, or reason and component), edge1 and edge2.
  A word is one character: p pending, a acked, f failed, e early, d duplicate, u unknown, c conflict, m max_spout_pending,
  b mailbox_full, s store_full; A, F, T finished with that outcome.
]]

local function moved(c, t, timeout)
  return t.started + math.min(math.max(c.now + timeout - t.started, 0), MAX_SPAN)
end

local function progressed(c, t)
  if t.progress then t.idle = moved(c, t, t.progress) end
end

local function sum(a, b)
  local s = a and b and a + b
  return s and s >= -2147483648 and s <= 2147483647 and s or nil
end

local function xored(t, o)
  t.high, t.low = bit.bxor(t.high, o.high), bit.bxor(t.low, o.low)
  t.outstanding = sum(t.outstanding, o.outstanding)
end

-- Says what a changed root has come to: the one place where it is found to be done.
local function settle(c, t)
  t.dirty = true
  if t.state == 'E' then return 'e' end
  if t.failed then
    finish(c, t, 'F')
    return 'f'
  end
  if t.high ~= 0 or t.low ~= 0 then return 'p' end
  if t.outstanding and t.outstanding ~= 0 then
    count(c, 'unbalanced')
    return 'p'
  end
  finish(c, t, 'A')
  return 'a'
end

local function emitted_by(c, t, o)
  return t.spout == o.spout and read_message_id(c, t) == o.first
end

-- Whether this init would end the root at once, so that it needs no place.
local function ends(t, o)
  if t.state == 'N' then return o.high == 0 and o.low == 0 and (o.outstanding or 0) == 0 end
  if t.failed then return true end
  local zero = bit.bxor(t.high, o.high) == 0 and bit.bxor(t.low, o.low) == 0
  return zero and (sum(t.outstanding, o.outstanding) or 0) == 0
end

local function no_memory(c, o)
  if c.full then return 's' end
  return c.rooms and c.rooms[o.spout] == MAILBOX_FULL and 'b' or nil
end

-- Finds a place for an init, or gives the word that refuses it.
local function refused(c, t, o)
  local word = no_memory(c, o)
  if word or not c.rooms or ends(t, o) then return word end
  if (c.rooms[o.spout] or 0) <= 0 then return 'm' end
  c.rooms[o.spout], t.placed = c.rooms[o.spout] - 1, true
  return nil
end

local function init(c, t, o)
  if t.state == 'P' then return emitted_by(c, t, o) and 'd' or 'c' end
  local word = refused(c, t, o)
  if word then return word end
  if t.state == 'N' then begin(c, t) end
  t.state, t.spout, t.id, t.timeout, c.emitted[o.spout] = 'P', o.spout, o.first, o.timeout, true
  t.progress = o.progress or c.progress
  if t.progress == 0 then t.progress = nil end
  t.deadline = moved(c, t, t.timeout or c.timeout)
  progressed(c, t)
  xored(t, o)
  return settle(c, t)
end

-- Whether this edge of this root was acked before; if not, it is from now on. The time when the tree began is mixed in,
-- so that a root id that is used again starts clean. 53 bits: a number here holds no more exactly.
local function acked_before(c, t, o)
  local started = t.state == 'N' and c.now or t.started
  local low = bit.bxor(o.edge2, started % 4294967296) % 4294967296
  local member = string.format('%.0f', bit.band(o.edge1, 0x1FFFFF) * 4294967296 + low)
  local set = ':' .. t.bucket * 4 + math.floor(o.edge1 / 1073741824)
  if redis.call('SISMEMBER', c.base .. 'p0' .. set, member) == 1 then return true end
  if redis.call('SISMEMBER', c.base .. 'p1' .. set, member) == 1 then return true end
  local key = c.base .. 'p' .. math.floor(c.now / c.dedupe) % 2 .. set
  redis.call('SADD', key, member)
  keep(c, key, c.dedupe)
  return false
end

local function ack(c, t, o)
  if o.high == 0 and o.low == 0 then return t.state == 'P' and 'p' or 'e' end
  if c.dedupe > 0 and o.edge1 and acked_before(c, t, o) then return 'd' end
  if t.state == 'N' then begin(c, t) end
  progressed(c, t)
  xored(t, o)
  return settle(c, t)
end

local function fail(c, t, o)
  if t.state == 'N' then begin(c, t) end
  if not t.failed then t.failed, t.failure = true, pack_failure(o.first, o.second) end
  return settle(c, t)
end

local function reset_timeout(c, t)
  if t.state ~= 'P' then return 'u' end
  t.deadline, t.dirty = moved(c, t, t.timeout or c.timeout), true
  progressed(c, t)
  return 'p'
end

-- Without ackers an init is acked at once and every other message finds its root finished.
local function untracked(c, t, o, op)
  if op ~= 1 then return 'A' end
  local word = no_memory(c, o)
  if word then return word end
  begin(c, t)
  t.spout, t.id, c.emitted[o.spout] = o.spout, o.first, true
  finish(c, t, 'A')
  return 'a'
end

local LAW = { init, ack, fail, reset_timeout }

local function obey(c, t, o, op)
  if t.state == 'F' then return t.outcome end
  if c.tracked == 0 then return untracked(c, t, o, op) end
  return LAW[op](c, t, o)
end

-- The answer to a message of a request that was applied before (acker_protocol/idempotency.py).
local function repeated(c, t, o, op)
  if t.state == 'F' then return t.outcome end
  if op == 1 then
    if t.state == 'P' then return emitted_by(c, t, o) and 'p' or 'c' end
    return c.places_refused and 'm' or 'd'
  end
  if t.state == 'N' then return 'd' end
  if t.state == 'E' then return op == 4 and 'u' or 'e' end
  return op == 3 and 'd' or 'p'
end

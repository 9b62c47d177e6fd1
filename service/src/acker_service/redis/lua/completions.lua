--[[
  A completion as it lies in a mailbox, big-endian: root id c8, started I5 and ended I5 (milliseconds since 2020-01-01),
  flags B (the outcome 0 acked, 1 failed, 2 timed out; 4 message id, 8 reason, 16 component), then each text that is
  there, in that order, as I2 and so many bytes.
]]

local OUTCOME = { A = 0, F = 1, T = 2 }
local COUNTED = { A = 'acked', F = 'failed', T = 'timed_out' }
local SUM = { A = 'acked_ms', F = 'failed_ms', T = 'timed_out_ms' }
local MOST_EXPONENT = 23

local function exponent_of(latency)
  if latency <= 1 then return 0 end
  local _, exponent = math.frexp(latency - 1)
  return exponent < MOST_EXPONENT and exponent or MOST_EXPONENT
end

-- Counts a completion by its outcome and complete latency. By numbers: names are made when the call closes.
local function count_completion(c, outcome, latency)
  local counted, exponent = c.latencies[outcome] or {}, exponent_of(latency)
  c.latencies[outcome] = counted
  counted[exponent] = (counted[exponent] or 0) + 1
  if latency > 0 then count(c, SUM[outcome], latency) end
end

-- An outcome's total is the sum of its latencies' counts: a root that ends alone costs one field more, not two.
local function keep_latencies(c)
  for outcome, counted in pairs(c.latencies) do
    for exponent, change in pairs(counted) do
      redis.call('HINCRBY', c.base .. 'counts', COUNTED[outcome] .. ':' .. exponent, change)
    end
  end
end

local function add_text(flags, packed, flag, value)
  if not value then return flags, packed end
  return flags + flag, packed .. struct.pack('>I2', #value) .. value
end

-- Packs a failure as it is kept of an early root and as a completion carries it: flags, then the texts.
local function pack_failure(reason, component)
  local flags, packed = add_text(0, '', 8, reason)
  flags, packed = add_text(flags, packed, 16, component)
  return string.char(flags) .. packed
end

local function read_failure(c, t)
  return t.failure or redis.call('HGET', c.base .. 'x' .. t.bucket, 'f' .. t.root)
end

local function read_message_id(c, t)
  return t.id or t.long and redis.call('HGET', c.base .. 'x' .. t.bucket, t.root) or nil
end

-- Ends a root: its completion goes into the box of its spout task, to be posted when the call closes.
local function finish(c, t, outcome)
  local flags, packed = add_text(OUTCOME[outcome], '', 4, read_message_id(c, t))
  if outcome == 'F' then
    local failure = read_failure(c, t) or string.char(0)
    flags, packed = flags + failure:byte(), packed .. failure:sub(2)
  end
  local box = c.boxes[t.spout] or {}
  c.boxes[t.spout] = box
  box[#box + 1] = struct.pack('>c8I5I5B', t.root, t.started - EPOCH, c.now - EPOCH, flags) .. packed
  local room = t.placed and c.rooms and c.rooms[t.spout]
  if room and room ~= MAILBOX_FULL then c.rooms[t.spout] = room + 1 end
  t.state, t.outcome, t.dirty = 'F', outcome, true
  count_completion(c, outcome, c.now - t.started)
end

-- Whether a spout task was removed while roots of it were pending: nobody is told of them.
local function is_gone(c, spout)
  return redis.call('SISMEMBER', c.base .. 'gone', spout) == 1
end

local function post(c, spout, box)
  local entry = redis.call('XADD', c.base .. 'm' .. spout, '*', 'n', #box, 'c', table.concat(box))
  redis.call('HINCRBY', c.base .. 'unread', spout, #box)
  redis.call('HSET', c.base .. 'tips', spout, entry)
  redis.call('SPUBLISH', c.hints, c.incarnation .. ' ' .. spout)
end

-- Closes a call: posts the boxes, tells who waits, keeps the counts. One entry per spout task holds all that the call
-- ended, so a batch costs one append.
local function close(c)
  for spout, box in pairs(c.boxes) do
    if not is_gone(c, spout) then post(c, spout, box) end
  end
  for spout, change in pairs(c.pending) do
    if change ~= 0 and not is_gone(c, spout) then redis.call('HINCRBY', c.base .. 'pending', spout, change) end
  end
  for spout in pairs(c.emitted) do redis.call('HSET', c.base .. 'used', spout, c.now) end
  keep_latencies(c)
  for name, change in pairs(c.counts) do redis.call('HINCRBY', c.base .. 'counts', name, change) end
end

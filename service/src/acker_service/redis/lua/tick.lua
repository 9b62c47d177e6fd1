--[[
  The tick: time passes. Buckets whose score is past are looked through; overdue roots are timed out, early ones without
  an init dropped, and the bucket scored anew. Any number of replicas may tick: each step is atomic.
]]

local OVERFULL = 1000
local MOST_BUCKETS = 256
local LEASE_MS = 5000

-- Ends a root that is overdue. Gives the deadline of one that is not.
local function expire(c, t, bucket, root, raw)
  t.root, t.bucket, t.key, t.stored, t.failure = root, bucket, c.base .. 'r' .. bucket, true, nil
  read_record(t, raw)
  if c.now <= due(t) then return due(t) end
  t.was_pending, t.placed = t.state == 'P', false
  if t.state == 'P' then
    finish(c, t, 'T')
    put_down(c, t)
  else
    remove_record(c, t)
    count(c, 'dropped')
  end
  c.ended = c.ended + 1
  return nil
end

local function look_through(c, bucket, fields)
  local earliest
  for i = 1, #fields, 2 do
    local left = expire(c, c.t, bucket, fields[i], fields[i + 1])
    if left and (not earliest or left < earliest) then earliest = left end
  end
  return earliest
end

local function visit(c, bucket)
  local key = c.base .. 'r' .. bucket
  local earliest = look_through(c, bucket, redis.call('HGETALL', key))
  if not earliest then return redis.call('ZREM', c.due, bucket) end
  redis.call('ZADD', c.due, earliest, bucket)
  backstop(c, key)
  backstop(c, c.base .. 'x' .. bucket)
end

--[[
  Input   KEYS[1] stamp; ARGV[1] pair  [2] settings  [3] how many records to read at most, about
  Output  {'ok', roots ended, 1 if more is due, overfull buckets that are due and have to be walked ...}
]]
local function tick(keys, args)
  local no = refusal(keys[1], args[1])
  if no then return no end
  local c = open(keys[1], args[1], args[2])
  local reply, budget = { 'ok', 0, 0 }, tonumber(args[3])
  c.ended = 0
  local due_now = redis.call('ZRANGE', c.due, '-inf', '(' .. c.now, 'BYSCORE', 'LIMIT', 0, MOST_BUCKETS)
  for _, bucket in ipairs(due_now) do
    local size = redis.call('HLEN', c.base .. 'r' .. bucket)
    if size > OVERFULL then
      reply[#reply + 1] = bucket
    elseif budget > 0 then
      visit(c, bucket)
      budget = budget - size - 1
    end
  end
  close(c)
  local walked = #reply - 3
  reply[2], reply[3] = c.ended, (budget <= 0 or #due_now == MOST_BUCKETS and walked < MOST_BUCKETS) and 1 or 0
  return reply
end

--[[
  Walks an overfull bucket, a piece a call. The first call scores the bucket a lease ahead, so that it comes due again if
  the walker dies; roots that arrive meanwhile score it lower themselves. The last call scores it by what the walk found.

  Input   KEYS[1] stamp; ARGV[1] pair  [2] settings  [3] bucket  [4] cursor, 0 to begin  [5] earliest deadline found, or ''
  Output  {'ok', roots ended, cursor ('0' at the end), earliest deadline found or ''}
]]
local function walk(keys, args)
  local no = refusal(keys[1], args[1])
  if no then return no end
  local c = open(keys[1], args[1], args[2])
  local bucket, earliest = args[3], tonumber(args[5])
  c.ended = 0
  if args[4] == '0' then redis.call('ZADD', c.due, c.now + LEASE_MS, bucket) end
  local scan = redis.call('HSCAN', c.base .. 'r' .. bucket, args[4], 'COUNT', OVERFULL)
  local found = look_through(c, bucket, scan[2])
  if found and (not earliest or found < earliest) then earliest = found end
  if scan[1] == '0' and earliest then redis.call('ZADD', c.due, 'LT', earliest, bucket) end
  if scan[1] == '0' then
    backstop(c, c.base .. 'r' .. bucket)
    backstop(c, c.base .. 'x' .. bucket)
  end
  close(c)
  return { 'ok', c.ended, scan[1], earliest and string.format('%.0f', earliest) or '' }
end

provide('acker_tick_v1', tick)
provide('acker_walk_v1', walk)

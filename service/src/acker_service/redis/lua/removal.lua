--[[
  Removing topologies and spout tasks. What is to go is marked in the configuration first and its version raised; once every
  shard is stamped with that version no init comes any more, so what is counted then stays true. Only after that is
  anything removed. A topology that has gone leaves a tombstone on its shards: the stamp, with an x behind the pair.
]]

local TOMBSTONE_MS = 86400000

local function raised(pair)
  return pair:sub(1, 16) .. string.format('%010d', tonumber(pair:sub(17, 26)) + 1)
end

--[[
  Marks a topology, or takes the mark away.

  Input   KEYS[1] topology; ARGV[1] pair that was read  [2] probe, force or gone, or '' for no mark
  Output  {'ok', new pair, mark} or {'raced'}
]]
local function mark_topology(keys, args)
  if redis.call('HGET', keys[1], 'pair') ~= args[1] then return { 'raced' } end
  local pair, mark = raised(args[1]), args[2] ~= '' and args[2] .. ' ' .. string.format('%.0f', clock()) or ''
  redis.call('HSET', keys[1], 'pair', pair, 'mark', mark)
  return { 'ok', pair, mark }
end

-- Input: KEYS[1] topology, KEYS[2] its spouts, KEYS[3] acker:{topologies}; ARGV[1] pair that was read  [2] name.
-- Forgets a topology's configuration. Output: {'ok'}, also if it is another's or nobody's by now
local function remove_topology(keys, args)
  if redis.call('HGET', keys[1], 'pair') == args[1] then
    redis.call('DEL', keys[1], keys[2])
    redis.call('SREM', keys[3], args[2])
  end
  return { 'ok' }
end

-- Input: KEYS[1] stamp; ARGV[1] pair. Puts a tombstone on a shard. Output: {'ok'}, or {'stale', pair} if it is above
local function bury(keys, args)
  local stamp = redis.call('GET', keys[1])
  if stamp and stamp:sub(1, 26) > args[1] then return { 'stale', stamp } end
  redis.call('SET', keys[1], args[1] .. 'x', 'PX', TOMBSTONE_MS)
  return { 'ok' }
end

--[[
  Removes what a buried shard kept, a range of buckets and of spout indexes at a time.

  Input   KEYS[1] stamp; ARGV[1] pair  [2] first  [3] last
  Output  {'ok'}
]]
local function sweep(keys, args)
  local base = keys[1] .. ':' .. args[1]:sub(1, 16) .. ':'
  for n = tonumber(args[2]), tonumber(args[3]) do
    local names = { 'r' .. n, 'x' .. n, 'f0:' .. n, 'f1:' .. n, 's0:' .. n, 's1:' .. n, 'm' .. n,
      'retry' .. n, 'tries' .. n, 'd' .. n }
    for set = n * 4, n * 4 + 3 do
      names[#names + 1] = 'p0:' .. set
      names[#names + 1] = 'p1:' .. set
    end
    for i, name in ipairs(names) do names[i] = base .. name end
    redis.call('UNLINK', unpack(names))
  end
  redis.call('UNLINK', base .. 'due', base .. 'pending', base .. 'unread', base .. 'heads', base .. 'tips',
    base .. 'counts', base .. 'gone', base .. 'used', base .. 'begun', base .. 'sent', base .. 'leases',
    base .. 'failing', base .. 'dead')
  return { 'ok' }
end

local function fail_bucket(c, bucket)
  local t, key = c.t, c.base .. 'r' .. bucket
  local fields = redis.call('HSCAN', key, 0, 'COUNT', OVERFULL)[2]
  for i = 1, #fields, 2 do
    t.root, t.bucket, t.key, t.stored, t.dirty = fields[i], bucket, key, true, false
    read_record(t, fields[i + 1])
    t.was_pending, t.placed, t.failure = t.state == 'P', false, pack_failure('topology deleted')
    if t.state == 'P' then
      finish(c, t, 'F')
      put_down(c, t)
    else
      remove_record(c, t)
      count(c, 'dropped')
    end
  end
  if redis.call('EXISTS', key) == 0 then redis.call('ZREM', c.due, bucket) end
  return #fields / 2
end

--[[
  Fails all that is pending in a shard, a piece a call; drops what is early.

  Input   KEYS[1] stamp; ARGV[1] pair  [2] settings  [3] roots at most, about
  Output  {'ok', 1 if there is more}
]]
local function fail_all(keys, args)
  local no = refusal(keys[1], args[1])
  if no then return no end
  local c = open(keys[1], args[1], args[2])
  local budget, buckets = tonumber(args[3]), redis.call('ZRANGE', c.due, 0, 255)
  for _, bucket in ipairs(buckets) do
    if budget > 0 then budget = budget - 1 - fail_bucket(c, bucket) end
  end
  close(c)
  return { 'ok', redis.call('EXISTS', c.due) }
end

--[[
  Writes the document of a spout task, or removes it, and raises the topology's version, so that every replica reads it anew.

  Input   KEYS[1] topology, KEYS[2] its spouts; ARGV[1] pair  [2] spout task  [3] value that was read  [4] value, or ''
  Output  {'ok', new pair}, {'raced'} or {'stale', pair}
]]
local function mark_spout(keys, args)
  local pair = redis.call('HGET', keys[1], 'pair')
  if not pair or pair:sub(1, 16) ~= args[1]:sub(1, 16) then return { 'stale', pair or '' } end
  if redis.call('HGET', keys[2], args[2]) ~= args[3] then return { 'raced' } end
  if args[4] == '' then
    redis.call('HDEL', keys[2], args[2])
  else
    redis.call('HSET', keys[2], args[2], args[4])
  end
  pair = raised(pair)
  redis.call('HSET', keys[1], 'pair', pair)
  return { 'ok', pair }
end

-- Input: KEYS[1] stamp; ARGV[1] pair  [2] spout index. Forgets a spout task's mailbox; what ends under its index from now
-- on is told to nobody. Output: {'ok', completions discarded, dead letters too}
local function remove_spout(keys, args)
  local no = refusal(keys[1], args[1])
  if no then return no end
  local base, spout = keys[1] .. ':' .. args[1]:sub(1, 16) .. ':', args[2]
  local unread = tonumber(redis.call('HGET', base .. 'unread', spout) or 0)
  local dead = tonumber(redis.call('HGET', base .. 'dead', spout) or 0)
  redis.call('SADD', base .. 'gone', spout)
  redis.call('UNLINK', base .. 'm' .. spout, base .. 'retry' .. spout, base .. 'tries' .. spout, base .. 'd' .. spout)
  for _, name in ipairs({ 'unread', 'pending', 'heads', 'tips', 'used', 'begun', 'sent', 'leases', 'failing', 'dead' }) do
    redis.call('HDEL', base .. name, spout)
  end
  if unread + dead > 0 then redis.call('HINCRBY', base .. 'counts', 'discarded', unread + dead) end
  return { 'ok', unread + dead }
end

-- Input: KEYS[1] stamp; ARGV[1] pair. Output: {'ok', now, {spout index, when it was last used ...}}
local function read_used(keys, args)
  local no = refusal(keys[1], args[1])
  if no then return no end
  return { 'ok', clock(), redis.call('HGETALL', keys[1] .. ':' .. args[1]:sub(1, 16) .. ':used') }
end

provide('acker_mark_topology_v1', mark_topology)
provide('acker_remove_topology_v1', remove_topology)
provide('acker_bury_v1', bury)
provide('acker_sweep_v1', sweep)
provide('acker_fail_all_v1', fail_all)
provide('acker_mark_spout_v1', mark_spout)
provide('acker_remove_spout_v1', remove_spout)
provide('acker_read_used_v1', read_used)

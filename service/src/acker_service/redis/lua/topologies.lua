--[[
  Topologies, spout tasks, and the counts of a shard. The configuration is written first, shards are stamped after.
]]

local TICKED_MS = 10000

local function hex(c, digits)
  local text = ''
  for _ = 1, digits do
    text, c = string.sub('0123456789abcdef', c % 16 + 1, c % 16 + 1) .. text, math.floor(c / 16)
  end
  return text
end

-- Gives an incarnation that is above another: itself, or if the clock was set back the other's successor.
local function above(incarnation, floor)
  if incarnation > floor then return incarnation end
  local low = tonumber(floor:sub(9), 16) + 1
  return hex(tonumber(floor:sub(1, 8), 16) + math.floor(low / 4294967296), 8) .. hex(low % 4294967296, 8)
end

--[[
  Writes a topology's configuration if nobody has since the caller read it. Without a pair it is made, with a new
  incarnation: the time of making and four random digits, so that a later one is above an earlier one.

  Input   KEYS[1] topology, KEYS[2] acker:{topologies}; ARGV[1] pair that was read ('' for none)  [2] configuration  [3] four
          random hex digits  [4] name  [5] a pair to be above, or ''
  Output  {'ok', pair} or {'raced'}
]]
local function write_topology(keys, args)
  local pair = redis.call('HGET', keys[1], 'pair')
  if (pair or '') ~= args[1] then return { 'raced' } end
  if pair then
    pair = pair:sub(1, 16) .. string.format('%010d', tonumber(pair:sub(17)) + 1)
  else
    pair = above(hex(clock(), 12) .. args[3], args[5]:sub(1, 16)) .. string.format('%010d', 1)
  end
  if pair < args[5] then pair = args[5]:sub(1, 16) .. string.format('%010d', tonumber(args[5]:sub(17, 26)) + 1) end
  redis.call('HSET', keys[1], 'pair', pair, 'config', args[2])
  redis.call('SADD', keys[2], args[4])
  return { 'ok', pair }
end

--[[
  Writes a spout task if nobody has since the caller read it; a new one gets the next index, which is never used again.

  Input   KEYS[1] topology, KEYS[2] its spouts; ARGV[1] pair  [2] spout task  [3] value that was read ('' for none)
          [4] document
  Output  {'ok', value}, {'raced'} or {'stale'}
]]
local function write_spout(keys, args)
  local pair = redis.call('HGET', keys[1], 'pair')
  if not pair or pair:sub(1, 16) ~= args[1]:sub(1, 16) then return { 'stale', pair or '' } end
  local value = redis.call('HGET', keys[2], args[2])
  if (value or '') ~= args[3] then return { 'raced' } end
  local head = value and value:match('^%d+ %d+')
    or redis.call('HINCRBY', keys[1], 'next', 1) - 1 .. ' ' .. string.format('%.0f', clock())
  value = head .. ' ' .. args[4]
  redis.call('HSET', keys[2], args[2], value)
  return { 'ok', value }
end

-- Input: KEYS[1] stamp; ARGV[1] pair. Output: {'ok', pending, unread and dead letters, each by spout index, counts}
local function read_counts(keys, args)
  local no = refusal(keys[1], args[1])
  if no then return no end
  local base = keys[1] .. ':' .. args[1]:sub(1, 16) .. ':'
  return { 'ok', redis.call('HGETALL', base .. 'pending'), redis.call('HGETALL', base .. 'unread'),
    redis.call('HGETALL', base .. 'dead'), redis.call('HGETALL', base .. 'counts') }
end

-- Input: KEYS[1] acker:{topologies}. Notes that somebody lets time pass. Output: {'ok'}
local function note_tick(keys)
  redis.call('SET', keys[1] .. '::ticked', clock(), 'PX', TICKED_MS)
  return { 'ok' }
end

redis.register_function('acker_write_topology_v1', write_topology)
redis.register_function('acker_write_spout_v1', write_spout)
provide('acker_read_counts_v1', read_counts)
provide('acker_note_tick_v1', note_tick)

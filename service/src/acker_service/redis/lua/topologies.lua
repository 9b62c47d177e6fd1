--[[
  Topologies, spout tasks, and the counts of a shard. A change writes the configuration first and stamps the shards
  after.
]]

do
  local TICKED_MS = 10000
  local MAX_FIELDS = 1000

  local function hex(value, digits)
    local text = ''
    for _ = 1, digits do
      text, value = string.sub('0123456789abcdef', value % 16 + 1, value % 16 + 1) .. text, math.floor(value / 16)
    end
    return text
  end

  -- Gives an incarnation above another: itself or, if the clock was set back, the other's successor.
  local function not_below(incarnation, floor)
    if incarnation > floor then return incarnation end
    local low = tonumber(floor:sub(9), 16) + 1
    return hex(tonumber(floor:sub(1, 8), 16) + math.floor(low / 4294967296), 8) .. hex(low % 4294967296, 8)
  end

  --[[
    Writes a topology's configuration, unless another writer changed it since the caller read it. Without a stamp it is
    created, with a new incarnation: the time and four random digits, so that a later one is above an earlier one.

    Input   KEYS[1] topology, KEYS[2] acker:{topologies}; ARGV[1] stamp that was read ('' for none)  [2] configuration
            [3] four random hex digits  [4] name  [5] a stamp that the new one has to exceed, or ''
    Output  {'ok', stamp} or {'raced'}
  ]]
  local function write_topology(keys, args)
    local stamp = redis.call('HGET', keys[1], 'pair')
    if (stamp or '') ~= args[1] then return { 'raced' } end
    if stamp then
      stamp = stamp:sub(1, 16) .. string.format('%010d', tonumber(stamp:sub(17)) + 1)
    else
      stamp = not_below(hex(clock(), 12) .. args[3], args[5]:sub(1, 16)) .. string.format('%010d', 1)
    end
    if stamp < args[5] then stamp = args[5]:sub(1, 16) .. string.format('%010d', tonumber(args[5]:sub(17, 26)) + 1) end
    redis.call('HSET', keys[1], 'pair', stamp, 'config', args[2])
    redis.call('SADD', keys[2], args[4])
    return { 'ok', stamp }
  end

  --[[
    Writes a spout task, unless another writer changed it since the caller read it. A new one gets the next index, which
    is never used again.

    Input   KEYS[1] topology, KEYS[2] its spouts; ARGV[1] stamp  [2] spout task  [3] value that was read ('' for none)
            [4] document
    Output  {'ok', value}, {'raced'} or {'stale', stamp}
  ]]
  local function write_spout(keys, args)
    local stamp = redis.call('HGET', keys[1], 'pair')
    if not stamp or stamp:sub(1, 16) ~= args[1]:sub(1, 16) then return { 'stale', stamp or '' } end
    local value = redis.call('HGET', keys[2], args[2])
    if (value or '') ~= args[3] then return { 'raced' } end
    local head = value and value:match('^%d+ %d+')
      or redis.call('HINCRBY', keys[1], 'next', 1) - 1 .. ' ' .. string.format('%.0f', clock())
    value = head .. ' ' .. args[4]
    redis.call('HSET', keys[2], args[2], value)
    return { 'ok', value }
  end

  -- Input: KEYS[1] shard; ARGV[1] stamp. Output: {'ok', pending, unread and dead letters, each by spout index, counts}
  local function read_counts(_, base)
    return { 'ok', redis.call('HGETALL', base .. 'pending'), redis.call('HGETALL', base .. 'unread'),
      redis.call('HGETALL', base .. 'dead'), redis.call('HGETALL', base .. 'counts') }
  end

  -- Input: KEYS[1] shard; ARGV[1] stamp, then spout indexes. Output: {'ok', pending roots of each ...}
  local function read_pending(_, base, args)
    local reply = { 'ok' }
    for i = 2, #args, MAX_FIELDS do
      local counts = redis.call('HMGET', base .. 'pending', unpack(args, i, math.min(i + MAX_FIELDS - 1, #args)))
      for _, count in ipairs(counts) do reply[#reply + 1] = tonumber(count or 0) end
    end
    return reply
  end

  -- Input: KEYS[1] acker:{topologies}. Notes that a worker ticks. Output: {'ok'}
  local function note_tick(keys)
    redis.call('SET', keys[1] .. '::ticked', clock(), 'PX', TICKED_MS)
    return { 'ok' }
  end

  -- Without allow-oom: these two make new topologies and spout tasks.
  redis.register_function('acker_write_topology_v1', write_topology)
  redis.register_function('acker_write_spout_v1', write_spout)
  register_on_shard('acker_read_counts_v1', read_counts)
  register_on_shard('acker_pending_v1', read_pending)
  register('acker_note_tick_v1', note_tick)
end

--[[
  Topologies, spout tasks, and the counts of a shard. A change writes the configuration first and stamps the shards
  after.
]]

do
  local TICKED_MS = 10000
  local SLICE = 1000

  local function hex(value, digits)
    local text = ''
    for _ = 1, digits do
      text, value = string.sub('0123456789abcdef', value % 16 + 1, value % 16 + 1) .. text, math.floor(value / 16)
    end
    return text
  end

  -- Returns an incarnation above another: itself or, if the clock was set back, the other's successor.
  local function not_below(incarnation, floor)
    if incarnation > floor then return incarnation end
    local low = tonumber(floor:sub(9), 16) + 1
    -- rule: an incarnation carries over to its upper half
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
    -- rule: a configuration is written only over the one that was read
    if (stamp or '') ~= args[1] then return { 'raced' } end
    if stamp then
      -- rule: a change raises the version and keeps the incarnation
      stamp = stamp:sub(1, 16) .. string.format('%010d', tonumber(stamp:sub(17)) + 1)
    else
      -- rule: an incarnation is above a tombstone's
      stamp = not_below(hex(clock(), 12) .. args[3], args[5]:sub(1, 16)) .. string.format('%010d', 1)
    end
    -- rule: a pair is above what a shard is ahead with
    if stamp < args[5] then stamp = args[5]:sub(1, 16) .. string.format('%010d', tonumber(args[5]:sub(17, 26)) + 1) end
    redis.call('HSET', keys[1], 'pair', stamp, 'config', args[2])
    -- rule: a topology is listed
    redis.call('SADD', keys[2], args[4])
    redis.call('SET', keys[2] .. '::layout', LAYOUT)
    return { 'ok', stamp }
  end

  -- Returns nil if a topology has the incarnation of a stamp, else the reply that refuses the call.
  local function check_incarnation(topology, stamp)
    local own = redis.call('HGET', topology, 'pair')
    -- rule: a spout task is made only in its incarnation
    if not own or own:sub(1, 16) ~= stamp:sub(1, 16) then return { 'stale', own or '' } end
  end

  --[[
    Writes a spout task, unless another writer changed it since the caller read it.

    Input   KEYS[1] topology, KEYS[2] its spouts; ARGV[1] stamp  [2] spout task  [3] value that was read  [4] document
    Output  {'ok', value}, {'raced'} or {'stale', stamp}
  ]]
  local function write_spout(keys, args)
    local stale = check_incarnation(keys[1], args[1])
    if stale then return stale end
    -- rule: a spout task is written only over the one that was read
    if redis.call('HGET', keys[2], args[2]) ~= args[3] then return { 'raced' } end
    -- rule: a spout task keeps its index
    local value = args[3]:match('^%d+ %d+ ') .. args[4]
    redis.call('HSET', keys[2], args[2], value)
    return { 'ok', value }
  end

  -- Returns the values of a hash by field, false for one that it lacks: ARGV from `first` on are the fields.
  local function read_values(key, args, first)
    local values = {}
    -- rule: all spout tasks of a call are looked up
    for from = first, #args, SLICE do
      local slice = redis.call('HMGET', key, unpack(args, from, math.min(from + SLICE - 1, #args)))
      for i = 1, math.min(SLICE, #args - from + 1) do values[#values + 1] = slice[i] end
    end
    return values
  end

  -- Returns the first of so many new spout indexes; an index is never used again.
  local function take_indexes(topology, count)
    -- rule: an index is never used again
    return redis.call('HINCRBY', topology, 'next', count) - count
  end

  -- Writes a new spout task as it is stored.
  local function new_value(index, now, document)
    return string.format('%.0f %.0f ', index, now) .. document
  end

  --[[
    Creates the spout tasks that are new, all of them or none, and leaves the others as they are.

    Input   KEYS[1] topology, KEYS[2] its spouts; ARGV[1] stamp  [2] most spout tasks that the topology may have
            [3] document of a new one, then names, each once
    Output  {'ok', number of new ones, {value of each name}}, {'full', spout tasks that the topology has, new ones that
            were wanted} or {'stale', stamp}
  ]]
  local function register_spouts(keys, args)
    local stale = check_incarnation(keys[1], args[1])
    if stale then return stale end
    local values, new = read_values(keys[2], args, 4), {}
    for i, value in ipairs(values) do
      -- rule: a spout task that exists stays as it is
      if not value then new[#new + 1] = i end
    end
    if #new > 0 then
      local count = redis.call('HLEN', keys[2])
      -- rule: a topology has a bounded number of spout tasks
      if count + #new > tonumber(args[2]) then return { 'full', count, #new } end
      local index, now, fields = take_indexes(keys[1], #new), clock(), {}
      for n, i in ipairs(new) do
        -- rule: each new spout task has its own index
        values[i] = new_value(index + n - 1, now, args[3])
        fields[2 * n - 1], fields[2 * n] = args[i + 3], values[i]
      end
      -- rule: all new spout tasks of a call are written
      for from = 1, #fields, SLICE do
        redis.call('HSET', keys[2], unpack(fields, from, math.min(from + SLICE - 1, #fields)))
      end
    end
    return { 'ok', #new, values }
  end

  -- Input: KEYS[1] shard; ARGV[1] stamp. Output: {'ok', pending, unread and dead letters, each by spout index, counts
  -- and the number of early roots and what they take, and what is remembered, by name, the fields of the hash `failed`
  -- (failures.lua)}
  local function read_counts(_, base)
    local counts = redis.call('HGETALL', base .. 'counts')
    local n, early, early_bytes = #counts, read_early(base)
    counts[n + 1], counts[n + 2], counts[n + 3], counts[n + 4] = 'early', early, 'early_bytes', early_bytes
    counts[n + 5], counts[n + 6] = 'remembered_bytes', read_remembered(base)
    -- rule: pending and unread completions are counted in one call
    return { 'ok', redis.call('HGETALL', base .. 'pending'), redis.call('HGETALL', base .. 'unread'),
      redis.call('HGETALL', base .. 'dead'), counts, redis.call('HGETALL', base .. 'failed') }
  end

  -- Input: KEYS[1] shard; ARGV[1] stamp, then spout indexes. Output: {'ok', pending roots of each ...}
  local function read_pending(_, base, args)
    local reply = { 'ok' }
    -- rule: a spout task without pending roots counts 0
    for _, count in ipairs(read_values(base .. 'pending', args, 2)) do reply[#reply + 1] = tonumber(count or 0) end
    return reply
  end

  -- Input: KEYS[1] shard; ARGV[1] stamp. Reads what fills mailboxes, and no more: it is asked for once a second.
  -- Output: {'ok', unread completions and dead letters, each by spout index}
  local function read_stored(_, base)
    return { 'ok', redis.call('HGETALL', base .. 'unread'), redis.call('HGETALL', base .. 'dead') }
  end

  -- Returns what a hash of each shard holds, by shard; nothing is read if no shard has such a hash.
  local function read_hashes(bases, name)
    local names, found = {}, {}
    for i, base in ipairs(bases) do names[i], found[i] = base .. name, {} end
    if redis.call('EXISTS', unpack(names)) == 0 then return found end
    for i, key in ipairs(names) do found[i] = redis.call('HGETALL', key) end
    return found
  end

  -- As read_stored for many shards, all on one server. Input: KEYS shards; ARGV their stamps.
  -- Output: {'ok', per shard {unread completions, dead letters}, each by spout index, or false where a stamp is stale}
  local function read_all_stored(keys, args)
    local stamps, bases, reply = redis.call('MGET', unpack(keys)), {}, { 'ok' }
    for i, key in ipairs(keys) do bases[i] = base_of(key, args[i]) end
    local unread, dead = read_hashes(bases, 'unread'), read_hashes(bases, 'dead')
    for i in ipairs(keys) do reply[i + 1] = stamps[i] == args[i] and { unread[i], dead[i] } end
    return reply
  end

  local function sum(hash)
    local total = 0
    -- rule: pending roots of all spout tasks count
    for i = 2, #hash, 2 do total = total + tonumber(hash[i]) end
    return total
  end

  -- Reads the totals of many shards, all on one server. Input: KEYS shards; ARGV their stamps.
  -- Output: {'ok', per shard {pending roots, unread completions, counts by name}, or false where a stamp is stale}
  local function read_all_totals(keys, args)
    local stamps, bases, reply = redis.call('MGET', unpack(keys)), {}, { 'ok' }
    for i, key in ipairs(keys) do bases[i] = base_of(key, args[i]) end
    local pending, unread, counts = read_hashes(bases, 'pending'), read_hashes(bases, 'unread'), read_hashes(bases, 'counts')
    -- rule: totals of a stale stamp are none
    for i in ipairs(keys) do reply[i + 1] = stamps[i] == args[i] and { sum(pending[i]), sum(unread[i]), counts[i] } end
    return reply
  end

  -- Input: KEYS deadline indexes of shards; in a cluster one. Finds those in which a bucket is due: a shard without any
  -- is not ticked. Output: {'ok', the number of each such key, from 1 ...}
  local function find_due(keys)
    local due = { 'ok' }
    if redis.call('EXISTS', unpack(keys)) == 0 then return due end
    local now = clock()
    for number, key in ipairs(keys) do
      local earliest = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
      -- rule: a shard is ticked if a bucket is due, and only then
      if earliest and tonumber(earliest) < now then due[#due + 1] = number end
    end
    return due
  end

  -- Input: KEYS[1] acker:{topologies}. Notes that a worker ticks. Output: {'ok'}
  local function note_worker_alive(keys)
    redis.call('SET', keys[1] .. '::ticked', clock(), 'PX', TICKED_MS)
    return { 'ok' }
  end

  -- Without allow-oom: these make topologies and spout tasks, or write them anew.
  redis.register_function('acker_write_topology_v1', write_topology)
  redis.register_function('acker_write_spout_v1', write_spout)
  redis.register_function('acker_register_spouts_v1', register_spouts)
  register_on_shard('acker_read_counts_v2', read_counts)
  register_on_shard('acker_pending_v1', read_pending)
  register_on_shard('acker_stored_v1', read_stored)
  register('acker_all_stored_v1', read_all_stored)
  register('acker_all_totals_v1', read_all_totals, { 'allow-oom', 'no-writes' })
  register('acker_due_v1', find_due)
  register('acker_note_worker_alive_v1', note_worker_alive)
end

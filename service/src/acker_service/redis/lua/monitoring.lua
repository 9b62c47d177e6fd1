--[[
  What operators look up: their own acts that force or discard something, and the processes that run.
]]

do
  local MAX_ACTS = 1000
  local EXCESS_ACTS = 125
  local ACTS_MS = 30 * 86400000
  local PROCESS_MS = 10000

  -- Returns the number of an act at a time: numbers rise, and hold the time in milliseconds times 1000.
  local function number_at(key, now)
    local newest = redis.call('ZRANGE', key, -1, -1)[1]
    local after = newest and tonumber(newest:match('^%d+')) + 1 or 0
    return math.max(now * 1000, after)
  end

  -- Returns how many acts each keeps, so that all together keep so many: what some do not need, the others share.
  local function share_of_acts(counts, most)
    local sizes, left = {}, most
    for _, count in pairs(counts) do sizes[#sizes + 1] = count end
    table.sort(sizes)
    for i, size in ipairs(sizes) do
      local share = math.floor(left / (#sizes - i + 1))
      if size > share then return share end
      left = left - size
    end
    return most
  end

  -- Counts acts by topology, and by key within each. Returns also the topology and the key of each act.
  local function count_acts(acts)
    local topologies, keys, counts, counts_by_key = {}, {}, {}, {}
    for i, act in ipairs(acts) do
      -- no text of a caller stands before the topology, and none can hold the quotes of the key's name
      local topology, key = act:match('"topology": "([^"]*)"') or '', act:match('"key": "([^"]*)"') or ''
      topologies[i], keys[i], counts[topology] = topology, key, (counts[topology] or 0) + 1
      counts_by_key[topology] = counts_by_key[topology] or {}
      counts_by_key[topology][key] = (counts_by_key[topology][key] or 0) + 1
    end
    return topologies, keys, counts, counts_by_key
  end

  -- Removes all acts but MAX_ACTS once there are EXCESS_ACTS more: it reads all of them, so it does so seldom.
  local function remove_excess_acts(acts_key)
    if redis.call('ZCOUNT', acts_key, '-inf', '+inf') <= MAX_ACTS + EXCESS_ACTS then return end
    local acts, removed, shares = redis.call('ZRANGE', acts_key, 0, -1), {}, {}
    local topologies, keys, counts, counts_by_key = count_acts(acts)
    local share, excess = share_of_acts(counts, MAX_ACTS), #acts - MAX_ACTS
    for topology, own in pairs(counts_by_key) do shares[topology] = share_of_acts(own, share) end
    for i, act in ipairs(acts) do
      local topology, key = topologies[i], keys[i]
      local own = counts_by_key[topology]
      -- rule: the oldest acts of the topologies that have most of them go, of each those of the keys that have most
      if #removed < excess and own[key] > shares[topology] then
        own[key] = own[key] - 1
        removed[#removed + 1] = act
      end
    end
    redis.call('ZREM', acts_key, unpack(removed))
  end

  --[[
    Notes an act; keeps 1000 to 1125 of the last 30 days, of each topology its newest and as many as of any other, and so of
    each key on a topology.

    Input   KEYS[1] acker:{topologies}::acts; ARGV[1] the act (JSON)
    Output  {'ok'}
  ]]
  local function note_act(keys, args)
    local now = clock()
    local number = string.format('%d', number_at(keys[1], now))
    redis.call('ZADD', keys[1], number, number .. ' ' .. args[1])
    local oldest = string.format('(%d', (now - ACTS_MS) * 1000)
    local late = redis.call('ZRANGE', keys[1], '-inf', oldest, 'BYSCORE', 'LIMIT', 0, 10)
    -- rule: an act goes after 30 days
    if #late > 0 then redis.call('ZREM', keys[1], unpack(late)) end
    remove_excess_acts(keys[1])
    redis.call('PEXPIREAT', keys[1], now + ACTS_MS)
    return { 'ok' }
  end

  --[[
    Reads acts of the last 30 days, the newest first.

    Input   KEYS[1] acker:{topologies}::acts; ARGV[1] a number: only acts before it, '' for all  [2] how many at most
    Output  {'ok', per act its number, a space and the act}
  ]]
  local function read_acts(keys, args)
    local below = args[1] == '' and '+inf' or '(' .. args[1]
    local oldest = string.format('%d', (clock() - ACTS_MS) * 1000)
    local found = redis.call('ZRANGE', keys[1], below, oldest, 'BYSCORE', 'REV', 'LIMIT', 0, args[2])
    return { 'ok', unpack(found) }
  end

  --[[
    Notes that a process runs, and forgets those that have not been noted for ten seconds.

    Input   KEYS[1] acker:{topologies}::processes; ARGV[1] id  [2] what it is (JSON)
    Output  {'ok'}
  ]]
  local function note_process(keys, args)
    local now = clock()
    local processes = redis.call('HGETALL', keys[1])
    for i = 1, #processes, 2 do
      if tonumber(processes[i + 1]:match('^%d+')) < now - PROCESS_MS then redis.call('HDEL', keys[1], processes[i]) end
    end
    redis.call('HSET', keys[1], args[1], string.format('%d', now) .. ' ' .. args[2])
    redis.call('PEXPIREAT', keys[1], now + PROCESS_MS)
    return { 'ok' }
  end

  --[[
    Reads the processes that were noted in the last ten seconds.

    Input   KEYS[1] acker:{topologies}::processes
    Output  {'ok', time, per process its id and when it was noted, a space and what it is}
  ]]
  local function read_processes(keys)
    local now = clock()
    local reply, processes = { 'ok', now }, redis.call('HGETALL', keys[1])
    for i = 1, #processes, 2 do
      if tonumber(processes[i + 1]:match('^%d+')) >= now - PROCESS_MS then
        reply[#reply + 1], reply[#reply + 2] = processes[i], processes[i + 1]
      end
    end
    return reply
  end

  register('acker_note_act_v1', note_act)
  register('acker_read_acts_v1', read_acts, { 'allow-oom', 'no-writes' })
  register('acker_note_process_v1', note_process)
  register('acker_read_processes_v1', read_processes, { 'allow-oom', 'no-writes' })
end

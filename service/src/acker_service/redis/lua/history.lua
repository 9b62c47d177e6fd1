--[[
  The history of topologies: samples of the totals since a topology was created, from which readers compute what happened
  between two. A step of time is sampled by the worker that claims it first; a step that none samples is part of the next
  sample, since nothing but totals is kept. There are three levels: every step, every 18th and every 144th, so many
  samples of each. A sample is I5 number of its step, I2 steps since the step that was claimed before, and the totals
  (functions/history.py).
]]

do
  local SAMPLES = 121
  local FACTORS = { 1, 18, 144 }
  local LONG = 2 * 144
  local HEAD, HEAD_SIZE, MAX_STEPS = '>I5I2', 7, 65535

  --[[
    Claims the present step.

    Input   KEYS[1] acker:{topologies}::sampled; ARGV[1] length of a step, in milliseconds
    Output  {'ok', time, number of the step or 0 if it is claimed already, number of the step that was claimed before}
  ]]
  local function claim_step(keys, args)
    local now, claimed = clock(), tonumber(redis.call('GET', keys[1]) or 0)
    local step = math.floor(now / tonumber(args[1]))
    -- rule: a step is claimed once
    if step <= claimed then return { 'ok', now, 0, claimed } end
    redis.call('SET', keys[1], string.format('%d', step))
    -- rule: a claim says how long ago the one before was
    return { 'ok', now, step, claimed }
  end

  -- Reads the samples of a level. Input: KEYS[1] acker:{topologies}::sampled, KEYS[2] the samples.
  -- Output: {'ok', time, number of the step that was claimed last or 0, {samples, the oldest first}}
  local function read_samples(keys)
    return { 'ok', clock(), tonumber(redis.call('GET', keys[1]) or 0), redis.call('ZRANGE', keys[2], 0, -1) }
  end

  -- Adds a sample to a level, unless the level has one of this time already, or its last one has the same totals.
  -- Returns the step of the last sample with the same totals, or nil.
  local function add_sample(key, factor, step, since, totals)
    local last = redis.call('ZRANGE', key, -1, -1)[1]
    if last then
      local last_step = struct.unpack('>I5', last)
      -- rule: totals that stay are one sample
      if last:sub(HEAD_SIZE + 1) == totals then return last_step end
      -- rule: a level has one sample of each of its steps
      if math.floor(last_step / factor) >= math.floor(step / factor) then return nil end
    end
    redis.call('ZADD', key, step, struct.pack(HEAD, step, math.min(since, MAX_STEPS)) .. totals)
    -- rule: the oldest samples go
    local excess = redis.call('ZRANGE', key, 0, -SAMPLES - 1)
    -- rule: a history is bounded
    if #excess > 0 then redis.call('ZREM', key, unpack(excess)) end
  end

  -- Adds a sample to all levels. Totals that have not changed for so long that every level has them are looked at once.
  local function add_to_levels(prefix, step, since, totals)
    for level, factor in ipairs(FACTORS) do
      local unchanged_since = add_sample(prefix .. level, factor, step, since, totals)
      -- rule: what changed last reaches all levels, then an idle topology is looked at once
      if level == 1 and unchanged_since and unchanged_since + LONG < step - since then return end
    end
  end

  --[[
    Notes the totals of topologies in a step; leaves out those that were removed or made again meanwhile.

    Input   KEYS[1] acker:{topologies}; ARGV[1] number of the step  [2] steps since the one that was claimed before
            then, per topology, its name, its incarnation and its totals
    Output  {'ok'}
  ]]
  local function note_samples(keys, args)
    local step, since = tonumber(args[1]), tonumber(args[2])
    for i = 3, #args, 3 do
      local topology, incarnation = keys[1] .. ':' .. args[i], args[i + 1]
      local stamp = redis.call('HGET', topology, 'pair')
      -- rule: a topology that is gone or was made again gets no sample of the one before
      if stamp and stamp:sub(1, 16) == incarnation then
        add_to_levels(topology .. ':' .. incarnation .. ':history', step, since, args[i + 2])
      end
    end
    return { 'ok' }
  end

  register('acker_claim_step_v1', claim_step)
  register('acker_samples_v1', read_samples, { 'allow-oom', 'no-writes' })
  register('acker_note_samples_v1', note_samples)
end

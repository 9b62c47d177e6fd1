--[[
  Searches the oldest pending root. No index orders roots by their age, so the search reads the buckets with the nearest
  deadlines first, as many as its budget allows: a root that has long been pending is near its deadline. As the tick does,
  it gives each bucket that it reads its true score, because most scores are those of roots that have ended since: the
  next search begins with buckets that were not read yet.
]]

do
  local BUDGET, PAGE = 4000, 128
  local PENDING, RARE_FIELDS = 1, 16

  -- Returns the start of the oldest pending root of a bucket, and its score: the first deadline of its roots or, without
  -- any, the last expiry of its outcomes.
  local function read_bucket(call, fields)
    local oldest, earliest, latest, band, unpack = nil, nil, nil, bit.band, struct.unpack
    for i = 2, #fields, 2 do
      local raw = fields[i]
      if is_record(raw) then
        local flags = raw:byte(11)
        local started, span = unpack('>I5I4', raw, flags < DETAILS and 12 or BEHIND_DETAILS)
        local deadline = started + span + EPOCH
        if band(flags, RARE_FIELDS) ~= 0 then
          read_record(call.root, raw)
          deadline = due_ms(call.root)
        end
        started = started + EPOCH
        if band(flags, PENDING) ~= 0 and (not oldest or started < oldest) then oldest = started end
        if not earliest or deadline < earliest then earliest = deadline end
      else
        local expiry = expiry_of(call, raw)
        if expiry and (not latest or expiry > latest) then latest = expiry end
      end
    end
    return oldest, earliest or latest
  end

  -- Raises the score of a bucket. The tick looks at a raised one later, so its keys have to live longer.
  local function raise_score(call, bucket, score)
    redis.call('ZADD', call.due_key, 'XX', 'GT', score, bucket)
    set_backstop_ttl(call, call.base .. 'r' .. bucket)
    set_backstop_ttl(call, call.base .. 'x' .. bucket)
  end

  -- Returns the start of the oldest pending root that the budget allows to find, or nil. Leaves overfull buckets out.
  local function find_oldest(call)
    local oldest, budget = nil, BUDGET
    local buckets = redis.call('ZRANGE', call.due_key, 0, PAGE - 1, 'WITHSCORES')
    for i = 1, #buckets, 2 do
      local bucket = buckets[i]
      local size = bucket ~= SWEEP and redis.call('HLEN', call.base .. 'r' .. bucket) or 0
      if budget <= 0 then break end
      if size > 0 and size <= OVERFULL then
        local started, score = read_bucket(call, redis.call('HGETALL', call.base .. 'r' .. bucket))
        if started and (not oldest or started < oldest) then oldest = started end
        if score and score > tonumber(buckets[i + 1]) then raise_score(call, bucket, score) end
        budget = budget - size - 1
      end
    end
    return oldest
  end

  --[[
    Reads what a scrape of the metrics shows beside the counts.

    Input   KEYS[1] shard; ARGV[1] stamp, then spout indexes
    Output  {'ok', now, start of the oldest pending root or false, {the hash delays}, oldest entry in the mailbox of each
            spout index or false ...}
  ]]
  local function read_ages(_, base, args)
    local call = { base = base, now = clock(), due_key = base .. 'due', expiries = {}, root = {} }
    local reply = { 'ok', call.now, find_oldest(call) or false, redis.call('HGETALL', base .. 'delays') }
    for i = 2, #args do
      local entry = redis.call('XRANGE', base .. 'm' .. args[i], '-', '+', 'COUNT', 1)[1]
      reply[#reply + 1] = entry and entry[1] or false
    end
    return reply
  end

  register_on_shard('acker_ages_v1', read_ages)
end

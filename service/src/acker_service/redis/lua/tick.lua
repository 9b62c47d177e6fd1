--[[
  The tick lets time pass: it scans buckets whose score is past, times out overdue roots, drops early ones without an
  init, removes expired outcomes, and gives the bucket its new score. Any number of replicas may tick: each step is
  atomic.
]]

do
  local MAX_BUCKETS = 256
  local LEASE_MS = 5000
  local OUTSTANDING_UNKNOWN, OWN_TIMEOUT, RARE_FIELDS, SHORT_MESSAGE_ID, LONG_VALUES = 4, 8, 16, 32, 64 + 16 + 2
  local TIMED_OUT, TIMED_OUT_WITH_MESSAGE_ID = 2, 6

  -- The flags of records that the fast path times out, and of their completions: pending roots with known or unknown
  -- outstanding, perhaps a timeout of their own, a message id in the tail, and details.
  local PLAIN_FLAGS = {}
  for flags = 1, 1 + 4 + OWN_TIMEOUT, 4 do
    PLAIN_FLAGS[flags], PLAIN_FLAGS[flags + DETAILS] = TIMED_OUT, TIMED_OUT
    PLAIN_FLAGS[flags + SHORT_MESSAGE_ID] = TIMED_OUT_WITH_MESSAGE_ID
    PLAIN_FLAGS[flags + SHORT_MESSAGE_ID + DETAILS] = TIMED_OUT_WITH_MESSAGE_ID
  end

  -- Whether the ack val of a plain record gives its timeout a reason.
  local function has_reason(raw, flags)
    -- rule: the fast path asks a known number of edges for a reason
    if bit.band(flags, OUTSTANDING_UNKNOWN) ~= 0 then return false end
    return is_acked_too_often(struct.unpack('>i4i4i2', raw))
  end

  -- Packs where the root of a plain record with details hung. Returns that, and the component that acked last, '' if none did.
  local function read_progress(call, raw, flags, started)
    local outstanding = bit.band(flags, OUTSTANDING_UNKNOWN) == 0 and struct.unpack('>i2', raw, 9) or nil
    local acked_after, number, acks = struct.unpack('>I3BI2', raw, DETAILS_AT)
    -- rule: a root that timed out names the component that acked last
    local component = component_name(call, number) or ''
    return pack_progress(outstanding, acks > 0 and started + unpack_span(acked_after) or nil, component), component
  end

  -- The fast path of `expire`: times out an overdue root that has a plain record, as `finish` and `save_root` do.
  local function time_out(call, bucket, root_id, raw, flags, started, due, after_deadline)
    local spout, latency = struct.unpack('>I2', raw, after_deadline), call.now - EPOCH - started
    local head, told = struct.pack('>c8I5I5', root_id, started, call.now - EPOCH), PLAIN_FLAGS[flags]
    local message_id, progress, component = '', nil, ''
    if flags % DETAILS >= SHORT_MESSAGE_ID then
      -- rule: the fast path finds a message id behind a timeout of its own
      message_id = raw:sub(after_deadline + (bit.band(flags, OWN_TIMEOUT) == 0 and 2 or 6))
      message_id = struct.pack('>I2', #message_id) .. message_id
    end
    -- rule: the fast path knows where a root with details hung
    if flags >= DETAILS then progress, component = read_progress(call, raw, flags, started) end
    local completion = head .. string.char(told) .. message_id
    local completions = call.completions_by_spout[spout] or {}
    call.completions_by_spout[spout] = completions
    -- rule: the fast path tells where a root with details hung
    completions[#completions + 1] = progress and head .. string.char(told + 16) .. message_id .. progress or completion
    local failures = failures_of(call, spout, 'T' .. component)
    failures[#failures + 1] = completion
    -- rule: what the fast path times out is pending no more
    call.pending[spout] = (call.pending[spout] or 0) - 1
    -- rule: a tick says how many roots ended
    call.finished_count = call.finished_count + 1
    -- rule: what the fast path times out is counted
    count_completion(call, 'T', latency, 1)
    add_delay(call.delays, call.now - due, 1)
    local marker, expiry = pack_outcome(call, 'T')
    -- rule: the fast path leaves an outcome
    redis.call('HSET', call.base .. 'r' .. bucket, root_id, marker)
    -- rule: what the fast path times out is scored by its expiry
    return expiry
  end

  -- Ends a root that is overdue. Returns the deadline of one that is not, or nil and the expiry of the new outcome.
  local function expire(call, root, bucket, root_id, raw)
    root.id, root.bucket, root.key, root.stored, root.failure = root_id, bucket, call.base .. 'r' .. bucket, true, nil
    read_record(root, raw)
    -- rule: a record that was read whole is in time up to its deadline
    if call.now <= due_ms(root) then return due_ms(root) end
    root.was_pending, root.early_size, root.holds_slot, root.was_due = root.state == 'P', false, false, 0
    -- rule: a root that was due in the gap gets grace
    if grant_grace(call, root) then return due_ms(root) end
    -- rule: a tick says how many roots the state machine ended
    call.finished_count = call.finished_count + 1
    if root.state == 'E' then return drop_record(call, root) end
    finish(call, root, 'T')
    add_delay(call.delays, call.now - due_ms(root), 1)
    save_root(call, root)
    -- rule: a root that timed out is scored by its expiry
    return nil, call.marker_expiry
  end

  -- Expires roots and outcomes of a bucket. Returns the first deadline of the roots that stay or, if none does, the last
  -- expiry of its outcomes: then all of it is removed together. Returns also whether x<b> may hold values. Reads a record
  -- from its flags to its deadline, and all of it only if it is overdue.
  local function expire_bucket(call, bucket, fields)
    local earliest, latest, expired, has_long_values = nil, nil, {}, false
    local now, unpack, band, byte = call.now, struct.unpack, bit.band, string.byte
    local gap_from, gap_to = call.gap_from or math.huge, call.gap_to
    for i = 2, #fields, 2 do
      local raw, deadline, expiry = fields[i], nil, nil
      if is_record(raw) then
        local flags = byte(raw, 11)
        local started, span, after_deadline = unpack('>I5I4', raw, flags < DETAILS and 12 or BEHIND_DETAILS)
        deadline = started + span + EPOCH
        -- rule: the fast path times out nothing that is due in the gap
        local is_in_gap = deadline >= gap_from and deadline < gap_to
        -- rule: the fast path times out what is overdue and has neither rare fields nor a reason
        if now > deadline and FAST_PATH and PLAIN_FLAGS[flags] and not is_in_gap and not has_reason(raw, flags) then
          deadline, expiry =
            nil, time_out(call, bucket, fields[i - 1], raw, flags, started, deadline, after_deadline)
        -- rule: a record that is overdue or has rare fields is read whole
        elseif now > deadline or band(flags, RARE_FIELDS) ~= 0 then
          deadline, expiry = expire(call, call.root, bucket, fields[i - 1], raw)
        end
        has_long_values = has_long_values or band(flags, LONG_VALUES) ~= 0
      else
        expiry = expiry_of(call, raw)
        -- rule: an expired outcome is removed
        if not expiry then expired[#expired + 1] = fields[i - 1] end
      end
      -- rule: the earliest deadline is the bucket's score
      if deadline and (not earliest or deadline < earliest) then earliest = deadline end
      -- rule: a bucket of outcomes is scored by the last expiry
      if expiry and (not latest or expiry > latest) then latest = expiry end
    end
    local key = call.base .. 'r' .. bucket
    if #expired > 0 then remove_outcomes(call, key, expired, redis.call('HLEN', key)) end
    return earliest or latest, has_long_values
  end

  -- Begins a call that expires roots and outcomes.
  local function begin_expiry(key, base, args)
    local call = begin_call(key, base, args)
    call.finished_count, call.removed, call.expiries, call.empty, call.scored, call.delays = 0, 0, {}, {}, {}, {}
    call.gap_from = false
    return call
  end

  -- Expires a small bucket. Notes its new score, or that it is empty: `write_scores` writes that.
  local function expire_small_bucket(call, bucket)
    local key = call.base .. 'r' .. bucket
    local scan_at, has_long_values = expire_bucket(call, bucket, redis.call('HGETALL', key))
    local empty, scored = call.empty, call.scored
    call.scores[bucket] = nil
    if not scan_at then
      empty[#empty + 1] = bucket
      return
    end
    -- rule: a bucket is scored to the millisecond
    scored[#scored + 1] = scan_at
    scored[#scored + 1] = bucket
    -- rule: a tick renews the backstop of a bucket
    set_backstop_ttl(call, key)
    -- rule: a tick renews the backstop of what lies beside a bucket
    if has_long_values then set_backstop_ttl(call, call.base .. 'x' .. bucket) end
  end

  -- Writes the new scores of all buckets together.
  local function write_scores(call)
    -- rule: what is over leaves the index
    if #call.empty > 0 then redis.call('ZREM', call.due_key, unpack(call.empty)) end
    -- rule: what stays in the index is scored by what is left
    if #call.scored > 0 then redis.call('ZADD', call.due_key, unpack(call.scored)) end
  end

  --[[
    Expires the small buckets that are due, and takes a step of the sweep if that is due. Costs one, and one for each root
    and outcome in it, per bucket.

    Input   KEYS[1] shard; ARGV[1] stamp  [2] settings  [3] records to read, approximate limit  [4] grace_ms
    Output  {'ok', roots ended, 1 if more is due, overfull buckets that are due and need scan_bucket ...}
  ]]
  local function tick(key, base, args)
    local call = begin_expiry(key, base, args)
    local reply, budget, is_sweep_due = { 'ok', 0, 0 }, tonumber(args[3]), false
    -- rule: a tick is noted
    note_tick(call, tonumber(args[4]))
    -- rule: a tick looks at buckets that are behind their score, and at no others
    local due_now = redis.call('ZRANGE', call.due_key, '-inf', '(' .. call.now, 'BYSCORE', 'LIMIT', 0, MAX_BUCKETS)
    for _, bucket in ipairs(due_now) do
      local size = redis.call('HLEN', call.base .. 'r' .. bucket)
      if bucket == SWEEP then
        is_sweep_due = true
      -- rule: an overfull bucket is left to be walked
      elseif size > OVERFULL then
        reply[#reply + 1] = bucket_number(bucket)
      elseif budget > 0 then
        expire_small_bucket(call, bucket)
        -- rule: a call reads a bounded number of records
        budget = budget - size - 1
      end
    end
    write_scores(call)
    local is_sweeping = is_sweep_due and budget > 0 and sweep(call)
    note_removed(call)
    commit(call)
    write_delays(base, 'late', call.delays)
    local overfull = #reply - 3
    -- rule: there is more if a sweep goes on, the records are spent, or many due buckets are not overfull
    local more = is_sweeping or budget <= 0 or #due_now == MAX_BUCKETS and overfull < MAX_BUCKETS
    reply[2], reply[3] = call.finished_count, more and 1 or 0
    return reply
  end

  --[[
    Scans an overfull bucket, one part per call. The first call scores the bucket one lease ahead, so that it is due
    again if the caller dies; roots that arrive meanwhile lower the score themselves. The last call writes the earliest
    deadline found.

    Input   KEYS[1] shard; ARGV[1] stamp  [2] settings  [3] bucket  [4] cursor, 0 to begin  [5] earliest deadline found,
            or ''  [6] grace_ms
    Output  {'ok', roots ended, cursor ('0' at the end), earliest deadline found or ''}
  ]]
  local function scan_bucket(key, base, args)
    local call = begin_expiry(key, base, args)
    local bucket, earliest = pack_bucket(args[3]), tonumber(args[5])
    -- rule: a walk knows the gap
    read_gap(call, tonumber(args[6]))
    -- rule: a walk takes its bucket out of what is due by scoring it ahead
    if args[4] == '0' then redis.call('ZADD', call.due_key, call.now + LEASE_MS, bucket) end
    local scan = redis.call('HSCAN', call.base .. 'r' .. bucket, args[4], 'COUNT', OVERFULL)
    local found = expire_bucket(call, bucket, scan[2])
    -- rule: a walk remembers the earliest deadline of its pieces
    if found and (not earliest or found < earliest) then earliest = found end
    -- rule: a walk ends by the score that it found, and never above those that arrived meanwhile
    if scan[1] == '0' and earliest then redis.call('ZADD', call.due_key, 'LT', earliest, bucket) end
    if scan[1] == '0' then
      -- rule: a walk renews the backstop of its bucket
      set_backstop_ttl(call, call.base .. 'r' .. bucket)
      set_backstop_ttl(call, call.base .. 'x' .. bucket)
    end
    note_removed(call)
    commit(call)
    write_delays(base, 'late', call.delays)
    return { 'ok', call.finished_count, scan[1], earliest and string.format('%.0f', earliest) or '' }
  end

  register_on_shard('acker_tick_v1', tick)
  register_on_shard('acker_walk_v1', scan_bucket)
end

--[[
  Reads roots, one by one and in lists; fails one that an operator names.
]]

do
  local VALUES = 10

  -- Appends an early or pending root to a reply as ten values: root id, ack val as 8 raw bytes, outstanding or '',
  -- started, due, spout index, message id or false; time of the last ack or '', its component or '', number of acks or ''.
  local function append_root(call, root, reply)
    local n = #reply
    -- rule: a root shows its ack val
    reply[n + 1], reply[n + 2] = root.id, struct.pack('>i4i4', root.high, root.low)
    -- rule: a root shows whether its count is known, and what ends it first
    reply[n + 3], reply[n + 4], reply[n + 5] = root.outstanding or '', root.started, due_ms(root)
    reply[n + 6], reply[n + 7] = root.spout, read_message_id(call, root) or false
    reply[n + 8], reply[n + 9], reply[n + 10] = root.acked_at or '', last_component(call, root) or '', root.acks or ''
    return reply
  end

  local function describe_root(call, args)
    local root = call.root
    load_root(call, root, args[4], pack_bucket(args[3]))
    if root.state == 'N' then return { 'ok', call.now, 'N' } end
    -- rule: a finished root shows its outcome
    if root.state == 'F' then return { 'ok', call.now, 'F', root.outcome } end
    return append_root(call, root, { 'ok', call.now, root.state })
  end

  --[[
    Reads one root.

    Input   KEYS[1] shard; ARGV[1] stamp  [2] settings  [3] bucket  [4] root id
    Output  {'ok', now, state, then for an early or pending root the values of append_root, for a finished one its
            outcome}
  ]]
  local function read_root(key, base, args)
    return describe_root(begin_call(key, base, args), args)
  end

  --[[
    Reads the trace of a root, and the root.

    Input   KEYS[1] shard; ARGV[1] stamp  [2] settings  [3] bucket  [4] root id
    Output  {'ok', entries of the trace (traces.lua), '' without one, 1 if some are missing, then what read_root gives behind
            'ok'}
  ]]
  local function read_traced_root(key, base, args)
    local call = begin_call(key, base, args)
    local reply, entries, is_cut = describe_root(call, args), '', 0
    -- A pending root that is not traced may have the id of an earlier one that was.
    if call.root.traced or call.root.state == 'F' or call.root.state == 'N' then
      entries, is_cut = read_trace(base, args[4])
    end
    return { 'ok', entries, is_cut, unpack(reply, 2) }
  end

  --[[
    Names the roots whose traces began last, the latest first.

    Input   KEYS[1] shard; ARGV[1] stamp  [2] how many at most
    Output  {'ok', their ids, 8 bytes each}
  ]]
  local function list_traces(_, base, args)
    return { 'ok', table.concat(redis.call('ZRANGE', base .. 'traces', 0, args[2] - 1, 'REV')) }
  end

  -- Tells for each root whether it has ended: it is neither early nor pending.
  -- Input: KEYS[1] shard; ARGV[1] stamp  [2] per root its bucket c4 and id c8.
  -- Output: {'ok', per root '1' (ended) or '0'}
  local function ended(_, base, args)
    local over, n, pos, bucket, root_id = {}, 0, 1, nil, nil
    while pos <= #args[2] do
      bucket, root_id, pos = struct.unpack('>c4c8', args[2], pos)
      n = n + 1
      local raw = redis.call('HGET', base .. 'r' .. bucket, root_id)
      -- rule: a root is over when it has no record
      over[n] = raw and is_record(raw) and 0 or 1
    end
    return { 'ok', table.concat(over) }
  end

  --[[
    Reads the states of roots.

    Input   KEYS[1] shard; ARGV[1] stamp  [2] settings  [3] per root its bucket c4 and id c8
    Output  {'ok', per root a letter: N unknown, E early, P pending, of a finished one its outcome A, F or T}
  ]]
  local function read_states(key, base, args)
    local call, letters, pos, bucket, root_id = begin_call(key, base, args), {}, 1, nil, nil
    while pos <= #args[3] do
      bucket, root_id, pos = struct.unpack('>c4c8', args[3], pos)
      load_root(call, call.root, root_id, bucket)
      -- rule: the states of roots have the outcomes of the finished ones
      letters[#letters + 1] = call.root.outcome or call.root.state
    end
    return { 'ok', table.concat(letters) }
  end

  --[[
    Fails a root by the state machine, unless it is unknown: it then stays unknown.

    Input   KEYS[1] shard; ARGV[1] stamp  [2] settings  [3] bucket  [4] root id  [5] reason
    Output  {'ok', code}: 'N' for an unknown root
  ]]
  local function force_fail(key, base, args)
    local call = begin_call(key, base, args)
    local root = call.root
    load_root(call, root, args[4], pack_bucket(args[3]))
    -- rule: a fail by hand leaves an unknown root unknown
    if root.state == 'N' then return { 'ok', 'N' } end
    -- rule: a fail by hand goes by the state machine, and has a reason
    local code = apply_operation(call, root, { text = args[5] }, 3)
    -- rule: a fail by hand is written
    save_root(call, root)
    -- rule: a fail by hand is told
    commit(call)
    return { 'ok', code }
  end

  -- Reads part of a bucket: all of a small one, one HSCAN step of an overfull one. Returns the next HSCAN cursor too.
  local function read_part(call, bucket, cursor)
    local key = call.base .. 'r' .. bucket
    -- rule: an overfull bucket is listed in pieces
    if cursor == '0' and redis.call('HLEN', key) <= OVERFULL then return redis.call('HGETALL', key), '0' end
    local found = redis.call('HSCAN', key, cursor, 'COUNT', OVERFULL)
    return found[2], found[1]
  end

  -- Whether the message id of a root or the component of its last ack contains a text.
  local function has_text(call, root, text)
    local message_id, component = read_message_id(call, root) or '', last_component(call, root) or ''
    -- rule: a list finds plain texts
    return (message_id:find(text, 1, true) or component:find(text, 1, true)) ~= nil
  end

  -- Whether a root is pending and one of those that a list asks for. A root without details counts as one without an ack.
  local function is_wanted(call, root, filter)
    -- rule: a list is of pending roots that are old enough
    return root.state == 'P' and call.now - root.started >= filter.age
      and call.now - (root.acked_at or root.started) >= filter.no_ack_for
      and (not filter.spout or root.spout == filter.spout)
      and (not filter.message_id or read_message_id(call, root) == filter.message_id)
      and (filter.text == '' or has_text(call, root, filter.text))
  end

  local function pending_roots(call, bucket, fields, filter)
    local reply, root = {}, call.root
    root.bucket = bucket
    for i = 1, #fields, 2 do
      root.id, root.state = fields[i], nil
      if is_record(fields[i + 1]) then read_record(root, fields[i + 1]) end
      if is_wanted(call, root, filter) then append_root(call, root, reply) end
    end
    return reply
  end

  -- Returns the rank in the deadline index of the first bucket after this one at this score; the buckets of one score are
  -- in the order of their numbers, which are compared: Lua compares strings as the server's locale says.
  local function rank_after(call, score, bucket)
    local low, number = redis.call('ZCOUNT', call.due_key, '-inf', '(' .. score), struct.unpack('>I4', bucket)
    local high = redis.call('ZCOUNT', call.due_key, '-inf', score)
    while low < high do
      local middle = math.floor((low + high) / 2)
      local is_past = struct.unpack('>I4', redis.call('ZRANGE', call.due_key, middle, middle)[1]) > number
      -- rule: buckets of one score go on in the order of bytes
      if is_past then high = middle else low = middle + 1 end
    end
    return low
  end

  -- Iterates over the deadline index from a rank on: each call gives the next bucket and its score, nil at the end.
  local function scan_index(call, rank)
    local page, i = {}, 1
    return function()
      if i > #page then
        -- rule: the nearest deadline comes first
        page, i = redis.call('ZRANGE', call.due_key, rank, rank + 255, 'WITHSCORES'), 1
        -- rule: a walk through the index goes on behind 256 buckets
        rank = rank + 256
      end
      i = i + 2
      return page[i - 2], page[i - 1]
    end
  end

  --[[
    Lists pending roots by parts of buckets, the bucket with the nearest deadline first. A call begins with the part
    that it names, wherever that bucket is in the index now, and goes on after the place where the bucket was.

    Input   KEYS[1] shard; ARGV[1] stamp  [2] settings  [3] score ('0': begin)  [4] bucket  [5] HSCAN cursor in the
            bucket  [6] roots wanted  [7] records to read, approximate limit  [8] least age and [9] least time without an
            ack, in milliseconds  [10] spout index, '' for any  [11] text of the message id or the last component, '' for any
            [12] message id, left out for any
    Output  {'ok', now, records and outcomes read, the part to begin the next call with: score ('' at the end), bucket,
            cursor, then per part with roots: score, bucket, cursor, {the values of append_root, for each root}}
  ]]
  local function list_roots(key, base, args)
    local call = begin_call(key, base, args)
    local score, bucket, cursor = args[3], pack_bucket(args[4]), args[5]
    local wanted, budget, scanned = tonumber(args[6]), tonumber(args[7]), 0
    local filter = { age = tonumber(args[8]), no_ack_for = tonumber(args[9]), spout = tonumber(args[10]),
      text = args[11], message_id = args[12] }
    -- rule: a list goes on behind the score where it stopped
    local next_bucket = scan_index(call, score == '0' and 0 or rank_after(call, score, bucket))
    if score == '0' then bucket, score = next_bucket() end
    local reply = { 'ok', call.now, 0, '', '', '' }
    while bucket and wanted > 0 and budget > 0 do
      local fields, next_cursor = read_part(call, bucket, cursor)
      local roots = pending_roots(call, bucket, fields, filter)
      local n = #reply
      if #roots > 0 then
        reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = score, bucket_number(bucket), cursor, roots
      end
      -- rule: a list ends when it has enough roots, or has looked at enough records
      wanted, budget, cursor = wanted - #roots / VALUES, budget - #fields / 2 - 1, next_cursor
      scanned = scanned + #fields / 2
      -- rule: an overfull bucket is walked to its end
      if cursor == '0' then bucket, score = next_bucket() end
    end
    reply[3] = scanned
    -- rule: a list says where it stopped
    if bucket then reply[4], reply[5], reply[6] = score, bucket_number(bucket), cursor end
    return reply
  end

  register_on_shard('acker_read_root_v2', read_root)
  register_on_shard('acker_read_trace_v1', read_traced_root)
  register_on_shard('acker_list_traces_v1', list_traces)
  register_on_shard('acker_ended_v1', ended)
  register_on_shard('acker_read_states_v1', read_states)
  register_on_shard('acker_force_fail_v1', force_fail)
  register_on_shard('acker_list_roots_v3', list_roots)
end

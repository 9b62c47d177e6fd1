--[[
  Removes topologies and spout tasks. A removal first marks the configuration and raises its version; once every shard
  has the new stamp no init can arrive, so that the counts are final. Only then is anything removed. A removed topology
  leaves a tombstone on its shards: the stamp with a trailing x.
]]

do
  -- rule: a tombstone stays for a day
  local TOMBSTONE_MS = 86400000

  local function next_version(stamp)
    return stamp:sub(1, 16) .. string.format('%010d', tonumber(stamp:sub(17, 26)) + 1)
  end

  --[[
    Marks a topology, or clears its mark.

    Input   KEYS[1] topology; ARGV[1] stamp that was read  [2] checking, draining or deleting, or '' for no mark
    Output  {'ok', new stamp, mark} or {'raced'}
  ]]
  local function mark_topology(keys, args)
    -- rule: a topology is marked only as it was read
    if redis.call('HGET', keys[1], 'pair') ~= args[1] then return { 'raced' } end
    -- rule: a mark raises the version and says since when
    local stamp, mark = next_version(args[1]), args[2] ~= '' and args[2] .. ' ' .. string.format('%.0f', clock()) or ''
    redis.call('HSET', keys[1], 'pair', stamp, 'mark', mark)
    return { 'ok', stamp, mark }
  end

  -- Input: KEYS[1] topology, KEYS[2] its spouts, KEYS[3] acker:{topologies}; ARGV[1] stamp that was read  [2] name.
  -- Removes a topology's configuration and history. Output: {'ok'}, also if it has another stamp or is gone by now
  local function remove_topology(keys, args)
    -- rule: only the topology that was marked is forgotten
    if redis.call('HGET', keys[1], 'pair') == args[1] then
      -- rule: a topology that has gone has no configuration
      redis.call('DEL', keys[1], keys[2])
      -- rule: a topology that has gone has no history
      for level = 1, 3 do redis.call('DEL', keys[1] .. ':' .. args[1]:sub(1, 16) .. ':history' .. level) end
      -- rule: a topology that has gone is not listed
      redis.call('SREM', keys[3], args[2])
    end
    return { 'ok' }
  end

  -- Input: KEYS[1] shard; ARGV[1] stamp. Puts a tombstone on a shard.
  -- Output: {'ok'}, or {'stale', stamp} if its own is above
  local function write_tombstone(keys, args)
    local own = redis.call('GET', keys[1])
    -- rule: a shard that is above is not buried
    if own and own:sub(1, 26) > args[1] then return { 'stale', own } end
    -- rule: a tombstone goes on its own, and is no stamp
    redis.call('SET', keys[1], args[1] .. 'x', 'PX', TOMBSTONE_MS)
    return { 'ok' }
  end

  local function unlink(base, names)
    for i, name in ipairs(names) do names[i] = base .. name end
    redis.call('UNLINK', unpack(names))
  end

  --[[
    Removes the keys of a shard with a tombstone, a range of buckets, of sets of requests and of spout indexes per call.
    A name costs about a microsecond, so the call leaves out what the topology cannot have. The range from 0 is called for
    last: it removes also the keys without a number, by which `functions/topologies.py`'s `is_used` knows that others may be left.

    Input   KEYS[1] shard; ARGV[1] stamp  [2] first  [3] last  [4] sets of requests  [5] spout indexes  [6] 1 if acked
            edges are remembered, 0 if not
    Output  {'ok'}
  ]]
  local function sweep(keys, args)
    local base = base_of(keys[1], args[1])
    local sets, spouts = tonumber(args[4]), tonumber(args[5])
    for n = tonumber(args[2]), tonumber(args[3]) do
      local bucket = pack_bucket(n)
      -- rule: records are swept, and what lies beside them
      unlink(base, { 'r' .. bucket, 'x' .. bucket })
      -- rule: remembered requests are swept, those of every set
      if n < sets then unlink(base, { 's0:' .. n, 's1:' .. n, 'n0:' .. n, 'n1:' .. n }) end
      -- rule: mailboxes are swept, and the retries, tries and dead letters of every spout task
      if n < spouts then unlink(base, { 'm' .. n, 'retry' .. n, 'tries' .. n, 'd' .. n }) end
      -- rule: remembered edges are swept if there is a dedupe window
      if args[6] == '1' then
        -- rule: remembered edges are swept in both slices
        for half = 0, 1 do unlink(base, { 'p0:' .. bucket .. half, 'p1:' .. bucket .. half }) end
      end
    end
    if tonumber(args[2]) > 0 then return { 'ok' } end
    -- rule: all that a shard keeps in one key is swept
    redis.call('UNLINK', base .. 'due', base .. 'slices', base .. 'sweep', base .. 'pending', base .. 'unread', base .. 'heads',
      base .. 'tips', base .. 'counts', base .. 'gone', base .. 'used', base .. 'begun', base .. 'sent', base .. 'leases',
      base .. 'failing', base .. 'dead', base .. 'read', base .. 'delivered', base .. 'errors', base .. 'early',
      base .. 'failed', base .. 'delays', base .. 'names', base .. 'traces', base .. 'traced', base .. 'acked',
      base .. 'ticks', base .. 'remembered')
    for n = 0, FAILURE_CHUNKS - 1 do redis.call('UNLINK', base .. 'failures' .. n) end
    return { 'ok' }
  end

  -- Input: KEYS[1] shard; ARGV[1] stamp  [2] traces, limit. Removes traces of a shard with a tombstone.
  -- Output: {'ok', how many it removed}
  local function remove_traces(keys, args)
    return { 'ok', drop_traces(base_of(keys[1], args[1]), tonumber(args[2])) }
  end

  local function fail_record(call, key, root_id, bucket, raw)
    local root = call.root
    root.id, root.bucket, root.key, root.stored, root.dirty = root_id, bucket, key, true, false
    read_record(root, raw)
    root.was_pending, root.early_size, root.holds_slot = root.state == 'P', false, false
    -- rule: a forced deletion has a reason
    root.failure, root.was_due = pack_failure('topology deleted'), 0
    -- rule: a forced deletion drops what is early, and counts it
    if root.state == 'E' then return drop_record(call, root) end
    -- rule: a forced deletion fails what is pending
    finish(call, root, 'F')
    -- rule: a forced deletion remembers outcomes
    save_root(call, root)
  end

  -- Fails a bucket, or a part of an overfull one. Removes what it saw of a part, so that the next call finds the next.
  -- A bucket that was seen whole leaves the index, where nothing is scored again (was_due is 0): it is removed next.
  local function fail_bucket(call, bucket)
    local key = call.base .. 'r' .. bucket
    local cursor, fields = '0', {}
    repeat
      cursor, fields = unpack(redis.call('HSCAN', key, cursor, 'COUNT', OVERFULL))
    until #fields > 0 or cursor == '0'
    local is_whole = cursor == '0'
    for i = 1, #fields, 2 do
      if is_record(fields[i + 1]) then fail_record(call, key, fields[i], bucket, fields[i + 1]) end
      if not is_whole then redis.call('HDEL', key, fields[i]) end
    end
    call.root.id = nil
    -- rule: a forced deletion leaves no bucket due
    if is_whole then redis.call('ZREM', call.due_key, bucket) end
    return #fields / 2
  end

  --[[
    Fails all pending roots of a shard and drops its early ones, a part per call.

    Input   KEYS[1] shard; ARGV[1] stamp  [2] settings  [3] roots, approximate limit
    Output  {'ok', 1 if there is more}
  ]]
  local function fail_all(key, base, args)
    local call = begin_call(key, base, args)
    local budget, buckets = tonumber(args[3]), redis.call('ZRANGE', call.due_key, 0, 255)
    for _, bucket in ipairs(buckets) do
      -- rule: a forced deletion takes a piece of bounded size in a call
      if budget > 0 then budget = budget - 1 - fail_bucket(call, bucket) end
    end
    commit(call)
    redis.call('ZREM', call.due_key, SWEEP)
    -- rule: a forced deletion says whether there is more
    return { 'ok', redis.call('EXISTS', call.due_key) }
  end

  --[[
    Writes or removes the document of a spout task, and raises the topology's version, so that every replica reads it
    again.

    Input   KEYS[1] topology, KEYS[2] its spouts; ARGV[1] stamp  [2] spout task  [3] value that was read  [4] value, or
            ''
    Output  {'ok', new stamp}, {'raced'} or {'stale', stamp}
  ]]
  local function mark_spout(keys, args)
    local stamp = redis.call('HGET', keys[1], 'pair')
    -- rule: a spout task is marked only in its incarnation
    if not stamp or stamp:sub(1, 16) ~= args[1]:sub(1, 16) then return { 'stale', stamp or '' } end
    -- rule: a spout task is marked only as it was read
    if redis.call('HGET', keys[2], args[2]) ~= args[3] then return { 'raced' } end
    if args[4] == '' then
      -- rule: a removed spout task has no name
      redis.call('HDEL', keys[2], args[2])
    else
      redis.call('HSET', keys[2], args[2], args[4])
    end
    -- rule: a spout task's mark raises the version
    stamp = next_version(stamp)
    redis.call('HSET', keys[1], 'pair', stamp)
    return { 'ok', stamp }
  end

  -- Input: KEYS[1] shard; ARGV[1] stamp  [2] spout index. Removes a spout task's mailbox; roots that end under its
  -- index from now on give no completion. Output: {'ok', completions discarded, dead letters included}
  local function remove_spout(_, base, args)
    local spout = args[2]
    local unread = tonumber(redis.call('HGET', base .. 'unread', spout) or 0)
    local dead = tonumber(redis.call('HGET', base .. 'dead', spout) or 0)
    -- rule: a removed index is gone for good
    redis.call('SADD', base .. 'gone', spout)
    -- rule: a removed mailbox is gone
    redis.call('UNLINK', base .. 'm' .. spout, base .. 'retry' .. spout, base .. 'tries' .. spout, base .. 'd' .. spout)
    -- rule: a removed spout task leaves no field of its own
    local fields = { 'unread', 'pending', 'heads', 'tips', 'used', 'begun', 'sent', 'leases', 'failing', 'dead', 'read',
      'delivered', 'errors' }
    for _, name in ipairs(fields) do
      redis.call('HDEL', base .. name, spout)
    end
    if unread + dead > 0 then redis.call('HINCRBY', base .. 'counts', 'discarded', unread + dead) end
    -- rule: a removal says what it discarded
    return { 'ok', unread + dead }
  end

  register('acker_mark_topology_v1', mark_topology)
  register('acker_remove_topology_v1', remove_topology)
  register('acker_bury_v1', write_tombstone)
  register('acker_sweep_v2', sweep)
  register('acker_remove_traces_v1', remove_traces)
  register_on_shard('acker_fail_all_v1', fail_all)
  register('acker_mark_spout_v1', mark_spout)
  register_on_shard('acker_remove_spout_v1', remove_spout)
end

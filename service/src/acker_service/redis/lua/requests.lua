--[[
  A request is a list of operations that is applied once.

  An operation, big-endian: kind B (1 init, 2 ack, 3 fail, 4 reset timeout), bucket I4, root id c8, value to XOR 2 x i4,
  outstanding i4, flags B, spout index I4; then by flags: 1 outstanding unknown; 2 message timeout I4; 4 progress
  timeout I4; 8 text, length I2 and bytes (message id, or reason); 16 component, likewise; 32 hash of root and edge,
  2 x I4. Operations of one root stand together, so that its record is read and written once.
]]

do
  local function read_text(ops, pos)
    local length, at = struct.unpack('>I2', ops, pos)
    return ops:sub(at, at + length - 1), at + length
  end

  local function read_optional(op, flags, ops, pos)
    op.message_timeout, op.progress_timeout, op.text, op.component, op.edge_high = nil, nil, nil, nil, nil
    if flags % 2 == 1 then op.outstanding = nil end
    if flags < 2 then return pos end
    if bit.band(flags, 2) ~= 0 then op.message_timeout, pos = struct.unpack('>I4', ops, pos) end
    if bit.band(flags, 4) ~= 0 then op.progress_timeout, pos = struct.unpack('>I4', ops, pos) end
    if bit.band(flags, 8) ~= 0 then op.text, pos = read_text(ops, pos) end
    if bit.band(flags, 16) ~= 0 then op.component, pos = read_text(ops, pos) end
    if bit.band(flags, 32) ~= 0 then op.edge_high, op.edge_low, pos = struct.unpack('>I4I4', ops, pos) end
    return pos
  end

  -- Runs `handler` (apply_operation or replay_operation) on each operation of a request. Gives their codes in a string.
  local function run(call, handler, ops)
    local root, op, codes, n, pos, size = call.root, {}, {}, 0, 1, #ops
    local kind, bucket, root_id, flags
    root.id = nil
    while pos <= size do
      kind, bucket, root_id, op.high, op.low, op.outstanding, flags, op.spout, pos =
        struct.unpack('>BI4c8i4i4i4BI4', ops, pos)
      pos = read_optional(op, flags, ops, pos)
      if root_id ~= root.id then
        save_root(call, root)
        load_root(call, root, root_id, bucket)
      end
      n = n + 1
      codes[n] = handler(call, root, op, kind)
      call.changed = call.changed or root.dirty
    end
    save_root(call, root)
    return table.concat(codes)
  end

  -- Whether a request was applied before. call.had_refusals then says whether its first run refused an init.
  local function was_applied(call, set, hash, partial_hash)
    if set == '' then return false end
    for slice = 0, 1 do
      local found = redis.call('SMISMEMBER', call.base .. 's' .. slice .. ':' .. set, hash, partial_hash)
      if found[1] == 1 or found[2] == 1 then
        call.had_refusals = found[2] == 1
        return true
      end
    end
    return false
  end

  local function remember(call, set, hash, partial_hash, codes)
    if set == '' or not call.changed then return end
    local key = call.base .. 's' .. math.floor(call.now / call.idempotency_window) % 2 .. ':' .. set
    redis.call('SADD', key, codes:find('[bms]') and partial_hash or hash)
    expire_slice(call, key, call.idempotency_window)
  end

  local function read_free_slots(packed)
    if packed == '' then return nil end
    local free_slots, pos = {}, 1
    while pos <= #packed do
      local spout, free
      spout, free, pos = struct.unpack('>I4i4', packed, pos)
      free_slots[spout] = free
    end
    return free_slots
  end

  local function write_free_slots(free_slots)
    local packed = {}
    for spout, free in pairs(free_slots or {}) do packed[#packed + 1] = struct.pack('>I4i4', spout, free) end
    return table.concat(packed)
  end

  -- Applies the requests from args[first] on, `step` arguments each. Gives the reply.
  local function apply(call, args, first, step)
    local reply = { 'ok', '' }
    for i = first, #args, step do
      local set, hash, partial_hash, ops = args[i], args[i + 1], args[i + 2], args[i + step - 1]
      if was_applied(call, set, hash, partial_hash) then
        reply[#reply + 1] = '=' .. run(call, replay_operation, ops)
      else
        call.changed = false
        local codes = run(call, apply_operation, ops)
        remember(call, set, hash, partial_hash, codes)
        reply[#reply + 1] = '+' .. codes
      end
    end
    commit(call)
    reply[2] = write_free_slots(call.free_slots)
    return reply
  end

  --[[
    Applies requests, one after the other, in one atomic step.

    Input   KEYS[1] shard
            ARGV[1] stamp  [2] settings (see begin_call)  [3] free slots: spout index I4 and number i4 (MAILBOX_FULL:
            none, its mailbox is full) of each capped spout task, or ''
            [4] limits: flags B (1: spout tasks without a number may be among the inits), most early roots of the shard
            I4
            then per request: the set of its key's hash ('' without a key), the hash (even, decimal), the hash plus one
            (stored instead where an operation was refused), the place of each operation in the request, I4 each, from 0
            ('' if they are in the order of the request), its operations
    Output  {'ok', free slots left, per request '+' (applied) or '=' (replayed) and its codes} or {'stale', stamp}
  ]]
  local function apply_v2(key, base, args, store_full)
    local call = begin_call(key, base, args)
    call.free_slots, call.store_full = read_free_slots(args[3]), store_full
    call.flags, call.max_early = struct.unpack('>BI4', args[4])
    return apply(call, args, 5, 5)
  end

  -- As apply_v2, for replicas of the release before: without the limits and without the places of the operations. Acks
  -- and fails begin trees also in a full store, for those replicas call acker_apply_full_v1 for all that holds no init.
  local function apply_v1(key, base, args, store_full)
    local call = begin_call(key, base, args)
    call.free_slots, call.store_full = read_free_slots(args[3]), store_full
    call.flags = 0
    return apply(call, args, 4, 4)
  end

  local function with_memory(version)
    return function(key, base, args) return version(key, base, args, false) end
  end

  local function without_memory(version)
    return function(key, base, args) return version(key, base, args, true) end
  end

  -- Without allow-oom, so that Redis refuses the whole call when its memory is full.
  redis.register_function('acker_apply_v2', on_shard(with_memory(apply_v2)))
  redis.register_function('acker_apply_v1', on_shard(with_memory(apply_v1)))

  -- For a store that is full: every operation that would begin a tree gets store_full.
  register_on_shard('acker_apply_full_v2', without_memory(apply_v2))
  register_on_shard('acker_apply_full_v1', without_memory(apply_v1))
end

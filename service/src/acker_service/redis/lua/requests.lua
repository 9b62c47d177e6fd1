--[[
  A request is a list of operations (operations.lua) that is applied once.
]]

do
  -- rule: a conflict, a full cap, a full mailbox and a full store are remembered as refusals
  local INIT, REFUSED = 1, '[bcms]'
  local UNREGISTERED, UNKNOWN = 0xFFFFFFFF, 0xFFFFFFFE
  local REGISTERED, ASKED = 0, 2
  local SPOUTS_PER_CALL = 1000
  local LIMITS, LIMITS_BYTES = '>BI4I8I8I8', 29
  -- rule: roots begin up to nine tenths of what may be remembered, so that those that are pending can end
  local ROOTS_RATIO = 0.9
  -- A sum of what is remembered is written ahead by this part of what may be, and by so many bytes at most.
  local AHEAD_PART, MOST_AHEAD = 4096, 16384
  local MOST_LIMITS = 1024
  local limits_by_packed, known_limits = {}, 0

  -- Returns the position in the request, from 0, of the operation that is applied as the n-th, from 1.
  local function position_of(positions, n)
    -- rule: an operation is known by its position in the request
    return positions == '' and n - 1 or struct.unpack('>I4', positions, n * 4 - 3)
  end

  -- Packs which operations were refused: one bit each by position, lowest bit first, up to the last one refused.
  local function pack_refused(positions, codes)
    local bytes, n = {}, codes:find(REFUSED)
    while n do
      local position = position_of(positions, n)
      local at = math.floor(position / 8) + 1
      for i = #bytes + 1, at do bytes[i] = 0 end
      -- rule: each operation that was refused has a bit of its own
      bytes[at] = bytes[at] + 2 ^ (position % 8)
      n = codes:find(REFUSED, n + 1)
    end
    for i, byte in ipairs(bytes) do bytes[i] = string.char(byte) end
    return table.concat(bytes)
  end

  -- Whether the first run of a request refused the operation that is applied as the n-th.
  local function was_refused(request, n)
    if not request.refused then return false end
    local position = position_of(request.positions, n)
    local byte = request.refused:byte(math.floor(position / 8) + 1) or 0
    return bit.band(byte, 2 ^ (position % 8)) ~= 0
  end

  -- Whether a request was applied before. Then request.refused says which operations its first run refused, if any.
  local function was_applied(call, request)
    if request.set == '' then return false end
    -- rule: a repeat is looked for in both slices
    for slice = 0, 1 do
      local key = slice .. ':' .. request.set
      local found = redis.call('SMISMEMBER', call.base .. 's' .. key, request.hash, request.partial_hash)
      -- rule: a request in which an init was refused is a repeat, too
      if found[1] == 1 or found[2] == 1 then
        -- rule: it is remembered that something was refused
        if found[2] == 1 then request.refused = redis.call('HGET', call.base .. 'n' .. key, request.partial_hash) end
        return true
      end
    end
    return false
  end

  -- Remembers a request with a key that was answered with 200, also if it changed nothing: a repeat must not change anything
  -- either. Not so in a full store, where that would fill it further, and not a single operation that was refused.
  local function remember(call, request, codes)
    -- rule: what had no effect is remembered, but not in a full store
    if call.store_full and not call.changed then return end
    local refused = codes:find(REFUSED)
    -- rule: a single operation that was refused is not remembered
    if refused and request.partial_hash == '' then return end
    -- rule: a request with refusals is remembered as one
    local hash = refused and request.partial_hash or request.hash
    remember_request(call, request.set, hash, refused and pack_refused(request.positions, codes))
  end

  -- Answers an operation of a request that there is no room to remember.
  local function refuse(_, root)
    return root.state == 'F' and root.outcome or 's'
  end

  local function unpack_limits(packed)
    local limits = {}
    limits.spouts, limits.max_early, limits.max_early_bytes, limits.max_remembered, limits.max_remembered_if_full =
      struct.unpack(LIMITS, packed)
    if #packed > LIMITS_BYTES then limits.shards = (struct.unpack('>I4', packed, LIMITS_BYTES + 1)) end
    limits.max_remembered_for_roots = limits.max_remembered * ROOTS_RATIO
    limits.ahead = math.min(math.floor(limits.max_remembered / AHEAD_PART), MOST_AHEAD)
    return limits
  end

  -- Returns the limits of a call. Most calls have the same: to unpack them again takes as long as to read a key.
  local function read_limits(packed)
    local limits = limits_by_packed[packed]
    if limits then return limits end
    if known_limits >= MOST_LIMITS then limits_by_packed, known_limits = {}, 0 end
    limits_by_packed[packed], known_limits = unpack_limits(packed), known_limits + 1
    return limits_by_packed[packed]
  end

  local function read_free_slots(packed)
    if packed == '' then return false end
    local free_slots, pos = {}, 1
    while pos <= #packed do
      local spout, free
      spout, free, pos = struct.unpack('>I4i4', packed, pos)
      free_slots[spout] = free
    end
    return free_slots
  end

  -- Turns the caps that a call gives into free slots: takes off what is pending in all shards of the topology. One server
  -- has all of them, so no other call adds to it meanwhile.
  local function subtract_pending(call, key, shards)
    local prefix, name, spouts = key:match('^(.*/)%d+}$'), '}' .. call.base:sub(#key + 1) .. 'pending', {}
    for spout, free in pairs(call.free_slots) do
      if free ~= MAILBOX_FULL then spouts[#spouts + 1] = spout end
    end
    for from = 1, #spouts, SPOUTS_PER_CALL do
      local some = { unpack(spouts, from, math.min(from + SPOUTS_PER_CALL - 1, #spouts)) }
      -- rule: a cap counts what is pending in all shards
      for shard = 0, shards - 1 do
        for i, pending in ipairs(redis.call('HMGET', prefix .. shard .. name, unpack(some))) do
          -- rule: what is pending is taken off a cap
          call.free_slots[some[i]] = call.free_slots[some[i]] - (pending or 0)
        end
      end
    end
  end

  local function write_free_slots(free_slots)
    if not free_slots then return '' end
    local packed = {}
    for spout, free in pairs(free_slots) do packed[#packed + 1] = struct.pack('>I4i4', spout, free) end
    return table.concat(packed)
  end

  -- Answers a request that was applied before.
  local function replay(call, request)
    local n = 0
    -- rule: a repeat is answered as one
    return '=' .. run(call, function(_, root, op, kind)
      n = n + 1
      op.refused = was_refused(request, n)
      -- rule: a repeat is not applied
      return replay_operation(call, root, op, kind)
    end, request.ops)
  end

  -- Marks the inits for which the caller has to look again for their spout task, which was not registered when it
  -- looked: '?' has to be registered; '!' may be the one that the pending root belongs to, if it is registered by now.
  local function mark_unregistered(call, request)
    local replayed = was_applied(call, request)
    return run(call, function(_, root, op, kind)
      -- rule: a finished root needs no spout task
      if kind ~= INIT or op.spout < UNKNOWN or root.state == 'F' then return '.' end
      -- rule: a pending root may belong to a spout task that was registered meanwhile
      if root.state == 'P' then return op.spout == UNREGISTERED and not is_gone(call, root.spout) and '!' or '.' end
      -- rule: an init of an unknown root needs its spout task, but not in a repeat or where no root may begin
      return (replayed or call.store_full or not has_room_for_roots(call)) and '.' or '?'
    end, request.ops)
  end

  local function apply_once(call, request)
    if call.limits.spouts ~= REGISTERED then
      local marks = mark_unregistered(call, request)
      -- rule: neither a question nor what needs a spout task is applied
      if call.limits.spouts == ASKED or marks:find('[?!]') then return '?' .. marks end
    end
    -- rule: without a key nothing is remembered
    if request.set == '' then return '+' .. apply_operations(call, request.ops) end
    if was_applied(call, request) then return replay(call, request) end
    -- rule: a request that there is no room to remember is not applied
    if not has_room_for_requests(call) then return '+' .. run(call, refuse, request.ops) end
    -- rule: each request has its own effect
    call.changed = false
    local codes = apply_operations(call, request.ops)
    remember(call, request, codes)
    return '+' .. codes
  end

  --[[
    Applies requests, one after the other, in one atomic step.

    Input   KEYS[1] shard
            ARGV[1] stamp  [2] settings (see begin_call)  [3] free slots: spout index I4 and number i4 (MAILBOX_FULL:
            none, its mailbox is full) of each capped spout task, or ''
            [4] limits: B (0: all spout tasks of inits are registered; 1: some may have the index UNREGISTERED or, looked
            for again, UNKNOWN; 2: likewise, and nothing is applied), most early roots of the shard I4, most bytes that they
            take I8, that what is remembered takes I8, and that it takes in a full store I8, then, if [3] are caps of which
            what is pending is to be taken off, the number of shards I4: all on this server
            then per request: the set of its key's hash ('' without a key), the hash (even, decimal), the hash plus one
            (stored instead where an operation was refused; '' for a single operation), the position of each operation
            in the request, I4 each, from 0 ('' if they are in the order of the request), its operations
    Output  {'ok', free slots left, per request '+' (applied) or '=' (replayed) and its codes, or '?' (not applied) and
            its marks (mark_unregistered)} or {'stale', stamp}
  ]]
  local function apply(key, base, args, remembered, store_full)
    local call, reply = begin_call(key, base, args), { 'ok', '' }
    call.remembered, call.store_full = remembered, store_full
    call.limits, call.free_slots = read_limits(args[4]), read_free_slots(args[3])
    if call.free_slots and call.limits.shards then subtract_pending(call, key, call.limits.shards) end
    for i = 5, #args, 5 do
      reply[#reply + 1] = apply_once(call, { set = args[i], hash = args[i + 1], partial_hash = args[i + 2],
        positions = args[i + 3], ops = args[i + 4] })
    end
    write_remembered(call)
    commit(call)
    -- rule: the room that is left goes on to the next shard
    reply[2] = write_free_slots(call.free_slots)
    return reply
  end

  local function apply_with_memory(key, base, args, remembered)
    return apply(key, base, args, remembered, false)
  end

  local function apply_without_memory(key, base, args, remembered)
    -- rule: a call that Redis refuses for memory takes no inits
    return apply(key, base, args, remembered, true)
  end

  -- Without allow-oom, so that Redis refuses the whole call when its memory is full.
  -- rule: a call with inits is refused when memory is full
  redis.register_function('acker_apply_v2', on_shard(apply_with_memory, 'remembered'))

  -- For a store that is full: every operation that would begin a tree gets store_full.
  register('acker_apply_full_v2', on_shard(apply_without_memory, 'remembered'))
end

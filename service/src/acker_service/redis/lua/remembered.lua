--[[
  What is remembered so that nothing counts twice: acked edges, and requests with an idempotency key. Their hashes lie in
  sets, in slices of one window; a slice expires with the window after its own, whatever became of its roots. Whoever may
  ack can fill them, so what all of them take is bounded.

  What a set takes is an estimate from above: Redis keeps up to 512 numbers in eight bytes each, and more of them in a table
  (Valkey 9.1 takes 40 bytes for each there, Redis 7.0 up to 80).
  The sum of a slice stands in a key that expires with the last of its sets: so bytes are given back with what they count.
]]

local remember_edge, remember_request, has_room_for_edge, has_room_for_requests, has_room_for_roots, write_remembered

do
  -- Bytes of a set with its first number, of each further one, of each beyond the 512th, and of the bits of a request.
  local SET_BYTES, NUMBER_BYTES, MOST_NUMBERS, ENTRY_BYTES, BITS_BYTES = 224, 10, 512, 80, 224
  local TEXT_COST = 1.25
  -- rule: roots begin up to nine tenths of what may be remembered, so that those that are pending can end
  local ROOTS_RATIO = 0.9

  -- Returns what a set grew by with its newest number.
  local function growth_of(key)
    local numbers = redis.call('SCARD', key)
    -- rule: the first number of a set brings a key
    if numbers == 1 then return SET_BYTES end
    -- rule: a small set takes little for a number
    if numbers <= MOST_NUMBERS then return NUMBER_BYTES end
    -- rule: a set that becomes large takes more for all its numbers
    return numbers == MOST_NUMBERS + 1 and numbers * (ENTRY_BYTES - NUMBER_BYTES) or ENTRY_BYTES
  end

  -- Returns the bytes that all take that is remembered, with what this call remembered; reads them once.
  local function remembered_bytes(call)
    if not call.remembered_before then
      local before = 0
      for _, bytes in ipairs(redis.call('MGET', call.base .. 'edges0', call.base .. 'edges1', call.base .. 'requests0',
        call.base .. 'requests1')) do
        before = before + (tonumber(bytes) or 0)
      end
      call.remembered_before = before
    end
    -- rule: what a call remembers counts at once
    return call.remembered_before + call.edges_growth + call.requests_growth
  end

  function has_room_for_requests(call)
    -- rule: what requests take is bounded, with what edges take
    return remembered_bytes(call) < call.max_remembered
  end

  -- Whether there is room to remember an edge. For one of a pending root there is less in a full store: the root ends also
  -- without.
  function has_room_for_edge(call, is_pending)
    local most = is_pending and call.store_full and call.max_remembered_if_full or call.max_remembered
    -- rule: what edges take is bounded, with what requests take
    return remembered_bytes(call) < most
  end

  -- Whether a root may begin, whose acks are to be remembered, too.
  function has_room_for_roots(call)
    return remembered_bytes(call) < call.max_remembered * ROOTS_RATIO
  end

  -- Remembers an acked edge of a root that started at a time. Returns nil, or the code that answers its ack without effect: it
  -- is a duplicate, or there is no room. The start of the tree is mixed in, so that a root id that is used again has no acked
  -- edges. 53 bits: a number here holds no more exactly.
  function remember_edge(call, bucket, started, edge_high, edge_low, has_room)
    local low = bit.bxor(edge_low, started % 4294967296) % 4294967296
    local member = string.format('%.0f', bit.band(edge_high, 0x1FFFFF) * 4294967296 + low)
    local set = ':' .. bucket .. (edge_high < 2147483648 and '0' or '1')
    -- rule: an acked edge is remembered in the slice of now
    local slice = math.floor(call.now / call.dedupe_window) % 2
    local key = call.base .. 'p' .. slice .. set
    -- rule: an acked edge is looked for in the other slice
    if redis.call('SISMEMBER', call.base .. 'p' .. (1 - slice) .. set, member) == 1 then return 'd' end
    -- rule: where there is no room, an acked edge is looked for in the slice of now, too
    if not has_room then return redis.call('SISMEMBER', key, member) == 1 and 'd' or 's' end
    -- rule: an edge that is acked again in the slice of now is a duplicate
    if redis.call('SADD', key, member) == 0 then return 'd' end
    -- rule: an edge that is remembered counts among what is
    call.edges_growth = call.edges_growth + growth_of(key)
    -- rule: a slice of acked edges expires
    if expire_slice(call, key, call.dedupe_window) then call.edges_expiry_moved = true end
    return nil
  end

  -- Remembers a request by its hash, and with `refused` the bits that say what of it was refused.
  function remember_request(call, set, hash, refused)
    -- rule: requests lie in the slice of now
    local key = math.floor(call.now / call.idempotency_window) % 2 .. ':' .. set
    local hashes, bits = call.base .. 's' .. key, call.base .. 'n' .. key
    redis.call('SADD', hashes, hash)
    -- rule: a request that is remembered counts among what is
    call.requests_growth = call.requests_growth + growth_of(hashes)
    -- rule: a slice of remembered requests expires
    local is_moved = expire_slice(call, hashes, call.idempotency_window)
    if is_moved then call.requests_expiry_moved = true end
    if refused then
      -- rule: it is remembered which operations were refused
      redis.call('HSET', bits, hash, refused)
      -- rule: the bits of a request count among what is remembered
      call.requests_growth = call.requests_growth + BITS_BYTES + math.floor(#refused * TEXT_COST)
    end
    -- rule: what was refused is forgotten with its request
    if refused or is_moved then redis.call('PEXPIREAT', bits, redis.call('PEXPIRETIME', hashes)) end
  end

  local function write_growth(call, name, growth, window, is_moved)
    if growth == 0 then return end
    local key = call.base .. name .. math.floor(call.now / window) % 2
    -- rule: what a slice takes is forgotten with the last of it
    if redis.call('INCRBY', key, growth) == growth or is_moved then expire_slice(call, key, window) end
  end

  -- Writes what a call remembered more.
  function write_remembered(call)
    -- rule: what edges take is written
    write_growth(call, 'edges', call.edges_growth, call.dedupe_window, call.edges_expiry_moved)
    -- rule: what requests take is written
    write_growth(call, 'requests', call.requests_growth, call.idempotency_window, call.requests_expiry_moved)
  end
end

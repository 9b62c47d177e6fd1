--[[
  What is remembered so that nothing counts twice: ended edges, and requests with an idempotency key. Their hashes lie in
  sets, in slices of one window; a slice expires with the window after its own, whatever became of its roots. Whoever may
  ack can fill them, so what all of them take is bounded.

  What a set takes is an estimate from above: Redis keeps up to 512 numbers in eight bytes each, and more of them in a table
  (Valkey 9.1 takes 40 bytes for each there, Redis 7.0 up to 80).

  The key `remembered` has four sums, of edges and of requests in slice 0 and 1, big-endian: bytes I6, the end I6 of the
  last of its sets, and B: 1 if not all of its sets have this end; then when it was written, I6. A sum whose end is past
  counts nothing: so bytes are given back with what they count.

  To write it with every edge would add a tenth to an ack. So a sum is written with some bytes ahead, and the process of
  Redis keeps how many of them are left. They are lost if it ends, or if another one wrote the key: a sum is never too low.
]]

local remember_edge, remember_request, has_room_for_edge, has_room_for_requests, has_room_for_roots, write_remembered
local read_remembered

do
  local SUMS, FIELDS = '>I6I6BI6I6BI6I6BI6I6BI6', 3
  local EDGES, REQUESTS, LAST = 0, 2, 3  -- numbers of the sums: of slice 0 each, and of the last
  -- Bytes of a set with its first number, of each further one, of each beyond the 512th, and of the bits of a request.
  local SET_BYTES, NUMBER_BYTES, MOST_NUMBERS, ENTRY_BYTES, BITS_BYTES = 224, 10, 512, 80, 224
  local TEXT_COST = 1.25
  local NO_SUMS = ('\0'):rep(58)
  -- By the prefix of a shard's keys: its sums as this process read or wrote them last.
  local known_by_base, known_shards = {}, 0

  -- Returns what a set grew by with its newest number.
  local function growth_of(numbers)
    -- rule: the first number of a set brings a key
    if numbers == 1 then return SET_BYTES end
    -- rule: a small set takes little for a number
    if numbers <= MOST_NUMBERS then return NUMBER_BYTES end
    -- rule: a set that becomes large takes more for all its numbers
    return numbers == MOST_NUMBERS + 1 and numbers * (ENTRY_BYTES - NUMBER_BYTES) or ENTRY_BYTES
  end

  local function keep(call, known)
    if not known_by_base[call.base] then
      if known_shards >= MOST_SHARDS then known_by_base, known_shards = {}, 0 end
      known_shards = known_shards + 1
    end
    known_by_base[call.base] = known
    return known
  end

  -- Returns the sums that a key held, and the bytes of all of them.
  local function unpack_sums(packed, now)
    local sums, bytes = { struct.unpack(SUMS, packed or NO_SUMS) }, 0
    for at = 1, LAST * FIELDS + 1, FIELDS do
      -- rule: what a slice takes is forgotten with the last of it
      if sums[at + 1] < now then sums[at], sums[at + 1], sums[at + 2] = 0, 0, 0 end
      bytes = bytes + sums[at]
    end
    return sums, bytes
  end

  -- Reads the sums from what their key held. Of those that this process wrote last, what is left ahead stays.
  local function read_sums(call, known)
    local is_same, first_end, ahead = known and known.written == call.remembered, math.huge, {}
    local sums, bytes = unpack_sums(call.remembered, call.now)
    for number = 0, LAST do
      local stop = sums[number * FIELDS + 2]
      if stop > 0 then first_end = math.min(first_end, stop) end
      -- rule: what is left of a sum is there only while the key is as this process wrote it
      ahead[number] = is_same and stop > 0 and known.ahead[number] or 0
    end
    return { written = call.remembered, sums = sums, ahead = ahead, bytes = bytes, first_end = first_end }
  end

  -- Returns the sums of a shard; their bytes are those that all take that is remembered, with what this call remembered.
  local function sums_of(call)
    local known = call.known_sums
    if known then return known end
    known = known_by_base[call.base]
    -- rule: the sums are read anew if another process wrote them, or one of them ended
    if not known or known.written ~= call.remembered or call.now > known.first_end then
      known = keep(call, read_sums(call, known))
    end
    call.known_sums = known
    return known
  end

  -- Notes that the sums have to be written. Until they are, nothing of them is known to a later call.
  local function note_change(call, known)
    call.has_new_sums, known.written = true, nil
  end

  -- Adds to a sum.
  local function add(call, number, bytes)
    local known, at = sums_of(call), number * FIELDS + 1
    local left = known.ahead[number]
    -- rule: what was written ahead is used up first
    if left >= bytes then
      known.ahead[number] = left - bytes
      return
    end
    local further = call.limits.ahead
    known.ahead[number] = left + further
    -- rule: what a call remembers counts at once
    known.sums[at], known.bytes = known.sums[at] + bytes + further, known.bytes + bytes + further
    note_change(call, known)
  end

  -- Whether there is room to remember a request. Beyond maxmemory there is less; but not before, in a store that is full:
  -- a request that is not remembered is not applied, and pending roots have to end.
  function has_room_for_requests(call)
    local known, limits = sums_of(call), call.limits
    -- rule: what requests take is bounded, with what edges take
    if known.bytes >= limits.max_remembered then return false end
    if not call.store_full or not is_memory_spent(call) then return true end
    local taken = known.sums[REQUESTS * FIELDS + 1] + known.sums[LAST * FIELDS + 1]
    -- rule: where Redis uses all that it may, requests take less
    return taken < limits.max_remembered_if_full
  end

  -- Whether there is room to remember an edge. For one of a pending root there is less in a full store: the root ends also
  -- without.
  function has_room_for_edge(call, is_pending)
    local limits = call.limits
    local most = is_pending and call.store_full and limits.max_remembered_if_full or limits.max_remembered
    -- rule: what edges take is bounded, with what requests take
    return sums_of(call).bytes < most
  end

  -- Whether a root may begin, whose acks are to be remembered, too.
  function has_room_for_roots(call)
    return sums_of(call).bytes < call.limits.max_remembered_for_roots
  end

  -- Notes when a slice ends, and that not all of its sets do if some were written under another window.
  local function note_end(call, known, number, stop)
    local sums, at = known.sums, number * FIELDS + 1
    if sums[at + 1] == stop or sums[at + 1] > stop and sums[at + 2] == 1 then return end
    -- rule: it is noted that sets of a slice have another end
    if sums[at + 1] > 0 then sums[at + 2] = 1 end
    -- rule: a sum lasts as long as the last of what it counts
    if stop > sums[at + 1] then sums[at + 1], call.ends_later = stop, true end
    known.first_end = math.min(known.first_end, stop)
    note_change(call, known)
  end

  -- Makes a set expire at the end of the window after its slice. One that was written under a longer window keeps its later
  -- end; one that was written under a shorter window gets the later end of this one. Returns whether the end moved.
  local function expire_set(call, number, key, numbers, window)
    -- rule: a slice ends with the window after its own
    local stop = (math.floor(call.now / window) + 2) * window - 1
    local known = sums_of(call)
    note_end(call, known, number, stop)
    -- rule: a set that has the end of its slice keeps it
    if numbers > 1 and known.sums[number * FIELDS + 3] == 0 then return false end
    -- rule: a slice keeps its later end, and gets the later end of a longer window
    if numbers > 1 and redis.call('PEXPIRETIME', key) >= call.now + window then return false end
    redis.call('PEXPIREAT', key, stop)
    return true
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
    local numbers = redis.call('SCARD', key)
    -- rule: a slice of ended edges expires
    expire_set(call, EDGES + slice, key, numbers, call.dedupe_window)
    -- rule: an edge that is remembered counts among what is
    add(call, EDGES + slice, growth_of(numbers))
    return nil
  end

  -- Remembers a request by its hash, and with `refused` the bits that say what of it was refused.
  function remember_request(call, set, hash, refused)
    -- rule: requests lie in the slice of now
    local slice = math.floor(call.now / call.idempotency_window) % 2
    local key, number = slice .. ':' .. set, REQUESTS + slice
    local hashes, bits = call.base .. 's' .. key, call.base .. 'n' .. key
    redis.call('SADD', hashes, hash)
    local numbers = redis.call('SCARD', hashes)
    -- rule: a slice of remembered requests expires
    local is_moved = expire_set(call, number, hashes, numbers, call.idempotency_window)
    -- rule: a request that is remembered counts among what is
    add(call, number, growth_of(numbers))
    if refused then
      -- rule: it is remembered which operations were refused
      redis.call('HSET', bits, hash, refused)
      -- rule: the bits of a request count among what is remembered
      add(call, number, BITS_BYTES + math.floor(#refused * TEXT_COST))
    end
    -- rule: what was refused is forgotten with its request
    if refused or is_moved and numbers > 1 then redis.call('PEXPIREAT', bits, redis.call('PEXPIRETIME', hashes)) end
  end

  -- Reads the bytes that all take that is remembered.
  function read_remembered(base)
    local _, bytes = unpack_sums(redis.call('GET', base .. 'remembered'), clock())
    return bytes
  end

  -- Writes what a call remembered more.
  function write_remembered(call)
    if not call.has_new_sums then return end
    local known, key = call.known_sums, call.base .. 'remembered'
    local sums = known.sums
    sums[13] = call.now
    known.written = struct.pack(SUMS, unpack(sums, 1, 13))
    if call.ends_later then
      -- rule: the sums are kept as long as the last of what they count
      redis.call('SET', key, known.written, 'PXAT', math.max(sums[2], sums[5], sums[8], sums[11]))
    else
      -- rule: the sums are written
      redis.call('SET', key, known.written, 'KEEPTTL')
    end
  end
end

--[[
  Writes the last failures of a shard: its roots that failed or timed out, in the order in which they ended.

  They lie in a ring of strings, failures0 to failures8. Failure number n belongs to chunk n / size, which is string chunk
  % 9: to begin a chunk replaces the oldest string. A string expires a day after its last write. The first failure that a
  chunk has counts as the first of its numbers, and the others are counted from there. The last numbers of a chunk stay
  unused where it took as many bytes as it may. The fields of counts `listed` and `chunk` are the next number, and the
  bytes that the chunk of the one before took.

  A chunk is a sequence of runs; a run holds failures of one call that have outcome, component and spout task in common:
  spout index I4, number of failures I2, bytes of the completions I4, length of the kind B, the kind, the completions
  (completions.lua). The kind is the outcome, F or T, and then the name of the component, if there is one.
]]

local FAILURE_CHUNKS, FAILURE_RUN = 9, '>I4I2I4B'

local failures_of, write_failures, component_of_failure, chunk_size_of

do
  local DAY_MS, MAX_COMPONENTS = 86400000, 50
  -- The most bytes of a list of so many failures, and their part of maxmemory. Redis reserves up to twice as many.
  local LIST_BYTES, LIST_RATIO, LIST_FAILURES = 33554432, 0.01, 10000
  local RUN_BYTES = 11

  -- Returns the list to which a failure of a spout task and a kind is appended, as a packed completion.
  function failures_of(call, spout, kind)
    local by_kind = call.failures_by_spout[spout] or {}
    call.failures_by_spout[spout] = by_kind
    -- rule: failures of one call, spout task and kind are one run
    local list = by_kind[kind]
    if not list then
      list = {}
      by_kind[kind] = list
      call.failures[#call.failures + 1] = { spout = spout, kind = kind, list = list }
    end
    return list
  end

  -- Returns the component of a packed failure (pack_failure); '' if it has none.
  function component_of_failure(failure)
    local flags = failure:byte()
    if flags < 16 then return '' end
    -- rule: the component of a failure needs no reason
    if flags % 16 < 8 then return failure:sub(4) end
    local high, low = failure:byte(2, 3)
    -- rule: the component of a failure stands behind its reason
    return failure:sub(6 + high * 256 + low)
  end

  function chunk_size_of(call)
    return math.ceil(call.max_failures / (FAILURE_CHUNKS - 1))
  end

  -- Returns the most bytes of a chunk.
  local function chunk_bytes_of(call)
    local limit = read_maxmemory(call)
    -- rule: the list takes less where maxmemory is little
    local most = limit > 0 and math.min(LIST_BYTES, limit * LIST_RATIO) or LIST_BYTES
    -- rule: each chunk takes an equal part of the bytes of the list
    return most * call.max_failures / LIST_FAILURES / FAILURE_CHUNKS
  end

  local function chunk_key(call, number)
    return call.base .. 'failures' .. math.floor(number / chunk_size_of(call)) % FAILURE_CHUNKS
  end

  -- Writes a run. Returns its bytes.
  local function write_run(call, group, first, last, number, begins)
    local packed = table.concat(group.list, '', first, last)
    local run = struct.pack(FAILURE_RUN, group.spout, last - first + 1, #packed, #group.kind) .. group.kind .. packed
    local key = chunk_key(call, number)
    if begins then
      redis.call('SET', key, run, 'PXAT', call.now + DAY_MS)
    else
      redis.call('APPEND', key, run)
      -- rule: a chunk of failures ends a day after its last write
      redis.call('PEXPIREAT', key, call.now + DAY_MS)
    end
    return #run
  end

  -- Returns the last one, from the first to the last of a group, for which there is room behind the first.
  local function last_with_room(group, first, last, room)
    room = room - RUN_BYTES - #group.kind - #group.list[first]
    for i = first + 1, last do
      room = room - #group.list[i]
      -- rule: a run keeps within the bytes of its chunk
      if room < 0 then return i - 1 end
    end
    return last
  end

  -- Counts failures by kind. A shard counts at most so many components by name; later ones count as `other`. The field
  -- + and a component is the time of its first failure, and n the number of such fields.
  local function count_kind(call, kind, times)
    local key = call.base .. 'failed'
    if redis.call('HINCRBY', key, kind, times) ~= times or #kind == 1 then return end
    local component = kind:sub(2)
    -- rule: a component is admitted once
    if redis.call('HGET', key, '+' .. component) then return end
    local known = tonumber(redis.call('HGET', key, 'n') or 0)
    -- rule: components are counted by name up to a bound
    if known < MAX_COMPONENTS then
      redis.call('HSET', key, 'n', known + 1, '+' .. component, call.now)
    else
      redis.call('HDEL', key, kind)
      -- rule: failures beyond the bound are counted without a name
      redis.call('HINCRBY', key, kind:sub(1, 1) .. 'other', times)
    end
  end

  -- Writes the failures of a call: of more than the list holds, the last ones.
  function write_failures(call)
    if #collected(call, 'failures') == 0 then return end
    local total = 0
    for _, group in ipairs(call.failures) do
      total = total + #group.list
      -- rule: every failure is counted
      count_kind(call, group.kind, #group.list)
    end
    local counts, size, most = call.base .. 'counts', chunk_size_of(call), chunk_bytes_of(call)
    local found = redis.call('HMGET', counts, 'listed', 'chunk')
    local number, taken = tonumber(found[1] or 0), tonumber(found[2] or 0)
    -- rule: what would be replaced at once is not written
    local skipped = math.max(total - call.max_failures, 0)
    -- rule: what replaces all of the list begins a chunk
    if skipped > 0 then taken = 0 end
    -- rule: a chunk that has expired is followed by the next
    if taken > 0 and redis.call('EXISTS', chunk_key(call, number - 1)) == 0 then taken = 0 end
    for _, group in ipairs(call.failures) do
      local first = math.min(skipped, #group.list) + 1
      skipped = skipped - first + 1
      while first <= #group.list do
        -- rule: a chunk without a failure, or with as many or as many bytes as it may have, is followed by the next
        if number % size == 0 or taken == 0 or taken + RUN_BYTES + #group.kind + #group.list[first] > most then
          number, taken = math.ceil(number / size) * size, 0
        end
        -- rule: a run keeps within its chunk
        local last = math.min(first + size - number % size - 1, #group.list)
        last = last_with_room(group, first, last, most - taken)
        -- rule: a chunk of failures is begun empty
        taken = taken + write_run(call, group, first, last, number, taken == 0)
        number, first = number + last - first + 1, last + 1
      end
    end
    redis.call('HSET', counts, 'listed', number, 'chunk', taken)
  end
end

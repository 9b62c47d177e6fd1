--[[
  Writes the last failures of a shard: its roots that failed or timed out, in the order in which they ended.

  They lie in a ring of strings, failures0 to failures8. Failure number n, counted from 0 over all failures of the shard,
  belongs to chunk n / size, which is string chunk % 9: to begin a chunk replaces the oldest string. A string expires a
  day after its last write. The field `listed` of counts is the number of all failures. So the last failure of a chunk has
  a known number, and those before it are counted from there: the first ones of a chunk may be missing.

  A chunk is a sequence of runs; a run holds failures of one call that have outcome, component and spout task in common:
  spout index I4, number of failures I2, bytes of the completions I4, length of the kind B, the kind, the completions
  (completions.lua). The kind is the outcome, F or T, and then the name of the component, if there is one.
]]

local FAILURE_CHUNKS, FAILURE_RUN = 9, '>I4I2I4B'

local failures_of, write_failures, component_of_failure, chunk_size_of

do
  local DAY_MS, MAX_COMPONENTS = 86400000, 50

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

  local function write_run(call, group, first, last, number, begins)
    local packed = table.concat(group.list, '', first, last)
    local run = struct.pack(FAILURE_RUN, group.spout, last - first + 1, #packed, #group.kind) .. group.kind .. packed
    local key = call.base .. 'failures' .. math.floor(number / chunk_size_of(call)) % FAILURE_CHUNKS
    if begins then
      redis.call('SET', key, run, 'PXAT', call.now + DAY_MS)
    else
      redis.call('APPEND', key, run)
      -- rule: a chunk of failures ends a day after its last write
      redis.call('PEXPIREAT', key, call.now + DAY_MS)
    end
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

  -- Writes the failures of a call, but not those that would be replaced at once: then the first chunk is begun.
  function write_failures(call)
    if #collected(call, 'failures') == 0 then return end
    local total = 0
    for _, group in ipairs(call.failures) do
      total = total + #group.list
      -- rule: every failure is counted
      count_kind(call, group.kind, #group.list)
    end
    local number, size = redis.call('HINCRBY', call.base .. 'counts', 'listed', total) - total, chunk_size_of(call)
    -- rule: what would be replaced at once is not written
    local skipped = math.max(total - call.max_failures, 0)
    -- rule: what replaces all of the list begins a chunk
    local begins = skipped > 0
    number = number + skipped
    for _, group in ipairs(call.failures) do
      local first = math.min(skipped, #group.list) + 1
      skipped = skipped - first + 1
      while first <= #group.list do
        -- rule: a run keeps within its chunk
        local last = math.min(first + size - number % size - 1, #group.list)
        -- rule: a chunk of failures is begun empty
        write_run(call, group, first, last, number, begins or number % size == 0)
        begins, number, first = false, number + last - first + 1, last + 1
      end
    end
  end
end

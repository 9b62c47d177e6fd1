--[[
  Reads the list of failures (failures.lua).
]]

do
  -- Returns the number behind the last failure, and the lowest number that the list still has.
  local function bounds(call)
    local listed = tonumber(redis.call('HGET', call.base .. 'counts', 'listed') or 0)
    -- rule: the list holds as many failures as it may
    return listed, math.max(listed - call.max_failures, 0)
  end

  local function read_chunk(call, chunk)
    return redis.call('GET', call.base .. 'failures' .. chunk % FAILURE_CHUNKS)
  end

  --[[
    Reads the chunk of the newest failure before a number.

    Input   KEYS[1] shard; ARGV[1] stamp  [2] settings  [3] number
    Output  {'ok', now, lowest number in the list, number of the first failure of the chunk, number behind its last
            one, the chunk, '' if it is empty or has expired}
  ]]
  local function read_failures(key, base, args)
    local call = begin_call(key, base, args)
    local listed, lowest = bounds(call)
    local before, size = math.min(tonumber(args[3]), listed), chunk_size_of(call)
    if before <= lowest then return { 'ok', call.now, lowest, 0, 0, '' } end
    local chunk = math.floor((before - 1) / size)
    return { 'ok', call.now, lowest, chunk * size, math.min(listed, chunk * size + size), read_chunk(call, chunk) or '' }
  end

  -- Returns the last failure of a root in a chunk as a run of its own; nil if the chunk has none.
  local function last_of_root(packed, root_id)
    local found, at = nil, 1
    local hit = packed:find(root_id, 1, true)
    while hit and at <= #packed do
      local spout, n, size, kind_size, body = struct.unpack(FAILURE_RUN, packed, at)
      local kind = packed:sub(body, body + kind_size - 1)
      at, body = body + kind_size + size, body + kind_size
      while hit and hit < at and body < at do
        local stop = skip_completions(packed, body, 1)
        -- rule: a root's newest failure is found by the id, and not by a text that contains it
        if packed:sub(body, body + 7) == root_id then
          found = struct.pack(FAILURE_RUN, spout, 1, stop - body, kind_size) .. kind .. packed:sub(body, stop - 1)
        end
        body = stop
      end
      if hit < at then hit = packed:find(root_id, at, true) end
    end
    return found
  end

  --[[
    Finds the newest failure of a root in one chunk, that of the newest failure before a number: to look through the
    whole list would keep all others waiting.

    Input   KEYS[1] shard; ARGV[1] stamp  [2] settings  [3] root id  [4] number
    Output  {'ok', the failure as a run of its own, or '', number to go on before, 0 if there are no more}
  ]]
  local function find_failure(key, base, args)
    local call = begin_call(key, base, args)
    local listed, lowest = bounds(call)
    local before, size = math.min(tonumber(args[4]), listed), chunk_size_of(call)
    if before <= lowest then return { 'ok', '', 0 } end
    local chunk = math.floor((before - 1) / size)
    local packed = read_chunk(call, chunk)
    -- rule: behind a chunk that has expired there is none
    if not packed then return { 'ok', '', 0 } end
    -- rule: the failure of a root is looked for in a chunk, and then in the one before
    return { 'ok', last_of_root(packed, args[3]) or '', chunk * size > lowest and chunk * size or 0 }
  end

  register_on_shard('acker_failures_v1', read_failures)
  register_on_shard('acker_find_failure_v2', find_failure)
end

--[[
  The trace of a root: the operations that changed it, one after the other, so that its tree can be shown.

    trace:<root id>  string  the entries; TTL: the time to live of a trace, from its last entry on
    traces           zset    root id -> time of the first entry of its trace, or of a later one
    acked            zset    root id -> time at which the root was acked: these traces are removed first
    traced           hash    root id -> bytes of its entries, and CUT more where entries are missing; '' -> bytes that all
                             traces of the shard take, about

  The entries of one call on a root are written at once.

  An entry, big-endian: kind B (that of the operation, or 5: the end), at I5 (milliseconds since 2020-01-01), flags B; of
  an init or an ack its ack val 2 x i4 and outstanding i4; of an init the spout index I4; of an end the outcome c1; then
  by flags: 1 outstanding unknown; 2 text, length I2 and bytes (message id, or reason); 4 component, likewise; 8 hash of
  root and edge, 2 x I4; 16 names of edges, their number I2 and 8 bytes each; 32 earlier operations are missing.
]]

local begin_trace, decide_trace, note_operation, pack_entry, write_trace, write_traces
local drop_trace, drop_traces, read_trace

do
  local INIT, ACK, FAIL, END = 1, 2, 3, 5
  local UNKNOWN_OUTSTANDING, TEXT, COMPONENT, EDGE, NAMES, IS_LATE = 1, 2, 4, 8, 16, 32
  local CHANGED = { p = true, a = true, e = true, f = true }
  local MAX_ROOT_BYTES = 262144
  local CUT = 1099511627776
  local ROOT_COST = 500  -- bytes that a trace takes besides its entries, about
  local BYTE_COST = 2    -- Redis reserves up to the length of a string that grows
  local DROPPED_PER_CALL = 16

  -- Gives the bytes of a trace, nil without one, and whether entries are missing.
  local function read_bytes(base, root_id)
    local stored = redis.call('HGET', base .. 'traced', root_id)
    if not stored then return nil, false end
    local bytes = tonumber(stored)
    return bytes % CUT, bytes >= CUT
  end

  function drop_trace(base, root_id)
    local bytes = read_bytes(base, root_id)
    if not bytes then return end
    redis.call('UNLINK', base .. 'trace:' .. root_id)
    redis.call('ZREM', base .. 'traces', root_id)
    redis.call('ZREM', base .. 'acked', root_id)
    redis.call('HDEL', base .. 'traced', root_id)
    redis.call('HINCRBY', base .. 'traced', '', -bytes * BYTE_COST - ROOT_COST)
  end

  -- Removes so many of the first traces of a zset at most. Gives how many it removed.
  local function drop_first(base, name, limit)
    local roots = redis.call('ZRANGE', base .. name, 0, limit - 1)
    for _, root_id in ipairs(roots) do drop_trace(base, root_id) end
    return #roots
  end

  -- Removes so many traces at most, whatever their time. Gives how many it removed.
  function drop_traces(base, limit)
    return drop_first(base, 'traces', limit)
  end

  -- Removes traces whose time has passed, so that their space can be used.
  local function drop_expired(call)
    local name, before = call.base .. 'traces', string.format('(%.0f', call.now - call.trace_ttl)
    for _, root_id in ipairs(redis.call('ZRANGE', name, '-inf', before, 'BYSCORE', 'LIMIT', 0, DROPPED_PER_CALL)) do
      local expiry = redis.call('PEXPIRETIME', call.base .. 'trace:' .. root_id)
      if expiry > call.now then
        redis.call('ZADD', name, expiry - call.trace_ttl, root_id)
      else
        drop_trace(call.base, root_id)
      end
    end
  end

  -- Whether the traces of the shard may grow by so many bytes; removes traces of acked roots for that.
  local function has_space(call, cost)
    if call.store_full then return false end
    local function total()
      return tonumber(redis.call('HGET', call.base .. 'traced', '') or 0) + call.traces_growth
    end
    call.traces_total = call.traces_total or total()
    if call.traces_total + cost <= call.trace_max then return true end
    drop_first(call.base, 'acked', DROPPED_PER_CALL)
    call.traces_total = total()
    return call.traces_total + cost <= call.trace_max
  end

  -- Gives as many of the entries, from the first one on, as there is space for behind so many bytes of the trace.
  local function take(call, entries, bytes, root_cost)
    local taken = ''
    for _, entry in ipairs(entries) do
      local size = #taken + #entry
      if bytes + size > MAX_ROOT_BYTES or not has_space(call, size * BYTE_COST + root_cost) then return taken end
      taken = taken .. entry
    end
    return taken
  end

  local function expire(call, name)
    redis.call('PEXPIREAT', call.base .. name, call.now + call.trace_ttl)
  end

  -- Appends entries to the trace of a root, unless that has reached a bound: then entries are missing from then on. Only
  -- the first operation on a root, which `begins` marks, begins a trace. Gives whether there is one.
  local function append(call, root_id, entries, begins)
    if not call.traces_growth then
      call.traces_growth = 0
      drop_expired(call)
    end
    local traced, added = call.base .. 'traced', table.concat(entries)
    local bytes = redis.call('HINCRBY', traced, root_id, #added) - #added
    if bytes == 0 and not begins then
      redis.call('HDEL', traced, root_id)
      return false
    end
    local root_cost, lost = begins and ROOT_COST or 0, 0
    if bytes >= CUT then
      added, lost = '', #added
    elseif bytes + #added > MAX_ROOT_BYTES or not has_space(call, #added * BYTE_COST + root_cost) then
      local taken = take(call, entries, bytes, root_cost)
      added, lost = taken, #added - #taken - CUT
    end
    if lost ~= 0 then redis.call('HINCRBY', traced, root_id, -lost) end
    if added == '' then
      if begins then redis.call('HDEL', traced, root_id) end
      return not begins
    end
    local name, cost = 'trace:' .. root_id, #added * BYTE_COST + root_cost
    redis.call('APPEND', call.base .. name, added)
    expire(call, name)
    if begins then redis.call('ZADD', call.base .. 'traces', call.now, root_id) end
    call.traces_growth, call.traces_total = call.traces_growth + cost, call.traces_total + cost
    return true
  end

  local function pack_text(text)
    return text and struct.pack('>I2', #text) .. text or ''
  end

  -- Packs an operation as an entry.
  function pack_entry(call, op, kind)
    local flags, values = 0, ''
    if kind ~= FAIL then values = struct.pack('>i4i4i4', op.high, op.low, op.outstanding or 0) end
    if kind == INIT then values = values .. struct.pack('>I4', op.spout) end
    if kind ~= FAIL and not op.outstanding then flags = flags + UNKNOWN_OUTSTANDING end
    if op.text then flags = flags + TEXT end
    if op.component then flags = flags + COMPONENT end
    if op.edge_high then flags = flags + EDGE end
    if op.names then flags = flags + NAMES end
    if op.is_late then flags = flags + IS_LATE end
    return struct.pack('>BI5B', kind, call.now - EPOCH, flags) .. values .. pack_text(op.text) .. pack_text(op.component)
      .. (op.edge_high and struct.pack('>I4I4', op.edge_high, op.edge_low) or '')
      .. (op.names and struct.pack('>I2', #op.names / 8) .. op.names or '')
  end

  -- Decides with the first operation on a root whether that is traced until its init has come: the operation says it
  -- for a root of the sample, and an id for a root that is traced by hand. A trace of an earlier root of this id is removed.
  function begin_trace(call, root, op)
    root.traced = call.tracked ~= 0 and (op.traced or root.id:sub(7) == '\0\0')
    root.begins_trace, root.entries = root.traced, nil
    if root.traced then drop_trace(call.base, root.id) end
  end

  -- Decides with the init of a root whether that is traced. A trace that began for nothing is removed.
  function decide_trace(call, root, op, is_new)
    local was_traced, is_traced = root.traced, op.traced
    op.is_late = is_traced and not was_traced and not is_new
    if was_traced ~= is_traced then
      drop_trace(call.base, root.id)
      root.begins_trace, root.entries = is_traced, nil
    end
    root.traced = is_traced
  end

  -- Notes an operation on a traced root, if it changed the root.
  function note_operation(call, root, op, kind, code)
    if kind > FAIL or not CHANGED[code] or kind == ACK and op.high == 0 and op.low == 0 then return end
    root.entries = root.entries or {}
    root.entries[#root.entries + 1] = pack_entry(call, op, kind)
  end

  -- Writes what a call noted of a traced root, and the outcome that the root has with it, if it has one.
  function write_trace(call, root_id, entries, begins, outcome)
    entries = entries or {}
    if outcome then entries[#entries + 1] = struct.pack('>BI5Bc1', END, call.now - EPOCH, 0, outcome) end
    if #entries == 0 or not append(call, root_id, entries, begins) or outcome ~= 'A' then return end
    redis.call('ZADD', call.base .. 'acked', call.now, root_id)
    call.has_acked_traces = true
  end

  -- Writes what all traces of the shard take after a call.
  function write_traces(call)
    if not call.traces_growth or call.traces_growth == 0 then return end
    redis.call('HINCRBY', call.base .. 'traced', '', call.traces_growth)
    expire(call, 'traced')
    expire(call, 'traces')
    if call.has_acked_traces then expire(call, 'acked') end
  end

  -- Gives the entries of a trace, and 1 if some are missing, else 0.
  function read_trace(base, root_id)
    local _, is_cut = read_bytes(base, root_id)
    return redis.call('GET', base .. 'trace:' .. root_id) or '', is_cut and 1 or 0
  end
end

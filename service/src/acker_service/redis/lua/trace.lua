--[[
  The trace of a root: the operations that changed it, one after the other, so that its tree can be shown.

    trace:<root id>  string  the entries; TTL: the time to live of a trace, from its last entry on
    traces           zset    root id -> time of the last entry of its trace
    acked            zset    root id -> time at which the root was acked: these traces are removed first
    traced           hash    root id -> bytes of its entries, with '+' behind where entries are missing; '' -> bytes that
                             all traces of the shard take, about

  An entry, big-endian: kind B (that of the operation, or 5: the end), at I5 (milliseconds since 2020-01-01), flags B; of
  an init or an ack its ack val 2 x i4 and outstanding i4; of an init the spout index I4; of an end the outcome c1; then
  by flags: 1 outstanding unknown; 2 text, length I2 and bytes (message id, or reason); 4 component, likewise; 8 hash of
  root and edge, 2 x I4; 16 names of edges, their number I2 and 8 bytes each; 32 earlier operations are missing.
]]

local is_sampled, begin_trace, decide_trace, note_operation, note_end, drop_trace, drop_traces, read_trace

do
  local INIT, ACK, FAIL, END = 1, 2, 3, 5
  local UNKNOWN_OUTSTANDING, TEXT, COMPONENT, EDGE, NAMES, IS_LATE = 1, 2, 4, 8, 16, 32
  local CHANGED = { p = true, a = true, e = true, f = true }
  local MULTIPLIER = 2654435761
  local MAX_ROOT_BYTES = 262144
  local ROOT_COST = 500  -- bytes that a trace takes besides its entries, about
  local BYTE_COST = 2    -- Redis reserves up to the length of a string that grows
  local DROPPED_PER_CALL = 16

  -- Hashes a root id into 32 bits, as acker_protocol/tracing.py does. A product of 64 bits is no exact number here.
  local function sample(root_id)
    local high, low = struct.unpack('>I4I4', root_id)
    local mixed = bit.bxor(high, low) % 4294967296
    local low_half, high_half = mixed % 65536, math.floor(mixed / 65536)
    return (low_half * MULTIPLIER + high_half * MULTIPLIER % 65536 * 65536) % 4294967296
  end

  -- Whether a root is in the share that its topology traces.
  function is_sampled(call, root_id)
    return call.trace_threshold > 0 and sample(root_id) < call.trace_threshold
  end

  -- Gives the bytes of a trace, nil without one, and whether entries are missing.
  local function read_bytes(base, root_id)
    local stored = redis.call('HGET', base .. 'traced', root_id)
    if not stored then return nil, false end
    return tonumber((stored:gsub('%+', ''))), stored:sub(-1) == '+'
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

  -- Removes traces of a zset whose time is before a moment, so many at most. Gives how many it removed.
  local function drop_some(base, name, before, limit)
    local roots = redis.call('ZRANGE', base .. name, '-inf', '(' .. before, 'BYSCORE', 'LIMIT', 0, limit)
    for _, root_id in ipairs(roots) do drop_trace(base, root_id) end
    return #roots
  end

  -- Removes so many traces at most, whatever their time. Gives how many it removed.
  function drop_traces(base, limit)
    return drop_some(base, 'traces', '+inf', limit)
  end

  -- Whether the traces of the shard may grow by so many bytes; removes traces of acked roots for that.
  local function has_space(call, cost)
    if call.store_full then return false end
    local function total() return tonumber(redis.call('HGET', call.base .. 'traced', '') or 0) end
    if total() + cost <= call.trace_max then return true end
    drop_some(call.base, 'acked', '+inf', DROPPED_PER_CALL)
    return total() + cost <= call.trace_max
  end

  local function expire(call, name)
    redis.call('PEXPIREAT', call.base .. name, call.now + call.trace_ttl)
  end

  local function write(call, root_id, bytes, entry)
    redis.call('APPEND', call.base .. 'trace:' .. root_id, entry)
    redis.call('ZADD', call.base .. 'traces', call.now, root_id)
    redis.call('HSET', call.base .. 'traced', root_id, string.format('%.0f', (bytes or 0) + #entry))
    redis.call('HINCRBY', call.base .. 'traced', '', #entry * BYTE_COST + (bytes and 0 or ROOT_COST))
    for _, name in ipairs({ 'trace:' .. root_id, 'traces', 'traced' }) do expire(call, name) end
  end

  -- Appends an entry to a trace, unless that has reached a bound: then entries are missing from then on. Only the first
  -- entry of a root, which `may_begin` marks, begins a trace.
  local function append(call, root_id, entry, may_begin)
    if not call.has_dropped_traces then
      call.has_dropped_traces = true
      drop_some(call.base, 'traces', string.format('%.0f', call.now - call.trace_ttl), DROPPED_PER_CALL)
    end
    local bytes, is_cut = read_bytes(call.base, root_id)
    if is_cut or not bytes and not may_begin then return end
    local is_free = (bytes or 0) + #entry <= MAX_ROOT_BYTES
      and has_space(call, #entry * BYTE_COST + (bytes and 0 or ROOT_COST))
    bytes = bytes and read_bytes(call.base, root_id)
    if is_free and (bytes or may_begin) then
      write(call, root_id, bytes, entry)
    elseif bytes then
      redis.call('HSET', call.base .. 'traced', root_id, string.format('%.0f+', bytes))
    end
  end

  local function pack_text(text)
    return text and struct.pack('>I2', #text) .. text or ''
  end

  local function pack_entry(call, op, kind)
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

  -- Decides with the first operation on a root whether that is traced until its init has come: its id may say that it
  -- is traced by hand. A trace of an earlier root of this id is removed.
  function begin_trace(call, root)
    root.traced = call.tracked ~= 0 and (is_sampled(call, root.id) or root.id:sub(7) == '\0\0')
    root.begins_trace = root.traced
    if root.traced then drop_trace(call.base, root.id) end
  end

  -- Decides with the init of a root whether that is traced. A trace that began for nothing is removed.
  function decide_trace(call, root, op, is_new)
    local was_traced, is_traced = root.traced, op.traced or is_sampled(call, root.id)
    op.is_late = is_traced and not was_traced and not is_new
    if was_traced ~= is_traced then
      drop_trace(call.base, root.id)
      root.begins_trace = is_traced
    end
    root.traced = is_traced
  end

  -- Notes an operation on a traced root, if it changed the root.
  function note_operation(call, root, op, kind, code)
    if kind > FAIL or not CHANGED[code] or kind == ACK and op.high == 0 and op.low == 0 then return end
    append(call, root.id, pack_entry(call, op, kind), root.begins_trace)
    root.begins_trace = false
  end

  -- Notes how a traced root ended.
  function note_end(call, root)
    append(call, root.id, struct.pack('>BI5Bc1', END, call.now - EPOCH, 0, root.outcome), false)
    if root.outcome ~= 'A' or not read_bytes(call.base, root.id) then return end
    redis.call('ZADD', call.base .. 'acked', call.now, root.id)
    expire(call, 'acked')
  end

  -- Gives the entries of a trace, and 1 if some are missing, else 0.
  function read_trace(base, root_id)
    local _, is_cut = read_bytes(base, root_id)
    return redis.call('GET', base .. 'trace:' .. root_id) or '', is_cut and 1 or 0
  end
end

--[[
  The trace of a root: the operations that changed it, one after the other, so that its tree can be shown.

    trace:<root id>  string  the entries; TTL: the time to live of a trace, from the deadline of the root on, or from its end
    cut:<root id>    string  likewise, if later entries are missing: nothing is added to it
    traces           zset    root id -> time of the first entry of its trace, or a later one; TTL: that of all traces
    acked            zset    root id -> time at which the root was acked: these traces are removed first
    traced           hash    root id -> bytes that are reserved for its entries beyond the first step, if any are; '' ->
                             bytes that all traces of the shard take, about; TTL: that of all traces

  The entries of one call on a root are written at once. Bytes are reserved in steps, so that most entries change nothing
  but their trace.

  An entry, big-endian: kind B (that of the operation, 5: the end, 6: a fail that ends an edge), at I5 (milliseconds since
  2020-01-01), flags B; of an init, an ack or such a fail its ack val 2 x i4 and outstanding i4; of an init the spout index I4; of an end the outcome c1; then
  by flags: 1 outstanding unknown; 2 text, length I2 and bytes (message id, or reason); 4 component, likewise; 8 hash of
  root and edge, 2 x I4; 16 names of edges, their number I2 and 8 bytes each; 32 earlier operations are missing.
]]

local begin_trace, decide_trace, note_operation, pack_entry, write_trace, write_traces
local cut_trace, drop_trace, drop_traces, read_trace

do
  local INIT, ACK, FAIL, END, FAILED_EDGE = 1, 2, 3, 5, 6
  local UNKNOWN_OUTSTANDING, TEXT, COMPONENT, EDGE, NAMES, IS_LATE = 1, 2, 4, 8, 16, 32
  local CHANGED = { p = true, a = true, e = true, f = true }
  local MAX_ROOT_BYTES, STEP = 262144, 256  -- the one is a multiple of the other
  local ROOT_COST = 500  -- bytes that a trace takes besides its entries, about
  local BYTE_COST = 2    -- Redis reserves up to the length of a string that grows
  local DROPPED_PER_CALL = 16

  local function reserved(bytes)
    return math.ceil(bytes / STEP) * STEP
  end

  function drop_trace(base, root_id)
    if redis.call('ZREM', base .. 'traces', root_id) == 0 then return end
    local bytes = STEP + (redis.call('HGET', base .. 'traced', root_id) or 0)
    redis.call('UNLINK', base .. 'trace:' .. root_id, base .. 'cut:' .. root_id)
    redis.call('ZREM', base .. 'acked', root_id)
    redis.call('HDEL', base .. 'traced', root_id)
    redis.call('HINCRBY', base .. 'traced', '', -bytes * BYTE_COST - ROOT_COST)
  end

  -- Removes so many of the first traces of a zset at most. Returns how many it removed.
  local function drop_first(base, name, limit)
    local roots = redis.call('ZRANGE', base .. name, 0, limit - 1)
    for _, root_id in ipairs(roots) do drop_trace(base, root_id) end
    return #roots
  end

  -- Removes so many traces at most, whatever their time. Returns how many it removed.
  function drop_traces(base, limit)
    return drop_first(base, 'traces', limit)
  end

  -- Removes some traces whose time has passed. Returns how many it looked at.
  local function drop_expired(call)
    -- rule: a trace that expired gives its space back
    local name, before = call.base .. 'traces', string.format('(%.0f', call.now - call.trace_ttl)
    local roots = redis.call('ZRANGE', name, '-inf', before, 'BYSCORE', 'LIMIT', 0, DROPPED_PER_CALL)
    for _, root_id in ipairs(roots) do
      local expiry = math.max(redis.call('PEXPIRETIME', call.base .. 'trace:' .. root_id),
        redis.call('PEXPIRETIME', call.base .. 'cut:' .. root_id))
      -- rule: a trace that began long ago and has not expired stays
      if expiry > call.now then
        -- rule: a trace that began long ago is not looked at again
        redis.call('ZADD', name, expiry - call.trace_ttl, root_id)
      else
        drop_trace(call.base, root_id)
      end
    end
    return #roots
  end

  local function read_total(call)
    call.traces_total = tonumber(redis.call('HGET', call.base .. 'traced', '') or 0) + call.traces_growth
    return call.traces_total
  end

  -- Whether the traces of the shard may grow by so many bytes; for that it removes some whose time has passed, and then
  -- some of acked roots.
  local function has_space(call, cost)
    if (call.traces_total or read_total(call)) + cost <= call.trace_max then return true end
    -- rule: traces of a shard are bounded
    if call.has_no_more_to_drop then return false end
    local expired = drop_expired(call)
    if expired > 0 and read_total(call) + cost <= call.trace_max then return true end
    -- rule: traces of acked roots make space
    call.has_no_more_to_drop = drop_first(call.base, 'acked', DROPPED_PER_CALL) + expired == 0
    -- rule: a shard without anything to drop has no space
    return read_total(call) + cost <= call.trace_max
  end

  local function grow(call, cost)
    call.traces_growth, call.traces_total = call.traces_growth + cost, call.traces_total + cost
  end

  -- Returns how many of the entries, from the first one on, there is space for behind so many bytes of the trace, and how
  -- many bytes it has with them.
  local function fit(call, entries, before, root_cost)
    local bytes, allowed = before, reserved(before)
    for n, entry in ipairs(entries) do
      local size = bytes + #entry
      if size > allowed then
        local cost = (reserved(size) - reserved(before)) * BYTE_COST + root_cost
        -- rule: the trace of a root is bounded
        if size > MAX_ROOT_BYTES or not has_space(call, cost) then return n - 1, bytes end
        allowed = reserved(size)
      end
      bytes = size
    end
    return #entries, bytes
  end

  -- Begins the trace of a root with as many of the entries as there is space for. Returns whether it did.
  local function begin(call, root_id, entries, expiry)
    local traces, n, bytes = call.base .. 'traces', fit(call, entries, 0, ROOT_COST)
    if n == 0 then
      -- rule: a root that finds no space does not show the trace of an earlier one
      drop_trace(call.base, root_id)
      return false
    end
    -- rule: a new trace replaces the one of an earlier root
    if redis.call('ZADD', traces, call.now, root_id) == 0 then  -- an earlier root of this id has a trace
      drop_trace(call.base, root_id)
      redis.call('ZADD', traces, call.now, root_id)
    end
    local name = n == #entries and 'trace:' or 'cut:'
    redis.call('SET', call.base .. name .. root_id, table.concat(entries, '', 1, n), 'PXAT', expiry)
    -- rule: a long trace that is written at once is counted
    if bytes > STEP then redis.call('HSET', call.base .. 'traced', root_id, reserved(bytes) - STEP) end
    grow(call, reserved(bytes) * BYTE_COST + ROOT_COST)
    return true
  end

  -- Keeps so many bytes of a trace, all of them without a number, and lets nothing be added to it.
  function cut_trace(call, root_id, bytes)
    local key = call.base .. 'trace:' .. root_id
    local entries = redis.call('GET', key)
    if not entries then return end
    -- rule: a trace that is cut ends at its bound, and keeps its time
    redis.call('SET', call.base .. 'cut:' .. root_id, entries:sub(1, bytes), 'PXAT', redis.call('PEXPIRETIME', key))
    redis.call('UNLINK', key)
  end

  -- Adds entries to the trace of a root, or as many of them as there is space for. Returns whether the root has a trace.
  local function append(call, root_id, entries)
    local key, traces = call.base .. 'trace:' .. root_id, call.base .. 'traces'
    -- rule: a full store keeps no more of a trace
    if call.store_full then
      cut_trace(call, root_id)
      return redis.call('ZSCORE', traces, root_id)
    end
    local added = entries[2] and table.concat(entries) or entries[1]
    local bytes = redis.call('APPEND', key, added)
    local before = bytes - #added
    -- rule: only the first operation begins a trace
    if before == 0 then  -- it was cut, or its time has passed
      redis.call('UNLINK', key)
      return redis.call('ZSCORE', traces, root_id)
    end
    if reserved(bytes) == reserved(before) then return true end
    local n, kept = fit(call, entries, before, 0)
    local more = reserved(kept) - reserved(before)
    if more > 0 then
      -- rule: a trace that grows is counted for itself
      redis.call('HINCRBY', call.base .. 'traced', root_id, more)
      -- rule: a trace that grows is counted among all of its shard
      grow(call, more * BYTE_COST)
    end
    -- rule: nothing is added to a cut trace
    if n < #entries then cut_trace(call, root_id, kept) end
    return true
  end

  local function expire(call, root_id, expiry)
    if redis.call('PEXPIREAT', call.base .. 'trace:' .. root_id, expiry) == 0 then
      redis.call('PEXPIREAT', call.base .. 'cut:' .. root_id, expiry)
    end
  end

  local function pack_text(text)
    return struct.pack('>I2', #text) .. text
  end

  -- Packs an operation as an entry.
  function pack_entry(call, op, kind)
    local flags, optional = 0, ''
    local is_plain_fail = kind == FAIL and op.form ~= ENDS_EDGE
    if not is_plain_fail and not op.outstanding then flags = flags + UNKNOWN_OUTSTANDING end
    if op.text then flags, optional = flags + TEXT, pack_text(op.text) end
    if op.component then flags, optional = flags + COMPONENT, optional .. pack_text(op.component) end
    if op.edge_high then
      flags, optional = flags + EDGE, optional .. struct.pack('>I4I4', op.edge_high, op.edge_low)
    end
    if op.names then flags, optional = flags + NAMES, optional .. struct.pack('>I2', #op.names / 8) .. op.names end
    if op.is_late then flags = flags + IS_LATE end
    local at = call.now - EPOCH
    if is_plain_fail then return struct.pack('>BI5B', kind, at, flags) .. optional end
    if kind ~= INIT then
      -- rule: a trace tells the fail of an edge apart
      if kind == FAIL then kind = FAILED_EDGE end
      return struct.pack('>BI5Bi4i4i4', kind, at, flags, op.high, op.low, op.outstanding or 0) .. optional
    end
    return struct.pack('>BI5Bi4i4i4I4', kind, at, flags, op.high, op.low, op.outstanding or 0, op.spout) .. optional
  end

  -- Decides with the first operation on a root whether that is traced until its init has come: the operation says it
  -- for a root of the sample, and an id for a root that is traced by hand. A trace of an earlier root of this id is removed.
  function begin_trace(call, root, op)
    -- rule: a marked id is traced before its init
    root.traced = call.tracked ~= 0 and (op.traced or root.id:sub(7) == '\0\0')
    root.begins_trace, root.entries = root.traced, nil
    if root.traced then drop_trace(call.base, root.id) end
  end

  -- Decides with the init of a root whether that is traced. A trace that began for nothing is removed.
  function decide_trace(call, root, op, is_new)
    local was_traced, is_traced = root.traced, op.traced
    op.is_late = is_traced and not was_traced and not is_new
    -- rule: a trace that began for nothing goes
    if was_traced ~= is_traced then
      drop_trace(call.base, root.id)
      root.begins_trace, root.entries = is_traced, nil
    end
    root.traced = is_traced
  end

  -- Notes an operation on a traced root, if it changed the root.
  function note_operation(call, root, op, kind, code)
    -- rule: what changed nothing is not noted
    if kind > FAIL or not CHANGED[code] or kind == ACK and op.high == 0 and op.low == 0 and op.form ~= DROPPED then
      return
    end
    root.entries = root.entries or {}
    root.entries[#root.entries + 1] = pack_entry(call, op, kind)
  end

  -- Writes what a call noted of a traced root, and the outcome that the root has with it, if it has one. `begins`: the
  -- first operation on the root is among it, so its trace begins. `deadline` is that of the root, nil if it is as before.
  function write_trace(call, root_id, entries, begins, outcome, deadline)
    if outcome then
      entries = entries or {}
      entries[#entries + 1] = struct.pack('>BI5Bc1', END, call.now - EPOCH, 0, outcome)
    end
    -- rule: a trace stays for its time behind the end of its root, or behind the deadline
    local expiry = (outcome or deadline) and (outcome and call.now or deadline) + call.trace_ttl
    if begins then
      if not entries or not begin(call, root_id, entries, expiry) then return end
    else
      if entries and not append(call, root_id, entries) then return end
      -- rule: a reset keeps a trace
      if expiry then expire(call, root_id, expiry) end
    end
    call.traces_expiry = math.max(call.traces_expiry, expiry or 0)
    if outcome ~= 'A' then return end
    redis.call('ZADD', call.base .. 'acked', call.now, root_id)
    -- rule: an acked root can be dropped in the same call
    call.has_acked_traces, call.has_no_more_to_drop = true, false
  end

  -- Writes what all traces of the shard take after a call, and until when there are some.
  function write_traces(call)
    local growth, expiry = call.traces_growth, call.traces_expiry
    -- rule: what all traces take is counted
    if growth ~= 0 then redis.call('HINCRBY', call.base .. 'traced', '', growth) end
    if expiry > 0 and redis.call('PEXPIRETIME', call.base .. 'traces') < expiry then
      expiry = expiry + math.floor(call.trace_ttl / 4)  -- so that few calls have to move it
      -- rule: the lists of traces expire
      redis.call('PEXPIREAT', call.base .. 'traces', expiry)
      -- rule: what traces take expires
      redis.call('PEXPIREAT', call.base .. 'traced', expiry)
    end
    if call.has_acked_traces then redis.call('PEXPIREAT', call.base .. 'acked', call.now + call.trace_ttl) end
  end

  -- Returns the entries of a trace, and 1 if some are missing, else 0.
  function read_trace(base, root_id)
    local entries = redis.call('GET', base .. 'trace:' .. root_id)
    if entries then return entries, 0 end
    entries = redis.call('GET', base .. 'cut:' .. root_id)
    return entries or '', entries and 1 or 0
  end
end

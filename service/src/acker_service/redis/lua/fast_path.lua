--[[
  The fast path applies plain operations by the state machine of transitions.lua, on local variables.

  Plain is an init of an unknown root, without timeouts of its own, and an ack of a pending root: each with its count
  of outstanding edges, with or without message id, component, edge id and names of edges, both of a root that is not
  traced. All other operations go to apply_operation,
  with the same root, before anything of them was written. Tests also run with FAST_PATH off: answers and all that is
  stored are the same.
]]

local FAST_PATH = true

local apply_operations

do
  local INIT, ACK = 1, 2
  local ACK_VAL = '>i4i4i2'
  local EMITTED, OWN_TIMEOUT, SHORT_MESSAGE_ID, LONG_MESSAGE_ID = 1, 8, 32, 64
  local ACKED, ACKED_WITH_MESSAGE_ID = 0, 4

  -- The flags of records that the fast path works on: emitted, perhaps with a timeout of its own and a message id.
  local PLAIN_RECORD = {
    [EMITTED] = true, [EMITTED + SHORT_MESSAGE_ID] = true, [EMITTED + LONG_MESSAGE_ID] = true,
    [EMITTED + OWN_TIMEOUT] = true, [EMITTED + OWN_TIMEOUT + SHORT_MESSAGE_ID] = true,
    [EMITTED + OWN_TIMEOUT + LONG_MESSAGE_ID] = true,
  }

  local function is_narrow(outstanding)
    return outstanding <= 32767 and outstanding >= -32768
  end

  -- Whether the fast path can apply an init, if its root is unknown.
  local function may_begin(call, spout, outstanding, text)
    if not is_narrow(outstanding) or spout > 65535 then return false end
    if text and #text > MAX_RECORD_BYTES - HEAD_BYTES then return false end
    return not call.free_slots or (call.free_slots[spout] or 0) > 0
  end

  -- Gives what a new record holds from its flags on; it is the same for all inits of a spout task, but for message ids.
  local function new_rest(call, spout, text)
    local flags = text and EMITTED + SHORT_MESSAGE_ID or EMITTED
    local rests = call.new_rests[flags]
    local rest = rests[spout]
    if not rest then
      rest = struct.pack('>BI5I4I2', flags, call.now - EPOCH, call.message_timeout, spout)
      rests[spout] = rest
    end
    return text and rest .. text or rest
  end

  -- Begins a root if it is unknown. Gives its record from the flags on; nil if its bucket has a value of it.
  local function begin(call, key, root_id, bucket, ack_val, spout, text)
    local rest = new_rest(call, spout, text)
    if redis.call('HSETNX', key, root_id, ack_val .. rest) == 0 then return nil end
    call.pending[spout], call.emitted[spout], call.changed = (call.pending[spout] or 0) + 1, true, true
    if call.free_slots then call.free_slots[spout] = call.free_slots[spout] - 1 end
    score_bucket(call, bucket, call.now + call.message_timeout)
    return rest
  end

  -- Ends a root as acked: collects its completion and counts it. Gives the marker that replaces its record.
  local function finish_acked(call, root_id, rest)
    local flags, started, _, spout = struct.unpack('>BI5I4I2', rest)
    local completion = root_id .. rest:sub(2, 6)
    if flags < SHORT_MESSAGE_ID then
      completion = completion .. call.acked
    else
      local message_id = rest:sub(bit.band(flags, OWN_TIMEOUT) == 0 and 13 or 17)
      completion = completion .. call.acked_with_message_id .. struct.pack('>I2', #message_id) .. message_id
    end
    local completions = call.completions_by_spout[spout] or {}
    completions[#completions + 1], call.completions_by_spout[spout] = completion, completions
    local latency, free = call.now - EPOCH - started, call.free_slots and call.free_slots[spout]
    call.acked_latencies[latency] = (call.acked_latencies[latency] or 0) + 1
    call.pending[spout], call.changed = (call.pending[spout] or 0) - 1, true
    if free and free ~= MAILBOX_FULL then call.free_slots[spout] = free + 1 end
    return (pack_outcome(call, 'A'))
  end

  local function is_acked_before(call, bucket, rest, ops, edge_at)
    local edge_high, edge_low = struct.unpack('>I4I4', ops, edge_at)
    return check_and_remember_edge(call, bucket, struct.unpack('>I5', rest, 2) + EPOCH, edge_high, edge_low)
  end

  local function begin_request(call)
    call.new_rests = call.new_rests or { [EMITTED] = {}, [EMITTED + SHORT_MESSAGE_ID] = {} }
    call.acked = call.acked or struct.pack('>I5B', call.now - EPOCH, ACKED)
    call.acked_with_message_id = call.acked_with_message_id
      or struct.pack('>I5B', call.now - EPOCH, ACKED_WITH_MESSAGE_ID)
  end

  -- Applies the operations of a request. Gives their codes in a string.
  --
  -- One long function, because local variables cost a fraction of fields and calls: most operations pass here. Of the
  -- root that is worked on, `high`, `low`, `outstanding` are its ack val and count, and `rest` is its record from the
  -- flags on: nil once apply_operation works on the root, or it has finished. `raw` is what its bucket holds.
  function apply_operations(call, ops)
    if not FAST_PATH or call.tracked == 0 then return run(call, apply_operation, ops) end
    local redis_call, unpack, pack, bxor, byte = redis.call, struct.unpack, struct.pack, bit.bxor, string.byte
    local root, op, codes, n, pos, size, prefix = call.root, {}, {}, 0, 1, #ops, call.base .. 'r'
    local may_init, dedupes = call.progress_timeout == 0 and not call.store_full, call.dedupe_window > 0
    local kind, bucket, root_id, op_high, op_low, op_outstanding, flags, spout, optional
    local last, key, raw, high, low, outstanding, rest, is_changed
    root.id = nil
    begin_request(call)
    while pos <= size do
      kind, bucket, root_id, op_high, op_low, op_outstanding, flags, spout, optional = unpack(OPERATION, ops, pos)
      local is_plain, code, text, edge_at = kind <= ACK and flags % 8 == 0 and flags < 128, nil, nil, nil
      pos = optional
      if flags ~= 0 and is_plain then
        if flags % 16 >= 8 then text, pos = read_text(ops, pos) end
        if flags % 32 >= 16 then pos = pos + 2 + byte(ops, pos) * 256 + byte(ops, pos + 1) end
        if flags % 64 >= 32 then edge_at, pos = pos, pos + 8 end
        if flags >= 64 then pos = pos + 2 + 8 * (byte(ops, pos) * 256 + byte(ops, pos + 1)) end
      end
      if root_id ~= last then
        if is_changed then
          redis_call('HSET', key, last, pack(ACK_VAL, high, low, outstanding) .. rest)
        else
          save_root(call, root)
        end
        last, key, root.id, rest, is_changed = root_id, prefix .. bucket, nil, nil, false
        if kind == INIT and is_plain and may_init and (op_high ~= 0 or op_low ~= 0)
          and may_begin(call, spout, op_outstanding, text) and not is_sampled(call, root_id) then
          rest = begin(call, key, root_id, bucket, pack(ACK_VAL, op_high, op_low, op_outstanding), spout, text)
        end
        if rest then
          high, low, outstanding, code = op_high, op_low, op_outstanding, 'p'
        else
          raw = redis_call('HGET', key, root_id)
          if raw and PLAIN_RECORD[byte(raw, 11)] then
            high, low, outstanding = unpack(ACK_VAL, raw)
            rest = raw:sub(11)
          end
        end
      end
      if rest and not code and kind == ACK and is_plain then
        local new_high, new_low, sum = bxor(high, op_high), bxor(low, op_low), outstanding + op_outstanding
        local is_zero = new_high == 0 and new_low == 0
        if op_high == 0 and op_low == 0 then
          code = 'p'
        elseif not is_narrow(sum) or is_zero and (sum ~= 0 or byte(rest) >= LONG_MESSAGE_ID) then
          code = nil
        elseif dedupes and edge_at and is_acked_before(call, bucket, rest, ops, edge_at) then
          code = 'd'
        elseif is_zero then
          raw, rest, is_changed, code = finish_acked(call, root_id, rest), nil, false, 'a'
          redis_call('HSET', key, root_id, raw)
        else
          high, low, outstanding, is_changed, call.changed, code = new_high, new_low, sum, true, true, 'p'
        end
      end
      if not code then
        if rest then
          raw = pack(ACK_VAL, high, low, outstanding) .. rest
          if is_changed then redis_call('HSET', key, root_id, raw) end
          rest, is_changed = nil, false
        end
        if not root.id then set_root(call, root, root_id, bucket, raw) end
        op.high, op.low, op.outstanding, op.spout = op_high, op_low, op_outstanding, spout
        pos = read_optional(op, flags, ops, optional)
        code = apply_operation(call, root, op, kind)
        call.changed = call.changed or root.dirty
      end
      n = n + 1
      codes[n] = code
    end
    if is_changed then
      redis_call('HSET', key, last, pack(ACK_VAL, high, low, outstanding) .. rest)
    else
      save_root(call, root)
    end
    return table.concat(codes)
  end
end

--[[
  The fast path applies plain operations by the state machine of transitions.lua, on local variables.

  Plain is an init of an unknown root, without timeouts and a form of its own and without a traceparent, and an ack of a
  pending root: each with its count of outstanding edges, with or without message id, component, edge id and names of
  edges; the root ends at its first fail, and may be traced. All other operations go to apply_operation, with the same
  root, before anything of them was written. Tests also run with FAST_PATH off: answers and all that is stored are the
  same, but that the component of a last ack gets no number here (details.lua), for no record names it.
]]

-- rule: plain operations take the fast path
local FAST_PATH = true

local apply_operations

do
  local INIT, ACK = 1, 2
  -- What an ack rewrites of a record, without details and with them.
  local HEAD, HEAD_WITH_DETAILS = '>i4i4i2B', '>i4i4i2BI3BI2'
  local EMITTED, OWN_TIMEOUT, RARE_FIELDS, SHORT_MESSAGE_ID, LONG_MESSAGE_ID = 1, 8, 16, 32, 64
  local ONLY_TRACED = '\4'  -- the rare fields of a root that is traced and has no other rare field
  local ACKED, ACKED_WITH_MESSAGE_ID = 0, 4

  -- The flags of records that the fast path works on: emitted, perhaps with a timeout of its own, traced, with a message
  -- id, with details. Each with the position of the message id in what a record holds behind its details.
  local PLAIN_RECORD = {}
  for message_id = 0, LONG_MESSAGE_ID, SHORT_MESSAGE_ID do
    for flags = EMITTED + message_id, EMITTED + message_id + DETAILS, DETAILS do
      -- rule: a timeout of its own stands before the message id of a record
      PLAIN_RECORD[flags], PLAIN_RECORD[flags + OWN_TIMEOUT] = 12, 16
      PLAIN_RECORD[flags + RARE_FIELDS], PLAIN_RECORD[flags + RARE_FIELDS + OWN_TIMEOUT] = 13, 17
    end
  end

  -- Whether a record has rare fields.
  local function has_rare_fields(flags)
    return flags % SHORT_MESSAGE_ID >= RARE_FIELDS
  end

  local function is_narrow(outstanding)
    return outstanding <= 32767 and outstanding >= -32768
  end

  -- Whether the fast path can apply an init, if its root is unknown.
  local function may_begin(call, spout, outstanding, text, is_traced)
    if not is_narrow(outstanding) or spout > 65535 then return false end
    -- rule: a traced root has a shorter message id
    if text and #text + (is_traced and #ONLY_TRACED or 0) > MAX_RECORD_BYTES - HEAD_BYTES then return false end
    -- rule: without a free slot the state machine refuses
    return not call.free_slots or (call.free_slots[spout] or 0) > 0
  end

  -- Returns what a new record holds behind its details; most of it is the same for all inits of a spout task.
  local function new_rest(call, spout, text, is_traced)
    local rest = call.new_rests[spout]
    if not rest then
      rest = struct.pack('>I5I4I2', call.now - EPOCH, call.message_timeout, spout)
      call.new_rests[spout] = rest
    end
    if is_traced then rest = rest .. ONLY_TRACED end
    return text and rest .. text or rest
  end

  -- Begins a root if it is unknown. Returns its record, its flags and its rest; nil if its bucket has a value of it.
  local function begin(call, key, root_id, bucket, high, low, outstanding, spout, text, is_traced)
    local flags, rest, raw = text and EMITTED + SHORT_MESSAGE_ID or EMITTED, new_rest(call, spout, text, is_traced), nil
    if is_traced then flags = flags + RARE_FIELDS end
    if call.has_details then
      flags = flags + DETAILS
      raw = struct.pack(HEAD_WITH_DETAILS, high, low, outstanding, flags, 0, 0, 0) .. rest
    else
      raw = struct.pack(HEAD, high, low, outstanding, flags) .. rest
    end
    if redis.call('HSETNX', key, root_id, raw) == 0 then return nil end
    -- rule: a root that begins on the fast path is pending
    call.pending[spout], call.emitted[spout], call.changed = (call.pending[spout] or 0) + 1, true, true
    -- rule: a root that begins on the fast path takes a slot
    if call.free_slots then call.free_slots[spout] = call.free_slots[spout] - 1 end
    score_bucket(call, bucket, call.now + call.message_timeout)
    return raw, flags, rest
  end

  -- Ends a root as acked: collects its completion and counts it. Returns the marker that replaces its record.
  local function finish_acked(call, root_id, flags, rest)
    local started, _, spout = struct.unpack('>I5I4I2', rest)
    local completion = root_id .. rest:sub(1, 5)
    if flags % DETAILS < SHORT_MESSAGE_ID then
      call.acked = call.acked or struct.pack('>I5B', call.now - EPOCH, ACKED)
      completion = completion .. call.acked
    else
      call.acked_with_message_id = call.acked_with_message_id
        or struct.pack('>I5B', call.now - EPOCH, ACKED_WITH_MESSAGE_ID)
      local message_id = rest:sub(PLAIN_RECORD[flags])
      completion = completion .. call.acked_with_message_id .. struct.pack('>I2', #message_id) .. message_id
    end
    local completions = call.completions_by_spout[spout] or {}
    completions[#completions + 1], call.completions_by_spout[spout] = completion, completions
    local latency, free = call.now - EPOCH - started, call.free_slots and call.free_slots[spout]
    -- rule: a latency is counted on the fast path, too
    call.acked_latencies[latency] = (call.acked_latencies[latency] or 0) + 1
    -- rule: a root that ends on the fast path is pending no more
    call.pending[spout], call.changed = (call.pending[spout] or 0) - 1, true
    -- rule: a root that ends on the fast path frees its slot
    if free and free ~= MAILBOX_FULL then call.free_slots[spout] = free + 1 end
    return (pack_outcome(call, 'A'))
  end

  -- Remembers the edge of an ack of a pending root. Returns nil, or the code that answers an ack which changes nothing.
  local function edge_refusal(call, bucket, rest, ops, edge_at)
    local edge_high, edge_low = struct.unpack('>I4I4', ops, edge_at)
    local started = struct.unpack('>I5', rest) + EPOCH
    local code = remember_edge(call, bucket, started, edge_high, edge_low, has_room_for_edge(call, true))
    -- rule: in a full store the ack counts on the fast path, too, though there is no room to remember its edge
    return not (code == 's' and call.store_full) and code or nil
  end

  -- Returns the record of a root that was acked in this call. Its details are the number of its acks, and of the component
  -- of the last one.
  local function pack_acked(call, high, low, outstanding, flags, component, acks, rest)
    if flags < DETAILS then return struct.pack(HEAD, high, low, outstanding, flags) .. rest end
    local span = pack_span(call.now - EPOCH - struct.unpack('>I5', rest))
    if acks > MAX_ACKS then acks = MAX_ACKS end
    return struct.pack(HEAD_WITH_DETAILS, high, low, outstanding, flags, span, component, acks) .. rest
  end

  -- Applies the operations of a request. Returns their codes in a string.
  --
  -- One long function, because local variables cost a fraction of fields and calls: most operations pass here. Of the
  -- root that is worked on, `high`, `low`, `outstanding`, `kept` are its ack val, count and flags, and `rest` is its record
  -- behind the details: nil once apply_operation works on the root, or it has finished. `component` and `acks` are its
  -- details, where it has them. `raw` is what its bucket holds, but for the acks that `is_changed` tells of. `entries` are
  -- those of its trace that are not yet written, nil without any; `begins` says that they begin it, `ended` that it ended.
  function apply_operations(call, ops)
    if not FAST_PATH or call.tracked == 0 then return run(call, apply_operation, ops) end
    local redis_call, unpack, bxor, byte = redis.call, struct.unpack, bit.bxor, string.byte
    local root, op, codes, n, pos, size, prefix = call.root, nil, {}, 0, 1, #ops, call.base .. 'r'
    -- rule: with a progress timeout the state machine begins a root
    local may_init, dedupes = call.progress_timeout == 0 and not call.store_full, call.dedupe_window > 0
    -- rule: where all edges have to end the state machine begins a root
    may_init = may_init and not call.all_ended
    local kind, bucket, root_id, op_high, op_low, op_outstanding, flags, spout, optional
    local last, key, raw, high, low, outstanding, kept, component, acks, rest, is_changed
    local is_traced, entries, begins, ended
    local numbers, _
    root.id = nil
    while pos <= size do
      kind, bucket, root_id, op_high, op_low, op_outstanding, flags, spout, optional = unpack(OPERATION, ops, pos)
      -- rule: an init with a traceparent is not plain
      local is_plain, code, text = kind <= ACK and flags % 8 == 0 and (kind == ACK or flags % 64 < 32), nil, nil
      local component_at, edge_at, is_noted
      pos = optional
      if flags ~= 0 and is_plain then
        if flags % 16 >= 8 then text, pos = read_text(ops, pos) end
        if flags % 32 >= 16 then component_at, pos = pos, pos + 2 + byte(ops, pos) * 256 + byte(ops, pos + 1) end
        if flags % 64 >= 32 then edge_at, pos = pos, pos + 8 end
        if flags % 128 >= 64 then pos = pos + 2 + 8 * (byte(ops, pos) * 256 + byte(ops, pos + 1)) end
      end
      if root_id ~= last then
        if is_changed then
          -- rule: what the fast path changed is written at the next root
          redis_call('HSET', key, last, pack_acked(call, high, low, outstanding, kept, component, acks, rest))
        else
          save_root(call, root)
        end
        if entries then write_trace(call, last, entries, begins, ended, begins and call.now + call.message_timeout) end
        last, key, root.id, rest, is_changed = root_id, prefix .. bucket, nil, nil, false
        is_traced, entries, begins, ended = false, nil, false, nil
        -- rule: an init without an ack val is for the state machine
        if kind == INIT and is_plain and may_init and (op_high ~= 0 or op_low ~= 0)
          and may_begin(call, spout, op_outstanding, text, flags >= 128) and has_room_for_roots(call) then
          is_traced = flags >= 128
          raw, kept, rest = begin(call, key, root_id, bucket, op_high, op_low, op_outstanding, spout, text, is_traced)
        end
        if rest then
          high, low, outstanding, component, acks, code = op_high, op_low, op_outstanding, 0, 0, 'p'
          -- rule: a traced root begins its trace
          begins, is_noted = is_traced, is_traced
        else
          raw = redis_call('HGET', key, root_id)
          kept = raw and byte(raw, 11)
          if kept and PLAIN_RECORD[kept] then
            if kept < DETAILS then
              high, low, outstanding = unpack(HEAD, raw)
              rest = raw:sub(12)
            else
              high, low, outstanding, _, _, component, acks = unpack(HEAD_WITH_DETAILS, raw)
              rest = raw:sub(BEHIND_DETAILS)
            end
            is_traced = has_rare_fields(kept)
            local rare_at = PLAIN_RECORD[kept] - 1
            -- rule: other rare fields are for the state machine
            if is_traced and rest:sub(rare_at, rare_at) ~= ONLY_TRACED then rest = nil end
          end
        end
      end
      if rest and not code and kind == ACK and is_plain then
        -- rule: an ack on the fast path is XORed in
        local new_high, new_low, sum = bxor(high, op_high), bxor(low, op_low), outstanding + op_outstanding
        local is_zero = new_high == 0 and new_low == 0
        if op_high == 0 and op_low == 0 then
          code = 'p'
        -- rule: a count too large, a zero with edges outstanding and a long message id are for the state machine
        elseif not is_narrow(sum) or is_zero and (sum ~= 0 or kept % DETAILS >= LONG_MESSAGE_ID) then
          code = nil
        else
          -- rule: an ack whose edge may not count is answered without effect on the fast path, too
          code = dedupes and edge_at and edge_refusal(call, bucket, rest, ops, edge_at) or nil
          if not code and is_zero then
            raw, rest, is_changed, code = finish_acked(call, root_id, kept, rest), nil, false, 'a'
            redis_call('HSET', key, root_id, raw)
            -- rule: of a traced root the last ack and the end are noted
            is_noted, ended = is_traced, 'A'
          elseif not code then
            high, low, outstanding, is_changed, call.changed, code = new_high, new_low, sum, true, true, 'p'
            -- rule: an ack of a traced root is noted
            is_noted = is_traced
            if kept >= DETAILS then
              local name = component_at and read_text(ops, component_at)
              numbers = numbers or name and call.numbers
              acks, component = acks + 1, name and (numbers[name] or component_number(call, name)) or 0
            end
          end
        end
      end
      if is_noted then
        op = op or {}
        op.high, op.low, op.outstanding, op.spout = op_high, op_low, op_outstanding, spout
        read_optional(op, kind, flags, ops, optional)
        entries = entries or {}
        entries[#entries + 1] = pack_entry(call, op, kind)
      end
      if not code then
        local noted
        if rest then
          if is_changed then
            raw = pack_acked(call, high, low, outstanding, kept, component, acks, rest)
            -- rule: what the fast path changed is written before the state machine goes on
            redis_call('HSET', key, root_id, raw)
          end
          rest, is_changed, noted, entries = nil, false, entries, nil
        end
        if not root.id then
          set_root(call, root, root_id, bucket, raw)
          -- rule: the state machine goes on with what was noted
          if noted then root.entries, root.begins_trace = noted, begins end
        end
        op = op or {}
        op.high, op.low, op.outstanding, op.spout = op_high, op_low, op_outstanding, spout
        -- rule: an operation takes no form from the one before on the fast path, either
        if op.form then op.form = nil end
        if kind > 15 then kind = read_form(op, kind) end
        pos = read_optional(op, kind, flags, ops, optional)
        code = apply_operation(call, root, op, kind)
        call.changed = call.changed or root.dirty
      end
      n = n + 1
      codes[n] = code
    end
    if is_changed then
      redis_call('HSET', key, last, pack_acked(call, high, low, outstanding, kept, component, acks, rest))
    else
      save_root(call, root)
    end
    if entries then write_trace(call, last, entries, begins, ended, begins and call.now + call.message_timeout) end
    return table.concat(codes)
  end
end

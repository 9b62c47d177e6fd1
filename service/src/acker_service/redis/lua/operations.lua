--[[
  An operation, big-endian: kind and form B, bucket c4, root id c8, value to XOR 2 x i4, outstanding i4, flags B, spout
  index I4; then by flags: 1 outstanding unknown; 2 message timeout I4; 4 progress timeout I4; 8 text, length I2 and bytes
  (message id, or reason); 16 component, likewise; 32 hash of root and edge, 2 x I4, of an init its traceparent, 25 bytes;
  64 names of edges, their number I2 and 8 bytes each; 128 nothing: the root is traced. Operations of one root stand
  together, so that its record is read and written once.

  The low half of the first byte is the kind (1 init, 2 ack, 3 fail, 4 reset timeout), the high half the form of an
  operation that has one: of an init 1, it ends when all of its edges have ended, or 2, at its first fail (0: as the
  topology says); of a fail 1, it ends an edge as an ack does; of an ack 1, its tuple was dropped.
]]

local TRACEPARENT_BYTES = 25
local OPERATION = '>Bc4c8i4i4i4BI4'

-- Notes the form of an operation that has one. Returns its kind. Others have no such field, not even nil: a table that
-- gets one more key than it has space for is built anew, and that takes longer than most of an operation.
local function read_form(op, kind)
  -- rule: a form is told apart from its kind
  op.form = math.floor(kind / 16)
  return kind % 16
end

local function read_text(ops, pos)
  local high, low = string.byte(ops, pos, pos + 1)
  local stop = pos + 2 + high * 256 + low
  -- rule: a text is as long as it says
  return ops:sub(pos + 2, stop - 1), stop
end

-- Reads what an operation has by flag 32. Returns the position behind it.
local function read_edge_or_traceparent(op, kind, ops, pos)
  if kind == 1 then
    op.traceparent, pos = ops:sub(pos, pos + TRACEPARENT_BYTES - 1), pos + TRACEPARENT_BYTES
  else
    op.edge_high, op.edge_low, pos = struct.unpack('>I4I4', ops, pos)
  end
  return pos
end

local function read_names(ops, pos)
  local high, low = string.byte(ops, pos, pos + 1)
  local behind = pos + 2 + 8 * (high * 256 + low)
  return ops:sub(pos + 2, behind - 1), behind
end

-- Reads the optional fields of an operation. Returns the position behind it.
local function read_optional(op, kind, flags, ops, pos)
  -- rule: an operation takes no extra from the one before
  op.message_timeout, op.progress_timeout, op.text, op.component, op.edge_high = nil, nil, nil, nil, nil
  -- rule: an operation takes no traceparent from the one before
  op.names, op.traced, op.is_late, op.traceparent = nil, flags >= 128, nil, nil
  -- rule: an unknown count is not zero
  if flags % 2 == 1 then op.outstanding = nil end
  if flags % 128 < 2 then return pos end
  if bit.band(flags, 2) ~= 0 then op.message_timeout, pos = struct.unpack('>I4', ops, pos) end
  if bit.band(flags, 4) ~= 0 then op.progress_timeout, pos = struct.unpack('>I4', ops, pos) end
  if bit.band(flags, 8) ~= 0 then op.text, pos = read_text(ops, pos) end
  if bit.band(flags, 16) ~= 0 then op.component, pos = read_text(ops, pos) end
  if bit.band(flags, 32) ~= 0 then pos = read_edge_or_traceparent(op, kind, ops, pos) end
  if bit.band(flags, 64) ~= 0 then op.names, pos = read_names(ops, pos) end
  return pos
end

-- Runs `handler`, such as apply_operation, on each operation of a request. Returns their codes in a string.
local function run(call, handler, ops)
  local root, op, codes, n, pos, size = call.root, {}, {}, 0, 1, #ops
  local kind, bucket, root_id, flags
  -- rule: each request takes its roots up anew
  root.id = nil
  while pos <= size do
    kind, bucket, root_id, op.high, op.low, op.outstanding, flags, op.spout, pos = struct.unpack(OPERATION, ops, pos)
    -- rule: an operation takes no form from the one before
    if op.form then op.form = nil end
    if kind > 15 then kind = read_form(op, kind) end
    pos = read_optional(op, kind, flags, ops, pos)
    if root_id ~= root.id then
      -- rule: a root is put down before the next is taken up
      save_root(call, root)
      load_root(call, root, root_id, bucket)
    end
    n = n + 1
    codes[n] = handler(call, root, op, kind)
    call.changed = call.changed or root.dirty
  end
  -- rule: the last root is put down
  save_root(call, root)
  return table.concat(codes)
end

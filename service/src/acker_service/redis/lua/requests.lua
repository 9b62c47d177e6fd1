--[[
  Requests: each a list of operations, applied once.

  An operation, big-endian: op B (1 init, 2 ack, 3 fail, 4 reset timeout), bucket I4, root id c8, value to XOR 2 x i4,
  outstanding i4, flags B, spout index I4; then by flags: 1 outstanding unknown; 2 message timeout I4; 4 progress timeout
  I4; 8 first text, I2 and so many bytes (message id, or reason); 16 second text (component); 32 hash of root and edge, 2 x
  I4. Operations of one root stand together, so that its record is read and written once.
]]

local function read_text(ops, pos)
  local length, at = struct.unpack('>I2', ops, pos)
  return ops:sub(at, at + length - 1), at + length
end

local function read_extras(o, flags, ops, pos)
  o.timeout, o.progress, o.first, o.second, o.edge1 = nil, nil, nil, nil, nil
  if flags % 2 == 1 then o.outstanding = nil end
  if flags < 2 then return pos end
  if bit.band(flags, 2) ~= 0 then o.timeout, pos = struct.unpack('>I4', ops, pos) end
  if bit.band(flags, 4) ~= 0 then o.progress, pos = struct.unpack('>I4', ops, pos) end
  if bit.band(flags, 8) ~= 0 then o.first, pos = read_text(ops, pos) end
  if bit.band(flags, 16) ~= 0 then o.second, pos = read_text(ops, pos) end
  if bit.band(flags, 32) ~= 0 then o.edge1, o.edge2, pos = struct.unpack('>I4I4', ops, pos) end
  return pos
end

-- Runs through the operations of one request by `law` (obey or repeated). Gives their words in one string.
local function run(c, law, ops)
  local t, o, words, n, pos, size = c.t, {}, {}, 0, 1, #ops
  local op, bucket, root, flags
  t.root = nil
  while pos <= size do
    op, bucket, root, o.high, o.low, o.outstanding, flags, o.spout, pos = struct.unpack('>BI4c8i4i4i4BI4', ops, pos)
    pos = read_extras(o, flags, ops, pos)
    if root ~= t.root then
      put_down(c, t)
      take_up(c, t, root, bucket)
    end
    n = n + 1
    words[n] = law(c, t, o, op)
    c.applied = c.applied or t.dirty
  end
  put_down(c, t)
  return table.concat(words)
end

-- Whether a request was applied before; if so, c.places_refused says whether its first run refused an init a place.
local function applied_before(c, set, whole, partly)
  if set == '' then return false end
  for slice = 0, 1 do
    local found = redis.call('SMISMEMBER', c.base .. 's' .. slice .. ':' .. set, whole, partly)
    if found[1] == 1 or found[2] == 1 then
      c.places_refused = found[2] == 1
      return true
    end
  end
  return false
end

local function remember(c, set, whole, partly, words)
  if set == '' or not c.applied then return end
  local key = c.base .. 's' .. math.floor(c.now / c.window) % 2 .. ':' .. set
  redis.call('SADD', key, words:find('[bms]') and partly or whole)
  keep(c, key, c.window)
end

local function read_rooms(packed)
  if packed == '' then return nil end
  local rooms, pos = {}, 1
  while pos <= #packed do
    local spout, room
    spout, room, pos = struct.unpack('>I4i4', packed, pos)
    rooms[spout] = room
  end
  return rooms
end

local function write_rooms(rooms)
  local packed = {}
  for spout, room in pairs(rooms or {}) do packed[#packed + 1] = struct.pack('>I4i4', spout, room) end
  return table.concat(packed)
end

--[[
  Applies requests, one after the other, in one atomic step.

  Input   KEYS[1] stamp
          ARGV[1] pair  [2] settings (see open)  [3] rooms: spout index I4 and room i4 of each capped spout task, or ''
          then per request: the set its key hash belongs to ('' without a key), the hash (even, decimal), the hash plus
          one (what is kept where an init found no place), its operations
  Output  {'ok', rooms left, per request '+' (applied) or '=' (a repeat) and its words} or {'stale', pair}
]]
local function apply(keys, args, full)
  local no = refusal(keys[1], args[1])
  if no then return no end
  local c = open(keys[1], args[1], args[2])
  c.rooms, c.full = read_rooms(args[3]), full
  local reply = { 'ok', '' }
  for i = 4, #args, 4 do
    if applied_before(c, args[i], args[i + 1], args[i + 2]) then
      reply[#reply + 1] = '=' .. run(c, repeated, args[i + 3])
    else
      c.applied = false
      local words = run(c, obey, args[i + 3])
      remember(c, args[i], args[i + 1], args[i + 2], words)
      reply[#reply + 1] = '+' .. words
    end
  end
  close(c)
  reply[2] = write_rooms(c.rooms)
  return reply
end

-- For calls that hold inits: Redis refuses it as a whole when its memory is full.
redis.register_function('acker_apply_v1', function(keys, args) return apply(keys, args, false) end)

-- For all other calls, and for one with inits that was refused for memory: its inits answer store_full.
provide('acker_apply_full_v1', function(keys, args) return apply(keys, args, true) end)

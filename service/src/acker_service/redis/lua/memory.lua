--[[
  What the texts of failures may take of the memory of this server. Whoever may ack gives reasons, and they lie where
  nothing else bounds them: in mailboxes, in lists of failures, and beside roots that wait for all of their edges.
]]

local take_room_for_text, read_maxmemory, is_memory_spent

do
  local TEXTS_RATIO, READ_MS, COPIES = 0.75, 1000, 2
  -- What the process of Redis keeps between calls: when it read, maxmemory (0: none), what was used, and the bytes left
  -- for texts.
  local read_at, limit, used, room = -READ_MS, 0, 0, 0

  -- Reads the memory once a second, because to read it takes as long as a call. A server that tells nothing has no limit.
  local function read_memory(now)
    if math.abs(now - read_at) < READ_MS then return end
    local memory = redis.pcall('INFO', 'memory')
    if type(memory) ~= 'string' then memory = '' end
    read_at, limit = now, tonumber(memory:match('maxmemory:(%d+)')) or 0
    used = tonumber(memory:match('used_memory:(%d+)')) or 0
    -- rule: without maxmemory there is room for every text
    room = limit == 0 and math.huge or limit * TEXTS_RATIO - used
  end

  -- Takes room for a long text in a mailbox and in a list of failures. Returns whether there was as much.
  function take_room_for_text(call, text)
    -- rule: a full store has no room for a long text
    if call.store_full then return false end
    read_memory(call.now)
    -- rule: long texts take no more than three quarters of maxmemory
    room = room - COPIES * #text
    return room >= 0
  end

  -- Returns what this server may use at most, 0 without a limit.
  function read_maxmemory(call)
    read_memory(call.now)
    return limit
  end

  -- Whether this server uses all that it may.
  function is_memory_spent(call)
    read_memory(call.now)
    return limit > 0 and used >= limit
  end
end

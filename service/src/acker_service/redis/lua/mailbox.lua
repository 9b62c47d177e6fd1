--[[
  The mailbox: one stream per spout task and shard. Nothing leaves it but what is released. A position is an entry and how
  many of its completions are taken.
]]

local MOST_BYTES = 4194304

local function entry_number(entry)
  local ms, seq = entry:match('^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
end

-- Whether position a is past b. Streams count in 64 bits; milliseconds and sequence numbers in use fit a double.
local function past(a, b)
  local ams, aseq = entry_number(a)
  local bms, bseq = entry_number(b)
  return ams > bms or ams == bms and aseq > bseq
end

-- A position ahead of all the mailbox ever held is another life's: the store was emptied since. It counts as the
-- beginning.
local function is_ahead(key, entry)
  if redis.call('EXISTS', key) == 0 then return false end
  local stream = redis.call('XINFO', 'STREAM', key)
  for i = 1, #stream, 2 do
    if stream[i] == 'last-generated-id' then return past(entry, stream[i + 1]) end
  end
end

local function read_head(base, spout)
  local head = redis.call('HGET', base .. 'heads', spout)
  if not head then return nil, 0 end
  local entry, taken = head:match('^(%S+) (%d+)$')
  return entry, tonumber(taken)
end

-- Notes that a mailbox is read, once a second at most.
local function touch(base, spout)
  local now = clock()
  if now - tonumber(redis.call('HGET', base .. 'used', spout) or 0) >= 1000 then
    redis.call('HSET', base .. 'used', spout, now)
  end
end

--[[
  Reads completions after a position, oldest first, whole entries until there are enough.

  Input   KEYS[1] stamp; ARGV[1] pair  [2] spout index  [3] entry ('' from the beginning)  [4] how many of its completions
          are taken  [5] how many completions are wanted
  Output  {'ok', entry, how many of its completions to skip, its completions, next entry ...}
]]
local function read(keys, args)
  local no = refusal(keys[1], args[1])
  if no then return no end
  local base = keys[1] .. ':' .. args[1]:sub(1, 16) .. ':'
  local key, from, taken, wanted = base .. 'm' .. args[2], args[3], tonumber(args[4]), tonumber(args[5])
  touch(base, args[2])
  if from ~= '' and is_ahead(key, from) then from = '' end
  local head, released = read_head(base, args[2])
  local reply, bytes, start = { 'ok' }, 0, from == '' and '-' or from
  while wanted > 0 and bytes < MOST_BYTES do
    local entries = redis.call('XRANGE', key, start, '+', 'COUNT', 16)
    for _, entry in ipairs(entries) do
      local skip = math.max(entry[1] == from and taken or 0, entry[1] == head and released or 0)
      local left = tonumber(entry[2][2]) - skip
      if left > 0 and wanted > 0 and bytes < MOST_BYTES then
        local n = #reply
        reply[n + 1], reply[n + 2], reply[n + 3] = entry[1], skip, entry[2][4]
        wanted, bytes = wanted - left, bytes + #entry[2][4]
      end
      start = '(' .. entry[1]
    end
    if #entries < 16 then break end
  end
  return reply
end

--[[
  Releases all completions up to a position, in steps.

  Input   KEYS[1] stamp; ARGV[1] pair  [2] spout index  [3] entry  [4] how many of its completions  [5] entries at most
  Output  {'ok', completions released, 1 if there is more to release}
]]
local function release(keys, args)
  local no = refusal(keys[1], args[1])
  if no then return no end
  local base, spout, to, taken = keys[1] .. ':' .. args[1]:sub(1, 16) .. ':', args[2], args[3], tonumber(args[4])
  local key, most = base .. 'm' .. spout, tonumber(args[5])
  if is_ahead(key, to) then return { 'ok', 0, 0 } end
  local head, before = read_head(base, spout)
  local released, gone = 0, {}
  local entries = redis.call('XRANGE', key, '-', to, 'COUNT', most)
  for _, entry in ipairs(entries) do
    local n, begun = tonumber(entry[2][2]), entry[1] == head and before or 0
    local upto = entry[1] == to and math.min(taken, n) or n
    if upto == n then
      gone[#gone + 1] = entry[1]
    elseif upto > begun then
      redis.call('HSET', base .. 'heads', spout, entry[1] .. ' ' .. upto)
    end
    released = released + math.max(upto - begun, 0)
  end
  if #gone > 0 then redis.call('XDEL', key, unpack(gone)) end
  if released > 0 then redis.call('HINCRBY', base .. 'unread', spout, -released) end
  return { 'ok', released, #entries == most and 1 or 0 }
end

-- Input: KEYS[1] stamp; ARGV[1] pair  [2] spout index. Forgets all completions of a spout task; cursors stay good.
-- Output: {'ok', completions discarded}
local function discard(keys, args)
  local no = refusal(keys[1], args[1])
  if no then return no end
  local base, spout = keys[1] .. ':' .. args[1]:sub(1, 16) .. ':', args[2]
  local unread = tonumber(redis.call('HGET', base .. 'unread', spout) or 0)
  redis.call('XTRIM', base .. 'm' .. spout, 'MAXLEN', 0)
  redis.call('HDEL', base .. 'heads', spout)
  redis.call('HDEL', base .. 'unread', spout)
  redis.call('UNLINK', base .. 'retry' .. spout, base .. 'tries' .. spout)
  if unread > 0 then redis.call('HINCRBY', base .. 'counts', 'discarded', unread) end
  return { 'ok', unread }
end

-- Input: KEYS[1] stamp; ARGV[1] pair, then spout indexes. Output: {'ok', newest entry or false ...}: cheap to ask often.
local function tips(keys, args)
  local no = refusal(keys[1], args[1])
  if no then return no end
  local base = keys[1] .. ':' .. args[1]:sub(1, 16) .. ':'
  local found = redis.call('HMGET', base .. 'tips', unpack(args, 2))
  table.insert(found, 1, 'ok')
  return found
end

provide('acker_read_v1', read)
provide('acker_release_v1', release)
provide('acker_discard_v1', discard)
provide('acker_tips_v1', tips)

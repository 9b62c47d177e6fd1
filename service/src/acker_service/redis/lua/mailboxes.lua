--[[
  The mailbox: one stream per spout task and shard. A completion leaves it only when it is released. A position is an
  entry and the number of its completions that are taken.
]]

-- rule: a reading is bounded in bytes
local MAX_BYTES = 4194304
local PAGE_SIZE = 16
local ENTRY_BYTES = 1024  -- what it costs to pass over an entry, as bytes of completions

-- Whether position a is after b. Streams count in 64 bits; milliseconds and sequence numbers in use fit a double.
local function is_after(a, b)
  local a_ms, a_seq = a:match('^(%d+)-(%d+)$')
  local b_ms, b_seq = b:match('^(%d+)-(%d+)$')
  a_ms, b_ms, a_seq, b_seq = tonumber(a_ms), tonumber(b_ms), tonumber(a_seq), tonumber(b_seq)
  -- rule: a position is ahead by its millisecond, then by its entry, and never of itself
  return a_ms > b_ms or a_ms == b_ms and a_seq > b_seq
end

-- Whether a position is beyond every entry that the mailbox ever had: the store was emptied since. Callers then begin
-- at the beginning.
local function is_beyond_end(key, entry)
  if redis.call('EXISTS', key) == 0 then return false end
  local stream = redis.call('XINFO', 'STREAM', key)
  for i = 1, #stream, 2 do
    if stream[i] == 'last-generated-id' then return is_after(entry, stream[i + 1]) end
  end
end

-- Returns the first entry and the number of its completions that are released.
local function read_head(base, spout)
  local head = redis.call('HGET', base .. 'heads', spout)
  if not head then return nil, 0 end
  local entry, taken = head:match('^(%S+) (%d+)$')
  return entry, tonumber(taken)
end

-- Cuts an entry's completions: those after the first `skip`, `wanted` at most, up to the one that reaches `room` bytes.
-- Returns their number, too.
local function cut(packed, skip, left, wanted, room)
  -- rule: an entry is cut behind what was read of it, and at what is wanted
  local start, n = skip_completions(packed, 1, skip), math.min(left, wanted)
  local stop = n == left and #packed + 1 or skip_completions(packed, start, n)
  -- rule: an entry is cut where the room for bytes ends
  if stop - start > room then
    stop, n = start, 0
    while stop - start < room do
      stop, n = skip_completions(packed, stop, 1), n + 1
    end
  end
  return packed:sub(start, stop - 1), n
end

-- Reads a stream of completions, oldest first, after the first `taken` of an entry and without those that are released;
-- until there are `wanted`, or `room` bytes. Calls `append` with each entry, the number of its completions before these
-- and these. Passes over the entries that do not match, so many bytes of them. Returns 1 if there are more, and the last
-- entry of which all is read. Reads few entries first: one may hold a megabyte.
local function read_page(key, from, wanted, room, append, matches)
  -- rule: a cursor ahead of the mailbox stands for its beginning
  if from.entry ~= '' and is_beyond_end(key, from.entry) then from.entry = '' end
  -- rule: a reading begins behind its cursor's entry
  local start, count, last, passable = from.entry == '' and '-' or from.entry, 1, '', MAX_BYTES
  while true do
    local entries = redis.call('XRANGE', key, start, '+', 'COUNT', count)
    for _, entry in ipairs(entries) do
      -- rule: a reading begins behind its cursor, and behind what was released, within an entry
      local skip = math.max(entry[1] == from.entry and from.taken or 0, entry[1] == from.head and from.released or 0)
      local left = tonumber(entry[2][2]) - skip
      if left > 0 then
        -- rule: there is more behind what was wanted, and behind some megabytes that were passed over
        if wanted <= 0 or room <= 0 or passable <= 0 then return 1, last end
        if matches and not matches(entry) then
          passable = passable - #entry[2][4] - ENTRY_BYTES
        else
          local packed, n = cut(entry[2][4], skip, left, wanted, room)
          append(entry, skip, packed)
          -- rule: what is left of an entry is more
          if n < left then return 1, '' end
          -- rule: a reading takes as many as are wanted and no more, and counts their bytes
          wanted, room = wanted - n, room - #packed
        end
      end
      last, start = entry[1], '(' .. entry[1]
    end
    -- rule: a reading goes on behind its first entries, and at the end of a shard has no more
    if #entries < count then return 0, last end
    count = math.min(count * 2, PAGE_SIZE)
  end
end

do
  -- Notes that a mailbox is read, once a second at most.
  local function touch(base, spout)
    local now = clock()
    -- rule: a use is noted once a second
    if now - tonumber(redis.call('HGET', base .. 'read', spout) or 0) >= 1000 then
      redis.call('HSET', base .. 'read', spout, now)
    end
  end

  --[[
    Reads completions after a position, oldest first, and cuts the last entry where there are enough. It does not count
    as a read.

    Input   KEYS[1] shard; ARGV[1] stamp  [2] spout index  [3] entry ('' from the beginning)  [4] number of its
            completions that are taken  [5] number of completions wanted  [6] bytes: reading ends with the completion
            that reaches them
    Output  {'ok', 1 if there are more, entry, number of its completions before these, completions, next entry ...}
  ]]
  local function peek(_, base, args)
    local head, released = read_head(base, args[2])
    local from = { entry = args[3], taken = tonumber(args[4]), head = head, released = released }
    local reply = { 'ok', 0 }
    local function append(entry, skip, packed)
      local n = #reply
      reply[n + 1], reply[n + 2], reply[n + 3] = entry[1], skip, packed
    end
    reply[2] = read_page(base .. 'm' .. args[2], from, tonumber(args[5]), tonumber(args[6]), append)
    return reply
  end

  -- As peek, and counts as a read.
  local function read_completions(key, base, args)
    -- rule: reading uses a spout task
    touch(base, args[2])
    return peek(key, base, args)
  end

  --[[
    Releases all completions up to a position, in steps.

    Input   KEYS[1] shard; ARGV[1] stamp  [2] spout index  [3] entry  [4] number of its completions  [5] limit of
            entries
    Output  {'ok', completions released, 1 if there is more to release}
  ]]
  local function release(_, base, args)
    local spout, to, taken, limit = args[2], args[3], tonumber(args[4]), tonumber(args[5])
    local key = base .. 'm' .. spout
    -- rule: a cursor ahead of the mailbox releases nothing
    if is_beyond_end(key, to) then return { 'ok', 0, 0 } end
    local head, head_released = read_head(base, spout)
    local released, gone, delays, now = 0, {}, {}, clock()
    -- rule: a release ends at its cursor's entry
    local entries = redis.call('XRANGE', key, '-', to, 'COUNT', limit)
    for _, entry in ipairs(entries) do
      local n, before = tonumber(entry[2][2]), entry[1] == head and head_released or 0
      -- rule: a release ends at its cursor within an entry
      local after = entry[1] == to and math.min(taken, n) or n
      if after == n then
        gone[#gone + 1] = entry[1]
      -- rule: a release never goes back
      elseif after > before then
        -- rule: a release is remembered within an entry
        redis.call('HSET', base .. 'heads', spout, entry[1] .. ' ' .. after)
      end
      -- rule: what was released is counted once, and nothing by a release that is behind
      released = released + math.max(after - before, 0)
      add_release(delays, entry[2][4], now, after - before)
    end
    -- rule: what was released is gone
    if #gone > 0 then redis.call('XDEL', key, unpack(gone)) end
    -- rule: what was released is unread no longer
    if released > 0 then redis.call('HINCRBY', base .. 'unread', spout, -released) end
    write_delays(base, 'release', delays)
    -- rule: a release goes on in steps
    return { 'ok', released, #entries == limit and 1 or 0 }
  end

  -- Input: KEYS[1] shard; ARGV[1] stamp  [2] spout index. Discards all completions of a spout task; cursors stay valid.
  -- Output: {'ok', completions discarded}
  local function discard(_, base, args)
    local spout = args[2]
    -- rule: a discard says how many it discarded
    local unread = tonumber(redis.call('HGET', base .. 'unread', spout) or 0)
    -- rule: a discard empties the mailbox
    redis.call('XTRIM', base .. 'm' .. spout, 'MAXLEN', 0)
    redis.call('HDEL', base .. 'heads', spout)
    -- rule: what was discarded is unread no longer
    redis.call('HDEL', base .. 'unread', spout)
    redis.call('UNLINK', base .. 'retry' .. spout, base .. 'tries' .. spout)
    if unread > 0 then redis.call('HINCRBY', base .. 'counts', 'discarded', unread) end
    return { 'ok', unread }
  end

  -- Input: KEYS[1] shard; ARGV[1] stamp, then spout indexes. Output: {'ok', newest entry or false ...}. Cheap to poll.
  local function tips(_, base, args)
    -- rule: a tip is its spout task's
    local found = redis.call('HMGET', base .. 'tips', unpack(args, 2))
    table.insert(found, 1, 'ok')
    return found
  end

  register_on_shard('acker_read_v2', read_completions)
  register_on_shard('acker_peek_v1', peek)
  register_on_shard('acker_release_v1', release)
  register_on_shard('acker_discard_v1', discard)
  register_on_shard('acker_tips_v1', tips)
end

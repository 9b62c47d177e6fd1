--[[
  Dead letters: completions whose every delivery failed. They stay until a call puts them back into the mailbox or
  discards them.
]]

do
  local function read(base, args, room, append)
    local from = { entry = args[3], taken = tonumber(args[4]) }
    return read_page(base .. 'd' .. args[2], from, tonumber(args[5]), room, append)
  end

  local function append_dead(reply, item, skip, packed)
    local f = item[2]
    for _, value in ipairs({ item[1], skip, packed, tonumber(f[6]), f[8], tonumber(f[10]) }) do
      reply[#reply + 1] = value
    end
  end

  --[[
    Reads dead letters after a position, oldest first, and cuts the last entry where there are enough.

    Input   KEYS[1] shard; ARGV[1] stamp  [2] spout index  [3] entry ('' from the beginning)  [4] number of its
            completions that are taken  [5] number of completions wanted  [6] bytes: reading ends with the completion
            that reaches them
    Output  {'ok', 1 if there are more, entry, number of its completions before these, completions, tries, last error,
            time, next entry ...}
  ]]
  local function read_dead(_, base, args)
    local reply = { 'ok', 0 }
    reply[2] = read(base, args, tonumber(args[6]), function(...) append_dead(reply, ...) end)
    return reply
  end

  -- As read_dead, for the release before: without [6], and entries are whole.
  -- Output: {'ok', entry, number of its completions to skip, its completions, tries, last error, time, next entry ...}
  local function read_dead_entries(_, base, args)
    local reply = { 'ok' }
    read(base, args, MAX_BYTES, function(item, skip) append_dead(reply, item, skip, item[2][4]) end)
    return reply
  end

  -- Ends the oldest dead letters, `limit` entries at most: calls `handle` with each and deletes it. Gives the number of
  -- completions, and 1 if there may be more.
  local function end_dead(base, spout, limit, handle)
    local key, total = base .. 'd' .. spout, 0
    local entries = redis.call('XRANGE', key, '-', '+', 'COUNT', limit)
    for _, item in ipairs(entries) do
      handle(tonumber(item[2][2]), item[2][4])
      redis.call('XDEL', key, item[1])
      total = total + tonumber(item[2][2])
    end
    if total > 0 then redis.call('HINCRBY', base .. 'dead', spout, -total) end
    return total, #entries == tonumber(limit) and 1 or 0
  end

  -- Input: KEYS[1] shard; ARGV[1] stamp  [2] spout index  [3] limit of entries. Puts dead letters back into the
  -- mailbox, to be sent as if they had never been tried. Output: {'ok', completions, 1 if there may be more}
  local function replay_dead(key, base, args)
    local spout = args[2]
    local total, more = end_dead(base, spout, args[3], function(n, packed) add_entry(base, spout, n, packed) end)
    if total > 0 then
      redis.call('HINCRBY', base .. 'unread', spout, total)
      publish_hint(key .. ':hints', args[1]:sub(1, 16), spout)
    end
    return { 'ok', total, more }
  end

  -- Input: KEYS[1] shard; ARGV[1] stamp  [2] spout index  [3] limit of entries. Discards dead letters.
  -- Output: {'ok', completions, 1 if there may be more}
  local function discard_dead(_, base, args)
    local total, more = end_dead(base, args[2], args[3], function() end)
    if total > 0 then redis.call('HINCRBY', base .. 'counts', 'discarded', total) end
    return { 'ok', total, more }
  end

  register_on_shard('acker_read_dead_v1', read_dead_entries)
  register_on_shard('acker_read_dead_v2', read_dead)
  register_on_shard('acker_replay_dead_v1', replay_dead)
  register_on_shard('acker_discard_dead_v1', discard_dead)
end

--[[
  Dead letters: completions whose every delivery failed. They stay until a call puts them back into the mailbox or
  discards them.
]]

do
  -- Returns whether a dead letter matches: its error contains a text, and its time lies between two times, both included.
  -- These are the arguments from `first` on, '' for what is not asked for.
  local function filter(args, first)
    local text, from, to = args[first], tonumber(args[first + 1]), tonumber(args[first + 2])
    return function(item)
      local fields = item[2]
      local at = tonumber(fields[10])
      -- rule: a dead letter matches by a plain text of its error and by its time, both ends included
      return fields[8]:find(text, 1, true) ~= nil and (not from or at >= from) and (not to or at <= to)
    end
  end

  --[[
    Reads dead letters that match after a position, oldest first, and cuts the last entry where there are enough.

    Input   KEYS[1] shard; ARGV[1] stamp  [2] spout index  [3] entry ('' from the beginning)  [4] number of its
            completions that are taken  [5] number of completions wanted  [6] bytes: reading ends with the completion
            that reaches them  [7] text of the error  [8] first time  [9] last time
    Output  {'ok', 1 if there may be more, last entry of which all was looked at ('': that of the last completion),
            entry, number of its completions before these, completions, tries, last error, time, next entry ...}
  ]]
  local function read_dead(_, base, args)
    -- rule: a page of dead letters skips what was taken
    local from = { entry = args[3], taken = tonumber(args[4]) }
    local key, reply = base .. 'd' .. args[2], { 'ok', 0, '' }
    local function append(item, skip, packed)
      local f = item[2]
      for _, value in ipairs({ item[1], skip, packed, tonumber(f[6]), f[8], tonumber(f[10]) }) do
        reply[#reply + 1] = value
      end
    end
    -- rule: a list of dead letters passes over those that do not match
    reply[2], reply[3] = read_page(key, from, tonumber(args[5]), tonumber(args[6]), append, filter(args, 7))
    return reply
  end

  --[[
    Ends dead letters: looks at the oldest behind an entry, `limit` entries at most, calls `handle` with each that
    matches and deletes it. Returns the reply.

    Input   KEYS[1] shard; ARGV[1] stamp  [2] spout index  [3] limit of entries  [4] entry ('' from the beginning)
            [5] text of the error  [6] first time  [7] last time
    Output  {'ok', completions, 1 if there may be more, last entry that was looked at}
  ]]
  local function end_dead(base, args, handle)
    local spout, after, matches, total = args[2], args[4], filter(args, 5), 0
    local key = base .. 'd' .. spout
    -- rule: a step ends dead letters behind the last one of the step before
    local entries = redis.call('XRANGE', key, after == '' and '-' or '(' .. after, '+', 'COUNT', args[3])
    for _, item in ipairs(entries) do
      -- rule: a dead letter that does not match stays
      if matches(item) then
        handle(tonumber(item[2][2]), item[2][4])
        -- rule: a dead letter that was ended is gone
        redis.call('XDEL', key, item[1])
        total = total + tonumber(item[2][2])
      end
    end
    -- rule: dead letters that were ended are counted no more
    if total > 0 then redis.call('HINCRBY', base .. 'dead', spout, -total) end
    local last = #entries > 0 and entries[#entries][1] or after
    return { 'ok', total, #entries == tonumber(args[3]) and 1 or 0, last }
  end

  -- Puts dead letters back into the mailbox, to be sent as if they had never been tried.
  local function replay_dead(key, base, args)
    local spout = args[2]
    -- rule: dead letters that are put back lie in the mailbox
    local reply = end_dead(base, args, function(n, packed) add_entry(base, spout, n, packed) end)
    if reply[2] > 0 then
      -- rule: dead letters that are put back are unread
      redis.call('HINCRBY', base .. 'unread', spout, reply[2])
      publish_hint(key .. ':hints', args[1]:sub(1, 16), spout)
    end
    return reply
  end

  local function discard_dead(_, base, args)
    local reply = end_dead(base, args, function() end)
    -- rule: dead letters that are discarded are counted
    if reply[2] > 0 then redis.call('HINCRBY', base .. 'counts', 'discarded', reply[2]) end
    return reply
  end

  register_on_shard('acker_read_dead_v3', read_dead)
  register_on_shard('acker_replay_dead_v2', replay_dead)
  register_on_shard('acker_discard_dead_v2', discard_dead)
end

--[[
  Dead letters: completions that every try to deliver failed for. They stay until they are put back into the mailbox or
  thrown away by a call.
]]

--[[
  Reads dead letters after a position, oldest first, whole entries until there are enough.

  Input   KEYS[1] stamp; ARGV[1] pair  [2] spout index  [3] entry ('' from the beginning)  [4] how many of its completions
          are taken  [5] how many completions are wanted
  Output  {'ok', entry, how many of its completions to skip, its completions, tries, what went wrong, when, next entry ...}
]]
local function read_dead(keys, args)
  local no = refusal(keys[1], args[1])
  if no then return no end
  local key, from, taken, wanted = base_of(keys, args) .. 'd' .. args[2], args[3], tonumber(args[4]), tonumber(args[5])
  if from ~= '' and is_ahead(key, from) then from = '' end
  local reply, bytes, start = { 'ok' }, 0, from == '' and '-' or from
  while wanted > 0 and bytes < MOST_BYTES do
    local entries = redis.call('XRANGE', key, start, '+', 'COUNT', AT_A_LOOK)
    for _, it in ipairs(entries) do
      local f, skip = it[2], it[1] == from and taken or 0
      if tonumber(f[2]) > skip and wanted > 0 and bytes < MOST_BYTES then
        for _, value in ipairs({ it[1], skip, f[4], tonumber(f[6]), f[8], tonumber(f[10]) }) do reply[#reply + 1] = value end
        wanted, bytes = wanted - (tonumber(f[2]) - skip), bytes + #f[4]
      end
      start = '(' .. it[1]
    end
    if #entries < AT_A_LOOK then break end
  end
  return reply
end

-- Ends the oldest dead letters, so many entries at most: `put` each, and forget it. Gives how many completions, and
-- whether there are more.
local function end_dead(base, spout, most, put)
  local key, total = base .. 'd' .. spout, 0
  local entries = redis.call('XRANGE', key, '-', '+', 'COUNT', most)
  for _, it in ipairs(entries) do
    put(tonumber(it[2][2]), it[2][4])
    redis.call('XDEL', key, it[1])
    total = total + tonumber(it[2][2])
  end
  if total > 0 then redis.call('HINCRBY', base .. 'dead', spout, -total) end
  return total, #entries == tonumber(most) and 1 or 0
end

-- Input: KEYS[1] stamp; ARGV[1] pair  [2] spout index  [3] entries at most. Puts dead letters back into the mailbox, to be
-- sent as if they had never been tried. Output: {'ok', completions, 1 if there may be more}
local function replay_dead(keys, args)
  local no = refusal(keys[1], args[1])
  if no then return no end
  local base, spout = base_of(keys, args), args[2]
  local total, more = end_dead(base, spout, args[3], function(n, packed) add_entry(base, spout, n, packed) end)
  if total > 0 then
    redis.call('HINCRBY', base .. 'unread', spout, total)
    redis.call('SPUBLISH', keys[1] .. ':hints', args[1]:sub(1, 16) .. ' ' .. spout)
  end
  return { 'ok', total, more }
end

-- Input: KEYS[1] stamp; ARGV[1] pair  [2] spout index  [3] entries at most. Throws dead letters away.
-- Output: {'ok', completions, 1 if there may be more}
local function discard_dead(keys, args)
  local no = refusal(keys[1], args[1])
  if no then return no end
  local base = base_of(keys, args)
  local total, more = end_dead(base, args[2], args[3], function() end)
  if total > 0 then redis.call('HINCRBY', base .. 'counts', 'discarded', total) end
  return { 'ok', total, more }
end

provide('acker_read_dead_v1', read_dead)
provide('acker_replay_dead_v1', replay_dead)
provide('acker_discard_dead_v1', discard_dead)

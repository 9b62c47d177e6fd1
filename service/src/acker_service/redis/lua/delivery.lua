--[[
  Delivery: a worker takes what is to be sent to a spout task's callback, sends it, and says what became of it. Nothing
  leaves the mailbox but in the step that settles it. What was tried and did not succeed waits in retry<i> for its next
  try; what was never tried lies behind the place that `sent` names. One worker at a time delivers for a spout task: it
  holds the lease, which one of the shards keeps.
]]

local MOST_AGAIN = 1000
local MOST_DIVIDED = 4
local LOOKS = 64
local AT_A_LOOK = 16

local function base_of(keys, args)
  return keys[1] .. ':' .. args[1]:sub(1, 16) .. ':'
end

-- Forgets what became of a spout task's completions: all that is in the mailbox is to be sent, at once, as if it had
-- never been tried.
local function begin_anew(base, spout)
  redis.call('UNLINK', base .. 'retry' .. spout, base .. 'tries' .. spout)
  for _, name in ipairs({ 'sent', 'leases', 'failing' }) do redis.call('HDEL', base .. name, spout) end
end

-- Whether a callback is still the one that this shard delivers to, by when it began; a later one begins anew. Gives when
-- the shard's began, too.
local function is_current(base, spout, since)
  local begun = tonumber(redis.call('HGET', base .. 'begun', spout) or 0)
  if tonumber(since) > begun then
    begin_anew(base, spout)
    redis.call('HSET', base .. 'begun', spout, since)
  end
  return tonumber(since) >= begun, begun
end

-- Takes the lease, or holds it longer. Gives for how long it still is another worker's, if it is.
local function lease(base, spout, worker, span, now)
  local by, till = (redis.call('HGET', base .. 'leases', spout) or ' 0'):match('^(.*) (%d+)$')
  if by ~= worker and tonumber(till) > now then return tonumber(till) - now end
  redis.call('HSET', base .. 'leases', spout, worker .. ' ' .. string.format('%.0f', now + span))
end

local function note_sent(base, spout, entry)
  local sent = redis.call('HGET', base .. 'sent', spout)
  if not sent or past(entry, sent) then redis.call('HSET', base .. 'sent', spout, entry) end
end

local function forget_entry(base, spout, entry)
  redis.call('XDEL', base .. 'm' .. spout, entry)
  redis.call('ZREM', base .. 'retry' .. spout, entry)
  redis.call('HDEL', base .. 'tries' .. spout, entry)
end

local function add_entry(base, spout, n, packed)
  local entry = redis.call('XADD', base .. 'm' .. spout, '*', 'n', n, 'c', packed)
  redis.call('HSET', base .. 'tips', spout, entry)
  return entry
end

-- Gives where the completion behind this one begins.
local function behind(packed, at)
  local flags, stop = packed:byte(at + 18), at + 19
  for _, flag in ipairs({ 4, 8, 16 }) do
    if bit.band(flags, flag) ~= 0 then stop = stop + 2 + struct.unpack('>I2', packed, stop) end
  end
  return stop
end

-- Divides an entry that is more than one request may hold into entries of their own, without what was released of it.
local function divide(base, spout, entry, packed, skip, most)
  local at, n, start = 1, 0, 1
  while at <= #packed do
    at, n = behind(packed, at), n + 1
    if skip > 0 then
      skip, n, start = skip - 1, 0, at
    elseif n == most or at > #packed then
      add_entry(base, spout, n, packed:sub(start, at - 1))
      n, start = 0, at
    end
  end
  forget_entry(base, spout, entry)
end

-- Gives the entries that are due again and failed together, the longest due of all, and when they were due; forgets
-- those that were released meanwhile.
local function due_again(base, spout, now)
  local found, retry, tries = {}, base .. 'retry' .. spout, base .. 'tries' .. spout
  local head, released = read_head(base, spout)
  for _ = 1, LOOKS do
    local due = redis.call('ZRANGE', retry, '-inf', now, 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2]
    if not due then break end
    for _, entry in ipairs(redis.call('ZRANGE', retry, due, due, 'BYSCORE', 'LIMIT', 0, MOST_AGAIN)) do
      local there = redis.call('XRANGE', base .. 'm' .. spout, entry, entry)[1]
      if there then
        local tried = tonumber(redis.call('HGET', tries, entry) or 0)
        found[#found + 1] = { entry, tried, entry == head and released or 0, there[2][4] }
      else
        redis.call('ZREM', retry, entry)
        redis.call('HDEL', tries, entry)
      end
    end
    if #found > 0 then return found, due end
  end
  return found, ''
end

-- Gives entries that were never tried, until there are enough completions, and whether there may be more. Entries of
-- more than `most` completions (0: any number may be) are divided, and so come last.
local function fresh(base, spout, wanted, most)
  local key, retry, found, bytes, divided = base .. 'm' .. spout, base .. 'retry' .. spout, {}, 0, 0
  local head, released = read_head(base, spout)
  local sent = redis.call('HGET', base .. 'sent', spout)
  local start = sent and not is_ahead(key, sent) and '(' .. sent or '-'
  for _ = 1, LOOKS do
    local entries, before = redis.call('XRANGE', key, start, '+', 'COUNT', AT_A_LOOK), divided
    for _, it in ipairs(entries) do
      if wanted <= 0 or bytes >= MOST_BYTES or divided == MOST_DIVIDED then return found, 1 end
      local entry, packed, skip = it[1], it[2][4], it[1] == head and released or 0
      local n = tonumber(it[2][2]) - skip
      start = '(' .. entry
      if redis.call('ZSCORE', retry, entry) then
        if #found == 0 then note_sent(base, spout, entry) end
      elseif most > 0 and n > most then
        divide(base, spout, entry, packed, skip, most)
        divided = divided + 1
      else
        found[#found + 1] = { entry, 0, skip, packed }
        wanted, bytes = wanted - n, bytes + #packed
      end
    end
    if #entries < AT_A_LOOK and divided == before then return found, 0 end
  end
  return found, 1
end

--[[
  Takes what is to be sent: what failed together and is due again, or else what was never tried. It stays where it is.

  Input   KEYS[1] stamp; ARGV[1] pair  [2] spout index  [3] since when the callback is what it is  [4] worker, or '' on a
          shard that does not keep the lease  [5] milliseconds it is leased for  [6] the time, by which tries are due
          [7] completions wanted of those never tried  [8] completions of an entry at most, 0: any number
  Output  {'ok', 'old', since when} if the shard's callback is a later one, {'ok', 'held', for how long} if another worker
          has the lease, or {'ok', 'taken', when those due again were due or '', 1 if there may be more, when the next are due again or '',
          since when nothing succeeded or '', {entry, tries, how many completions to skip, completions} ...}
]]
local function take(keys, args)
  local no = refusal(keys[1], args[1])
  if no then return no end
  local base, spout = base_of(keys, args), args[2]
  local current, begun = is_current(base, spout, args[3])
  if not current then return { 'ok', 'old', begun } end
  local left = args[4] ~= '' and lease(base, spout, args[4], tonumber(args[5]), clock())
  if left then return { 'ok', 'held', left } end
  local found, due = due_again(base, spout, args[6])
  local more = 1
  if due == '' then found, more = fresh(base, spout, tonumber(args[7]), tonumber(args[8])) end
  local first = redis.call('ZRANGE', base .. 'retry' .. spout, 0, 0, 'WITHSCORES')
  local reply = { 'ok', 'taken', due, more, first[2] or '', redis.call('HGET', base .. 'failing', spout) or '' }
  for _, item in ipairs(found) do reply[#reply + 1] = item end
  return reply
end

-- Input: KEYS[1] stamp; ARGV[1] pair  [2] spout index  [3] worker  [4] milliseconds for which nobody shall have the lease.
-- Gives the lease back. Output: {'ok'}
local function leave(keys, args)
  local no = refusal(keys[1], args[1])
  if no then return no end
  local base = base_of(keys, args)
  local by = (redis.call('HGET', base .. 'leases', args[2]) or ''):match('^(.*) %d+$')
  if by ~= args[3] then return { 'ok' } end
  if args[4] == '0' then
    redis.call('HDEL', base .. 'leases', args[2])
  else
    redis.call('HSET', base .. 'leases', args[2], '- ' .. string.format('%.0f', clock() + tonumber(args[4])))
  end
  return { 'ok' }
end

-- Keeps what is left of an entry to be tried again: all of it stays where it is, a part becomes an entry of its own.
local function keep_for_retry(base, spout, entry, at, left, rest)
  local tries = base .. 'tries' .. spout
  local count = tonumber(redis.call('HGET', tries, entry) or 0) + 1
  if rest ~= '' then
    forget_entry(base, spout, entry)
    entry = add_entry(base, spout, left, rest)
  end
  redis.call('HSET', tries, entry, count)
  redis.call('ZADD', base .. 'retry' .. spout, at, entry)
end

local function move_to_dead(base, spout, entry, left, rest, why)
  local count = tonumber(redis.call('HGET', base .. 'tries' .. spout, entry) or 0) + 1
  forget_entry(base, spout, entry)
  redis.call('XADD', base .. 'd' .. spout, '*', 'n', left, 'c', rest, 'a', count, 'e', why,
    't', string.format('%.0f', clock()))
  redis.call('HINCRBY', base .. 'dead', spout, left)
end

-- Settles one entry that is there. Gives what is counted, and how many are unread no more.
local function settle_entry(base, spout, n, v, why)
  note_sent(base, spout, v.entry)
  if v.word == 'done' then
    forget_entry(base, spout, v.entry)
    return { delivered = n }, n
  elseif v.word == 'retry' then
    local left = v.rest == '' and n or v.left
    keep_for_retry(base, spout, v.entry, v.at, left, v.rest)
    return { delivered = n - left, retried = left }, n - left
  elseif v.word == 'dead' then
    move_to_dead(base, spout, v.entry, v.left, v.rest, why)
    return { delivered = n - v.left, dead = v.left }, n
  end
  return { published = n }, 0
end

local function note_success(base, spout, succeeded)
  if succeeded == '1' then redis.call('HDEL', base .. 'failing', spout) end
  if succeeded == '0' then redis.call('HSETNX', base .. 'failing', spout, string.format('%.0f', clock())) end
end

--[[
  Settles what was taken: all of it in one step. An entry that is no longer there was settled before; of what was taken for
  a callback that is another by now only what was delivered counts.

  Input   KEYS[1] stamp; ARGV[1] pair  [2] spout index  [3] since when the callback is what it is  [4] 1 if the receiver took
          anything, 0 if not, '' if it cannot be told  [5] why what is left failed; then per entry: entry, verdict (done,
          retry, dead, or sent: published and kept), when it is tried again, how many of its completions are left, those
          completions ('' to try all of them again)
  Output  {'ok'}
]]
local function settle_delivery(keys, args)
  local no = refusal(keys[1], args[1])
  if no then return no end
  local base, spout, totals, unread = base_of(keys, args), args[2], {}, 0
  local current = is_current(base, spout, args[3])
  for i = 6, #args, 5 do
    local v = { entry = args[i], word = args[i + 1], at = args[i + 2], left = tonumber(args[i + 3]), rest = args[i + 4] }
    local there = redis.call('XRANGE', base .. 'm' .. spout, v.entry, v.entry)[1]
    if there and (current or v.word == 'done') then
      local head, released = read_head(base, spout)
      local n = tonumber(there[2][2]) - (v.entry == head and released or 0)
      local counted, gone = settle_entry(base, spout, n, v, args[5])
      for name, change in pairs(counted) do totals[name] = (totals[name] or 0) + math.max(change, 0) end
      unread = unread - gone
    end
  end
  for name, change in pairs(totals) do
    if change > 0 then redis.call('HINCRBY', base .. 'counts', name, change) end
  end
  if unread ~= 0 then redis.call('HINCRBY', base .. 'unread', spout, unread) end
  if current then note_success(base, spout, args[4]) end
  return { 'ok' }
end

-- Input: KEYS[1] stamp; ARGV[1] pair, then spout indexes. Output: {'ok', now, oldest entry or false ...}
local function oldest(keys, args)
  local no = refusal(keys[1], args[1])
  if no then return no end
  local reply = { 'ok', clock() }
  for i = 2, #args do
    local entry = redis.call('XRANGE', base_of(keys, args) .. 'm' .. args[i], '-', '+', 'COUNT', 1)[1]
    reply[#reply + 1] = entry and entry[1] or false
  end
  return reply
end

provide('acker_oldest_v1', oldest)
provide('acker_take_v1', take)
provide('acker_leave_v1', leave)
provide('acker_settle_v1', settle_delivery)

--[[
  Delivery: a worker claims completions for a spout task's callback, sends them, and settles them. A completion leaves
  the mailbox only in the step that settles it. Entries that were tried without success wait in retry<i> for their next
  try; entries that were never tried come after the position in `sent`. One worker at a time delivers for a spout task:
  it holds the lease, which one of the shards stores.
]]

local function add_entry(base, spout, n, packed)
  local entry = redis.call('XADD', base .. 'm' .. spout, '*', 'n', n, 'c', packed)
  redis.call('HSET', base .. 'tips', spout, entry)
  return entry
end

do
  local MAX_RETRIES = 1000
  local MAX_SPLITS = 4
  local MAX_PAGES = 64

  -- Forgets all tries of a spout task's completions: everything in the mailbox is sent at once, as if never tried.
  local function reset_delivery(base, spout)
    redis.call('UNLINK', base .. 'retry' .. spout, base .. 'tries' .. spout)
    for _, name in ipairs({ 'sent', 'leases', 'failing', 'delivered', 'errors' }) do redis.call('HDEL', base .. name, spout) end
  end

  -- Fences off an older callback: whether this epoch is the one that the shard delivers to. A later epoch takes over
  -- and starts again. Returns the shard's own epoch, too.
  local function check_callback_epoch(base, spout, epoch)
    local own = tonumber(redis.call('HGET', base .. 'begun', spout) or 0)
    if tonumber(epoch) > own then
      -- rule: a callback that was led elsewhere begins anew
      reset_delivery(base, spout)
      redis.call('HSET', base .. 'begun', spout, epoch)
    end
    return tonumber(epoch) >= own, own
  end

  -- Takes or extends the lease. If another worker holds it, gives the milliseconds until its end.
  local function lease(base, spout, worker, span, now)
    local holder, leased_until = (redis.call('HGET', base .. 'leases', spout) or ' 0'):match('^(.*) (%d+)$')
    -- rule: a lease is another's while its worker holds it and it is not past
    if holder ~= worker and tonumber(leased_until) > now then return tonumber(leased_until) - now end
    redis.call('HSET', base .. 'leases', spout, worker .. ' ' .. string.format('%.0f', now + span))
  end

  local function advance_sent(base, spout, entry)
    local sent = redis.call('HGET', base .. 'sent', spout)
    if not sent or is_after(entry, sent) then redis.call('HSET', base .. 'sent', spout, entry) end
  end

  local function remove_entry(base, spout, entry)
    redis.call('XDEL', base .. 'm' .. spout, entry)
    redis.call('ZREM', base .. 'retry' .. spout, entry)
    redis.call('HDEL', base .. 'tries' .. spout, entry)
  end

  -- Splits an entry that is too large for one request into entries of `limit` completions, without its released ones.
  local function split_entry(base, spout, entry, packed, skip, limit)
    local at, n, start = 1, 0, 1
    while at <= #packed do
      at, n = skip_completions(packed, at, 1), n + 1
      if skip > 0 then
        skip, n, start = skip - 1, 0, at
      elseif n == limit or at > #packed then
        add_entry(base, spout, n, packed:sub(start, at - 1))
        n, start = 0, at
      end
    end
    remove_entry(base, spout, entry)
  end

  -- Returns the entries that failed together and are due the longest, and their time; drops those that were released.
  local function due_retries(base, spout, now)
    local found, retry, tries = {}, base .. 'retry' .. spout, base .. 'tries' .. spout
    local head, released = read_head(base, spout)
    for _ = 1, MAX_PAGES do
      local due = redis.call('ZRANGE', retry, '-inf', now, 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2]
      if not due then break end
      for _, entry in ipairs(redis.call('ZRANGE', retry, due, due, 'BYSCORE', 'LIMIT', 0, MAX_RETRIES)) do
        local stored = redis.call('XRANGE', base .. 'm' .. spout, entry, entry)[1]
        if stored then
          local tried = tonumber(redis.call('HGET', tries, entry) or 0)
          found[#found + 1] = { entry, tried, entry == head and released or 0, stored[2][4] }
        else
          redis.call('ZREM', retry, entry)
          redis.call('HDEL', tries, entry)
        end
      end
      if #found > 0 then return found, due end
    end
    return found, ''
  end

  -- Returns entries that were never tried, until they hold enough completions, and 1 if there may be more. Entries of
  -- more than `limit` completions (0: no limit) are split, and so come last.
  local function untried(base, spout, wanted, limit)
    local key, retry, found, bytes, splits = base .. 'm' .. spout, base .. 'retry' .. spout, {}, 0, 0
    local head, released = read_head(base, spout)
    local sent = redis.call('HGET', base .. 'sent', spout)
    local start = sent and not is_beyond_end(key, sent) and '(' .. sent or '-'
    for _ = 1, MAX_PAGES do
      local entries, splits_before = redis.call('XRANGE', key, start, '+', 'COUNT', PAGE_SIZE), splits
      for _, item in ipairs(entries) do
        if wanted <= 0 or bytes >= MAX_BYTES or splits == MAX_SPLITS then return found, 1 end
        -- rule: what was released of an entry is not delivered
        local entry, packed, skip = item[1], item[2][4], item[1] == head and released or 0
        local n = tonumber(item[2][2]) - skip
        start = '(' .. entry
        -- rule: what waits for its next try is not fresh
        if redis.call('ZSCORE', retry, entry) then
          if #found == 0 then advance_sent(base, spout, entry) end
        elseif limit > 0 and n > limit then
          split_entry(base, spout, entry, packed, skip, limit)
          splits = splits + 1
        else
          found[#found + 1] = { entry, 0, skip, packed }
          wanted, bytes = wanted - n, bytes + #packed
        end
      end
      if #entries < PAGE_SIZE and splits == splits_before then return found, 0 end
    end
    return found, 1
  end

  --[[
    Claims completions to send: entries that failed together and are due for a retry, or else untried ones. They stay in
    the mailbox.

    Input   KEYS[1] shard; ARGV[1] stamp  [2] spout index  [3] epoch of the callback  [4] worker, or '' on a shard that
            does not store the lease  [5] milliseconds of the lease  [6] the time by which retries are due  [7] number
            of untried completions wanted  [8] limit of completions per entry, 0: none
    Output  {'ok', 'old', epoch} if the shard's callback is a later one, {'ok', 'held', milliseconds left} if another
            worker has the lease, or {'ok', 'taken', time when these retries were due or '', 1 if there may be more,
            time of the next retry or '', time of the first failure since the last success or '',
            {entry, tries, number of completions to skip, completions} ...}
  ]]
  local function claim(_, base, args)
    local spout = args[2]
    local current, epoch = check_callback_epoch(base, spout, args[3])
    if not current then return { 'ok', 'old', epoch } end
    local left = args[4] ~= '' and lease(base, spout, args[4], tonumber(args[5]), clock())
    if left then return { 'ok', 'held', left } end
    local found, due = due_retries(base, spout, args[6])
    local more = 1
    if due == '' then found, more = untried(base, spout, tonumber(args[7]), tonumber(args[8])) end
    local next_retry = redis.call('ZRANGE', base .. 'retry' .. spout, 0, 0, 'WITHSCORES')[2] or ''
    local reply = { 'ok', 'taken', due, more, next_retry, redis.call('HGET', base .. 'failing', spout) or '' }
    for _, item in ipairs(found) do reply[#reply + 1] = item end
    return reply
  end

  -- Input: KEYS[1] shard; ARGV[1] stamp  [2] spout index  [3] worker  [4] milliseconds for which no worker may have the
  -- lease. Releases the lease. Output: {'ok'}
  local function release_lease(_, base, args)
    local holder = (redis.call('HGET', base .. 'leases', args[2]) or ''):match('^(.*) %d+$')
    -- rule: nobody gives back the lease of another
    if holder ~= args[3] then return { 'ok' } end
    if args[4] == '0' then
      -- rule: a lease is given back
      redis.call('HDEL', base .. 'leases', args[2])
    else
      -- rule: a receiver that asks for it is left alone
      redis.call('HSET', base .. 'leases', args[2], '- ' .. string.format('%.0f', clock() + tonumber(args[4])))
    end
    return { 'ok' }
  end

  -- Returns an entry's tries with this one, and those stored.
  local function count_tries(base, spout, result)
    local stored = tonumber(redis.call('HGET', base .. 'tries' .. spout, result.entry) or 0)
    -- rule: a late failure takes back no try
    return math.max(stored, result.tried), stored
  end

  -- Schedules the rest of an entry for a retry: a whole entry stays where it is, a part becomes a new entry.
  local function keep_for_retry(base, spout, entry, tried, retry_at, left, rest)
    local tries = base .. 'tries' .. spout
    -- rule: a part that is asked for again is what is left
    if rest ~= '' then
      remove_entry(base, spout, entry)
      entry = add_entry(base, spout, left, rest)
    end
    -- rule: tries are counted
    redis.call('HSET', tries, entry, tried)
    -- rule: what failed waits for its time
    redis.call('ZADD', base .. 'retry' .. spout, retry_at, entry)
  end

  local function move_to_dead(base, spout, entry, tried, left, rest, why)
    -- rule: a dead letter leaves the mailbox
    remove_entry(base, spout, entry)
    redis.call('XADD', base .. 'd' .. spout, '*', 'n', left, 'c', rest, 'a', tried, 'e', why,
      't', string.format('%.0f', clock()))
    -- rule: dead letters are counted
    redis.call('HINCRBY', base .. 'dead', spout, left)
  end

  -- Settles one stored entry of n completions. Returns the changes of the counts, and how many are no longer unread.
  local function settle_entry(base, spout, n, result, why)
    local tried, tried_before = count_tries(base, spout, result)
    -- rule: what was sent is not fresh again, but a part hides nothing that was never tried
    if tried_before == 0 then advance_sent(base, spout, result.entry) end  -- a part is newer than what was never tried
    if result.kind == 'done' then
      -- rule: what was delivered leaves the mailbox
      remove_entry(base, spout, result.entry)
      -- rule: what was delivered is counted, and is unread no more
      return { delivered = n }, n
    elseif result.kind == 'retry' then
      -- rule: a try that was settled before is not counted again
      if result.rest == '' and tried == tried_before then return {}, 0 end
      local left = result.rest == '' and n or result.left
      keep_for_retry(base, spout, result.entry, tried, result.retry_at, left, result.rest)
      return { delivered = n - left, retried = left }, n - left
    elseif result.kind == 'dead' then
      move_to_dead(base, spout, result.entry, tried, result.left, result.rest, why)
      return { delivered = n - result.left, dead = result.left }, n
    end
    -- rule: what was published stays, and is unread
    return { published = n }, 0
  end

  local function note_result(base, spout, succeeded, why)
    local now = string.format('%.0f', clock())
    if succeeded == '1' then
      redis.call('HDEL', base .. 'failing', spout)
      redis.call('HSET', base .. 'delivered', spout, now)
    end
    -- rule: it is remembered since when nothing succeeded
    if succeeded == '0' then redis.call('HSETNX', base .. 'failing', spout, now) end
    if why ~= '' then redis.call('HSET', base .. 'errors', spout, now .. ' ' .. why) end
  end

  -- Returns the number of completions at these positions of an entry (I4 each, from 0; '' for all), and the completions;
  -- passes over the first `released` ones.
  local function select_completions(stored, released, positions)
    local n, packed, wanted, found, at = tonumber(stored[2][2]), stored[2][4], {}, {}, 1
    for i = 1, #positions - 3, 4 do wanted[struct.unpack('>I4', positions, i)] = true end
    for position = 0, n - 1 do
      local start = at
      at = skip_completions(packed, at, 1)
      -- rule: what a receiver took of an entry is not left
      local is_wanted = positions == '' or wanted[position]
      -- rule: what was released meanwhile is neither left nor a dead letter
      if is_wanted and position >= released then found[#found + 1] = packed:sub(start, at - 1) end
    end
    return #found, table.concat(found)
  end

  -- Reads the result of an entry from the arguments of `settle_delivery`. If all of its completions are left, it stays
  -- whole; if none is, it is done.
  local function read_result(args, i, stored, released)
    local result = { entry = args[i], kind = args[i + 1], retry_at = args[i + 2], tried = tonumber(args[i + 3]) }
    if result.kind ~= 'retry' and result.kind ~= 'dead' then return result end
    result.left, result.rest = select_completions(stored, released, args[i + 4])
    -- rule: an entry of which nothing is left is done
    if result.left == 0 then result.kind = 'done' end
    -- rule: an entry of which all is left stays the same entry
    if result.kind == 'retry' and result.left == tonumber(stored[2][2]) - released then result.rest = '' end
    return result
  end

  --[[
    Settles claimed entries, all in one step. An entry that is not in the mailbox was settled before; if the callback
    has a later epoch by now, only what was delivered counts.

    Input   KEYS[1] shard; ARGV[1] stamp  [2] spout index  [3] epoch of the callback  [4] 1 if the receiver took
            anything, 0 if not, '' if that is unknown  [5] error of the rest; then per entry: entry, result (done,
            retry, dead, or sent: published and kept), time of the next try, number of tries with this one, positions of
            the completions that are left (I4 each; '' for all)
    Output  {'ok'}
  ]]
  local function settle_delivery(_, base, args)
    local spout, totals, unread, delays, now = args[2], {}, 0, {}, clock()
    local current = check_callback_epoch(base, spout, args[3])
    local head, released_of_head = read_head(base, spout)
    for i = 6, #args, 5 do
      local stored = redis.call('XRANGE', base .. 'm' .. spout, args[i], args[i])[1]
      -- rule: what is gone is not settled again; of another callback only what was delivered counts
      if stored and (current or args[i + 1] == 'done') then
        local released = args[i] == head and released_of_head or 0
        local n = tonumber(stored[2][2]) - released
        local changes, read = settle_entry(base, spout, n, read_result(args, i, stored, released), args[5])
        for name, change in pairs(changes) do totals[name] = (totals[name] or 0) + math.max(change, 0) end
        unread = unread - read
        add_release(delays, stored[2][4], now, changes.delivered or 0)
      end
    end
    for name, change in pairs(totals) do
      if change > 0 then redis.call('HINCRBY', base .. 'counts', name, change) end
    end
    if unread ~= 0 then redis.call('HINCRBY', base .. 'unread', spout, unread) end
    write_delays(base, 'release', delays)
    if current then note_result(base, spout, args[4], args[5]) end
    return { 'ok' }
  end

  register_on_shard('acker_take_v1', claim)
  register_on_shard('acker_leave_v1', release_lease)
  register_on_shard('acker_settle_v2', settle_delivery)
end

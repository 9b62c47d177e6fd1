--[[
  A sweep removes the expired outcomes of a shard: it reads all buckets, a page of the deadline index per call of the
  tick. To read a bucket takes longer than to remove a few markers from it, so a sweep waits until as many outcomes have
  expired as roots and outcomes have to be kept: the shard never keeps more than twice what it has to, and a sweep reads
  two values for each that it removes. It comes earlier if all numbers of slices are used up.

  Fields of the hash `sweep`: `removed`, the outcomes that were ever removed, by sweeps and otherwise; `until`, all that had
  expired by then are removed; `forced`, 1 if the next sweep may not wait; and while one runs: `cursor` of ZSCAN, `began`,
  `stepped`, the time of its last step, and `target`, the outcomes that had ever expired when it began. One that nobody
  continues for a while begins anew: another server may have the index in another order.
]]

local OVERFULL = 1000

local expiry_of, remove_outcomes, note_removed, sweep

do
  local STEP_WITHIN_MS, PAGE = 5000, 32
  -- Values that a step reads, about. A small index is one page, of up to 128 buckets.
  local STEP_RECORDS = 8000

  -- Returns the expiry of a marker; false if it has expired. A call meets few different ones.
  function expiry_of(call, marker)
    local expiry = call.expiries[marker]
    if expiry == nil then
      local _, found = read_marker(call, marker)
      expiry = found or false
      call.expiries[marker] = expiry
    end
    return expiry
  end

  -- Removes outcomes from a bucket. Returns true if that was all that the bucket had.
  function remove_outcomes(call, key, root_ids, size)
    -- rule: what a sweep removes is counted
    call.removed = call.removed + #root_ids
    -- rule: a bucket goes whole only if outcomes are all of it
    if #root_ids == size then return redis.call('DEL', key) == 1 end
    for i = 1, #root_ids, OVERFULL do
      redis.call('HDEL', key, unpack(root_ids, i, math.min(i + OVERFULL - 1, #root_ids)))
    end
    return false
  end

  -- Writes how many outcomes this call has removed.
  function note_removed(call)
    if call.removed == 0 then return end
    redis.call('HINCRBY', call.base .. 'sweep', 'removed', call.removed)
    set_backstop_ttl(call, call.base .. 'sweep')
    call.removed = 0
  end

  -- Returns how many outcomes were ever written and how many of them have expired, and the next expiry, if there is one.
  local function count_expired(call)
    read_slices(call)
    local written, next_expiry = outcomes_written(call), nil
    local expired = written
    for number = 0, SLICES - 1 do
      local expiry, before = read_slice(call, number)
      if expiry >= call.now then
        expired, next_expiry = math.min(expired, before), math.min(next_expiry or expiry, expiry)
      end
    end
    return written, expired, next_expiry
  end

  local function count_records(call)
    local pending, records = redis.call('HGETALL', call.base .. 'pending'), (early_before(call))
    for i = 2, #pending, 2 do records = records + tonumber(pending[i]) end
    return records
  end

  -- Schedules the next sweep: at the next expiry; else one retention from now, if expired outcomes are left; else never.
  local function postpone(call, next_expiry, left)
    -- rule: what a sweep left is looked at again
    if next_expiry or left > 0 then
      redis.call('ZADD', call.due_key, next_expiry or call.now + call.retention, SWEEP)
      set_backstop_ttl(call, call.base .. 'slices')
    else
      -- rule: nothing is looked at again when nothing is left
      redis.call('ZREM', call.due_key, SWEEP)
    end
  end

  -- Removes the expired outcomes of a bucket; leaves one that is overfull, or beyond the budget, to the tick. Returns what
  -- that costs.
  local function sweep_bucket(call, bucket, budget)
    local key = call.base .. 'r' .. bucket
    local size = redis.call('HLEN', key)
    -- rule: a step of a sweep is bounded, and leaves an overfull bucket to be scanned
    if size > OVERFULL or size > 0 and budget <= 0 then
      redis.call('ZADD', call.due_key, 'XX', 'LT', call.now - 1, bucket)
      return 1
    end
    local fields, root_ids, n = redis.call('HGETALL', key), {}, 0
    for i = 2, 2 * size, 2 do
      local raw = fields[i]
      -- rule: a sweep removes outcomes that have expired, and no records
      if not is_record(raw) and not expiry_of(call, raw) then
        n = n + 1
        root_ids[n] = fields[i - 1]
      end
    end
    -- rule: a bucket that is empty leaves the index
    if n > 0 and remove_outcomes(call, key, root_ids, size) then redis.call('ZREM', call.due_key, bucket) end
    return size + 1
  end

  -- Begins a sweep if it is worth its while. Returns how many outcomes have ever expired, or nil after postponing it.
  local function begin_sweep(call, forced, removed)
    local written, expired, next_expiry = count_expired(call)
    -- rule: roots and outcomes that have not expired count as kept
    local kept = written - expired + count_records(call)
    -- rule: a sweep waits until it is worth its while
    if forced or expired > removed and expired - removed >= kept then return expired end
    postpone(call, next_expiry, expired - removed)
    return nil
  end

  local function end_sweep(call, began, target)
    local key = call.base .. 'sweep'
    note_removed(call)
    local removed = math.max(target, tonumber(redis.call('HGET', key, 'removed') or 0))
    redis.call('HDEL', key, 'cursor', 'began', 'stepped', 'target', 'forced')
    -- rule: after a sweep numbers of slices can be used again
    redis.call('HSET', key, 'until', began, 'removed', removed)
    local _, expired, next_expiry = count_expired(call)
    postpone(call, next_expiry, expired - removed)
  end

  -- Takes a step of the sweep that runs or, if none does and one is worth its while, the first step of one. Returns true
  -- if it has to go on.
  function sweep(call)
    local key = call.base .. 'sweep'
    local cursor, began, stepped, target, forced, removed =
      unpack(redis.call('HMGET', key, 'cursor', 'began', 'stepped', 'target', 'forced', 'removed'))
    -- rule: a sweep goes on where it was, unless it was left
    if not cursor or call.now - tonumber(stepped) > STEP_WITHIN_MS then
      target = begin_sweep(call, forced, call.removed + tonumber(removed or 0))
      if not target then return false end
      cursor, began = '0', call.now
    end
    local page = redis.call('ZSCAN', call.due_key, cursor, 'COUNT', PAGE)
    local budget = STEP_RECORDS
    for i = 1, #page[2], 2 do budget = budget - sweep_bucket(call, page[2][i], budget) end
    if page[1] == '0' then
      end_sweep(call, tonumber(began), tonumber(target))
      return false
    end
    redis.call('HSET', key, 'cursor', page[1], 'began', began, 'stepped', call.now, 'target', target)
    set_backstop_ttl(call, key)
    return true
  end
end

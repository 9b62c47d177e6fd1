--[[
  A bucket is a small hash with a part of a shard's roots: root id (8 raw bytes) -> record (record.lua) or, once the
  root has finished, marker. Keys, the deadline index and operations write a bucket as 4 raw bytes: to print a number
  takes longer than most of what else is done for an operation. Arguments and replies give its number.

  A marker is 3 * slice + outcome (0 acked, 1 failed, 2 timed out), in decimal: one byte in a small hash. A slice is one
  retention long; its outcomes are stored to the end of the retention after it. The key `slices` says when the outcomes
  of each slice expire: number of the present slice B, end of it I5, its retention I4, then for each slice number the
  expiry I5 of its outcomes and the number I6 of all outcomes that were written before it (times in milliseconds since
  2020-01-01). A changed retention begins a new slice, so that each outcome keeps the expiry that it was written with.

  Every bucket that is not empty stands in the deadline index, no later than the first deadline in it. An outcome does
  not move it there: the tick removes expired markers when it comes for a deadline, or by a sweep of all buckets
  (sweep.lua). A slice number is used again once a sweep that began after its expiry is over: no marker with this number
  is left. (A sweep leaves an overfull bucket to scan_bucket, which may end later.)
]]

local EPOCH = 1577836800000
local LONGEST_MARKER = 3

-- The member of the deadline index that says when to look whether a sweep is worth its while; no bucket has its number.
local SWEEP = '\255\255\255\255'
local SLICES = 42

local pack_bucket, bucket_number, score_bucket, write_scores, pack_outcome, read_marker, read_slices, read_slice
local outcomes_written

do
  local HEADER_BYTES, SLICE_BYTES = 10, 11
  local PAIRS_PER_CALL = 1000
  local OUTCOME_BY_NUMBER, NUMBER_BY_OUTCOME = { [0] = 'A', 'F', 'T' }, { A = 0, F = 1, T = 2 }

  function pack_bucket(number)
    return struct.pack('>I4', tonumber(number))
  end

  function bucket_number(bucket)
    return string.format('%.0f', (struct.unpack('>I4', bucket)))
  end

  -- Notes that a bucket has to be scanned once a moment is past: `write_scores` writes that, once a call.
  function score_bucket(call, bucket, moment)
    local score = call.scores[bucket]
    -- rule: the lowest score of a call is written
    if not score or moment < score then call.scores[bucket] = moment end
  end

  -- Writes scores, as ZADD takes them. Only if a bucket is new in the index can its key be new too, without a backstop.
  local function add_scores(call, pairs_of_zadd)
    -- rule: a lower score stays
    if redis.call('ZADD', call.due_key, 'LT', unpack(pairs_of_zadd)) == 0 then return end
    for i = 2, #pairs_of_zadd, 2 do
      local key = call.base .. 'r' .. pairs_of_zadd[i]
      -- rule: a new bucket gets the backstop
      if redis.call('PEXPIRETIME', key) == -1 then set_backstop_ttl(call, key) end
    end
  end

  -- Writes the scores of a call into the deadline index; a lower one that is there stays.
  function write_scores(call)
    local text_of, pairs_of_zadd, n = {}, {}, 0
    for bucket, moment in pairs(collected(call, 'scores')) do
      local text = text_of[moment] or string.format('%.0f', moment)
      text_of[moment], pairs_of_zadd[n + 1], pairs_of_zadd[n + 2], n = text, text, bucket, n + 2
      -- rule: more scores than a command takes are written
      if n == 2 * PAIRS_PER_CALL then
        add_scores(call, pairs_of_zadd)
        pairs_of_zadd, n = {}, 0
      end
    end
    if n > 0 then add_scores(call, pairs_of_zadd) end
  end

  -- Reads the key `slices`, once a call.
  function read_slices(call)
    if call.slices then return end
    call.slices = redis.call('GET', call.base .. 'slices') or ''
    if call.slices == '' then return end
    call.slice, call.slice_end, call.slice_retention = struct.unpack('>BI5I4', call.slices)
    call.slice_end = call.slice_end + EPOCH
  end

  -- Returns the time at which the outcomes of a slice number expire, and how many were written before it.
  function read_slice(call, number)
    if call.slices == '' then return EPOCH, 0 end
    local expiry, before = struct.unpack('>I5I6', call.slices, HEADER_BYTES + number * SLICE_BYTES + 1)
    return expiry + EPOCH, before
  end

  -- Returns how many outcomes were written before this call: as many as completions were counted.
  function outcomes_written(call)
    local counts, written = redis.call('HGETALL', call.base .. 'counts'), 0
    for i = 1, #counts, 2 do
      -- rule: an outcome of the call is not among those before its slice
      if counts[i]:find(':', 1, true) then written = written + tonumber(counts[i + 1]) end
    end
    return written
  end

  -- Whether all markers that expired at this time are removed. Else the next sweep has to come, however little it finds.
  local function is_swept(call, expiry)
    local key = call.base .. 'sweep'
    -- rule: the number of a slice is used again, but only once its outcomes are removed
    if expiry == EPOCH or tonumber(redis.call('HGET', key, 'until') or 0) > expiry then return true end
    -- rule: the number of a slice that is needed again brings a sweep
    redis.call('HSET', key, 'forced', 1)
    redis.call('ZADD', call.due_key, call.now, SWEEP)
    return false
  end

  -- Begins a slice. If its number cannot be used again yet, the present slice goes on, with a later expiry.
  local function begin_slice(call)
    local number, nth = call.slice and (call.slice + 1) % SLICES or 0, math.floor(call.now / call.retention)
    local packed = {}
    for other = 0, SLICES - 1 do
      local expiry, before = read_slice(call, other)
      packed[other + 2] = struct.pack('>I5I6', expiry - EPOCH, before)
    end
    -- rule: outcomes expire with the slice after their own
    local expiry, before = (nth + 2) * call.retention - 1, outcomes_written(call)
    if not is_swept(call, (read_slice(call, number))) then
      local later = expiry
      number = call.slice
      expiry, before = read_slice(call, number)
      expiry = math.max(expiry, later)
    end
    call.slice, call.slice_end = number, (nth + 1) * call.retention
    packed[1] = struct.pack('>BI5I4', number, call.slice_end - EPOCH, call.retention)
    packed[number + 2] = struct.pack('>I5I6', expiry - EPOCH, before)
    call.slices = table.concat(packed)
    redis.call('SET', call.base .. 'slices', call.slices, 'PXAT', call.now + BACKSTOP_MS)
    -- rule: a sweep is due when the outcomes of a slice expire
    redis.call('ZADD', call.due_key, 'LT', expiry, SWEEP)
  end

  -- Returns the marker of an outcome, and the time at which it expires.
  function pack_outcome(call, outcome)
    if not call.markers then
      read_slices(call)
      -- rule: a slice begins when the one before ends, or when the retention changed
      if not call.slice or call.now >= call.slice_end or call.slice_retention ~= call.retention then
        begin_slice(call)
      end
      call.markers, call.marker_expiry = {}, (read_slice(call, call.slice))
    end
    local marker = call.markers[outcome]
    if not marker then
      marker = tostring(3 * call.slice + NUMBER_BY_OUTCOME[outcome])
      call.markers[outcome] = marker
    end
    return marker, call.marker_expiry
  end

  -- Returns the outcome of a marker and the time at which it expires; nil if it has expired.
  function read_marker(call, marker)
    read_slices(call)
    local number = tonumber(marker)
    local expiry = read_slice(call, math.floor(number / 3))
    -- rule: outcomes are forgotten when they expire
    if call.now > expiry then return nil end
    return OUTCOME_BY_NUMBER[number % 3], expiry
  end
end

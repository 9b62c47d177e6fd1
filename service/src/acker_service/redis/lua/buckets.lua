--[[
  A bucket is a small hash with a part of a shard's roots: root id (8 raw bytes) -> record (record.lua) or, once the
  root has finished, marker. Keys, the deadline index and operations write a bucket as 4 raw bytes: to print a number
  takes longer than most of what else is done for an operation. Arguments and replies give its number.

  A marker is 3 * slice + outcome (0 acked, 1 failed, 2 timed out), in decimal: one byte in a small hash. A slice is one
  retention long; its outcomes are stored to the end of the retention after it. The key `slices` says when the outcomes
  of each slice expire: number of the present slice B, end of it I5, its retention I4, then the expiry of each slice
  number I5 (milliseconds since 2020-01-01). A changed retention begins a new slice, so that each outcome keeps the
  expiry that it was written with. The tick removes expired markers.

  Every bucket stands in the deadline index no later than the first deadline and the first expiry in it. So a slice
  number can be used again once the lowest score in the index is past its expiry: no marker with this number is left.
  (A bucket that scan_bucket has not scanned to its end may stand there later, by its lease.)
]]

local EPOCH = 1577836800000
local LONGEST_MARKER = 3

local pack_bucket, bucket_number, score_bucket, write_scores, pack_outcome, read_marker

do
  local SLICES = 42
  local PAIRS_PER_CALL = 1000
  local OUTCOME_BY_NUMBER = { [0] = 'A', 'F', 'T' }

  function pack_bucket(number)
    return struct.pack('>I4', tonumber(number))
  end

  function bucket_number(bucket)
    return string.format('%.0f', (struct.unpack('>I4', bucket)))
  end

  -- Notes that a bucket has to be scanned once a moment is past: `write_scores` writes that, once a call.
  function score_bucket(call, bucket, moment)
    local score = call.scores[bucket]
    if not score or moment < score then call.scores[bucket] = moment end
  end

  -- Writes scores, as ZADD takes them. Only if a bucket is new in the index can its key be new too, without a backstop.
  local function add_scores(call, pairs_of_zadd)
    if redis.call('ZADD', call.due_key, 'LT', unpack(pairs_of_zadd)) == 0 then return end
    for i = 2, #pairs_of_zadd, 2 do
      local key = call.base .. 'r' .. pairs_of_zadd[i]
      if redis.call('PEXPIRETIME', key) == -1 then set_backstop_ttl(call, key) end
    end
  end

  -- Writes the scores of a call into the deadline index; a lower one that is there stays.
  function write_scores(call)
    local text_of, pairs_of_zadd, n = {}, {}, 0
    for bucket, moment in pairs(call.scores) do
      local text = text_of[moment] or string.format('%.0f', moment)
      text_of[moment], pairs_of_zadd[n + 1], pairs_of_zadd[n + 2], n = text, text, bucket, n + 2
      if n == 2 * PAIRS_PER_CALL then
        add_scores(call, pairs_of_zadd)
        pairs_of_zadd, n = {}, 0
      end
    end
    if n > 0 then add_scores(call, pairs_of_zadd) end
  end

  -- Reads the key `slices`, once a call.
  local function read_slices(call)
    if call.slice_expiries then return end
    local raw, pos = redis.call('GET', call.base .. 'slices'), nil
    call.slice_expiries = {}
    if not raw then return end
    call.slice, call.slice_end, call.slice_retention, pos = struct.unpack('>BI5I4', raw)
    call.slice_end = call.slice_end + EPOCH
    for number = 0, SLICES - 1 do
      call.slice_expiries[number], pos = struct.unpack('>I5', raw, pos)
    end
  end

  -- Gives the time at which the outcomes of a slice number expire.
  local function slice_expiry(call, number)
    return (call.slice_expiries[number] or 0) + EPOCH
  end

  -- Whether all markers that expired at this time are removed.
  local function is_swept(call, expiry)
    local first = redis.call('ZRANGE', call.due_key, 0, 0, 'WITHSCORES')
    return not first[2] or tonumber(first[2]) > expiry
  end

  -- Begins a slice. If its number cannot be used again yet, the present slice goes on, with a later expiry.
  local function begin_slice(call)
    local number, nth = call.slice and (call.slice + 1) % SLICES or 0, math.floor(call.now / call.retention)
    if is_swept(call, slice_expiry(call, number)) then
      call.slice, call.slice_expiries[number] = number, 0
    end
    call.slice_end = (nth + 1) * call.retention
    call.slice_expiries[call.slice] =
      math.max(call.slice_expiries[call.slice], (nth + 2) * call.retention - 1 - EPOCH)
    local packed = { struct.pack('>BI5I4', call.slice, call.slice_end - EPOCH, call.retention) }
    for other = 0, SLICES - 1 do packed[other + 2] = struct.pack('>I5', call.slice_expiries[other] or 0) end
    redis.call('SET', call.base .. 'slices', table.concat(packed), 'PXAT', call.now + BACKSTOP_MS)
  end

  -- Gives the marker of an outcome, and the time at which it expires.
  function pack_outcome(call, outcome)
    if not call.markers then
      read_slices(call)
      if not call.slice or call.now >= call.slice_end or call.slice_retention ~= call.retention then
        begin_slice(call)
      end
      call.markers, call.marker_expiry = {}, slice_expiry(call, call.slice)
      for number, name in pairs(OUTCOME_BY_NUMBER) do call.markers[name] = tostring(3 * call.slice + number) end
    end
    return call.markers[outcome], call.marker_expiry
  end

  -- Gives the outcome of a marker and the time at which it expires; nil if it has expired.
  function read_marker(call, marker)
    read_slices(call)
    local number = tonumber(marker)
    local expiry = slice_expiry(call, math.floor(number / 3))
    if call.now > expiry then return nil end
    return OUTCOME_BY_NUMBER[number % 3], expiry
  end
end

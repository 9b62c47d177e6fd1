--[[
  Roots as they are read, one by one and in lists; and an operator's fail, which needs one that is known.
]]

-- Shows an early or pending root as seven values: root id, ack val as 8 raw bytes, outstanding or '', started, due, spout
-- index, message id or false.
local function show(c, t, shown)
  local n = #shown
  shown[n + 1], shown[n + 2] = t.root, struct.pack('>i4i4', t.high, t.low)
  shown[n + 3], shown[n + 4], shown[n + 5] = t.outstanding or '', t.started, due(t)
  shown[n + 6], shown[n + 7] = t.spout, read_message_id(c, t) or false
  return shown
end

--[[
  Reads one root.

  Input   KEYS[1] stamp; ARGV[1] pair  [2] settings  [3] bucket  [4] root id
  Output  {'ok', now, state, and for an early or pending one what show gives; for a finished one: outcome}
]]
local function read_root(keys, args)
  local no = refusal(keys[1], args[1])
  if no then return no end
  local c = open(keys[1], args[1], args[2])
  local t = c.t
  take_up(c, t, args[4], args[3])
  if t.state == 'N' then return { 'ok', c.now, 'N' } end
  if t.state == 'F' then return { 'ok', c.now, 'F', t.outcome } end
  return show(c, t, { 'ok', c.now, t.state })
end

-- Says of roots whether they are over: neither early nor pending.
-- Input: KEYS[1] stamp; ARGV[1] pair  [2] per root its bucket I4 and id c8. Output: {'ok', per root '1' (over) or '0'}
local function ended(keys, args)
  local no = refusal(keys[1], args[1])
  if no then return no end
  local base, over, n, pos, bucket, root = keys[1] .. ':' .. args[1]:sub(1, 16) .. ':r', {}, 0, 1, nil, nil
  while pos <= #args[2] do
    bucket, root, pos = struct.unpack('>I4c8', args[2], pos)
    n = n + 1
    over[n] = 1 - redis.call('HEXISTS', base .. bucket, root)
  end
  return { 'ok', table.concat(over) }
end

--[[
  Fails a root that is known, by the law; an unknown one is left unknown.

  Input   KEYS[1] stamp; ARGV[1] pair  [2] settings  [3] bucket  [4] root id  [5] reason
  Output  {'ok', word}: 'N' for an unknown root
]]
local function force_fail(keys, args)
  local no = refusal(keys[1], args[1])
  if no then return no end
  local c = open(keys[1], args[1], args[2])
  local t = c.t
  take_up(c, t, args[4], args[3])
  if t.state == 'N' then return { 'ok', 'N' } end
  local word = obey(c, t, { first = args[5] }, 3)
  put_down(c, t)
  close(c)
  return { 'ok', word }
end

-- A piece of a bucket: all of a small one, one step of the walk through an overfull one. Gives the next step too.
local function read_piece(c, bucket, scan)
  local key = c.base .. 'r' .. bucket
  if scan == '0' and redis.call('HLEN', key) <= OVERFULL then return redis.call('HGETALL', key), '0' end
  local found = redis.call('HSCAN', key, scan, 'COUNT', OVERFULL)
  return found[2], found[1]
end

local function show_pending(c, bucket, fields, older)
  local shown, t = {}, c.t
  t.bucket = bucket
  for i = 1, #fields, 2 do
    t.root = fields[i]
    read_record(t, fields[i + 1])
    if t.state == 'P' and c.now - t.started >= older then show(c, t, shown) end
  end
  return shown
end

-- How many buckets the deadline index holds up to this one with this score; those of one score lie in the order of bytes.
local function rank_behind(c, score, bucket)
  local low, high = redis.call('ZCOUNT', c.due, '-inf', '(' .. score), redis.call('ZCOUNT', c.due, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local past = redis.call('ZRANGE', c.due, middle, middle)[1] > bucket
    if past then high = middle else low = middle + 1 end
  end
  return low
end

-- Walks the deadline index from a rank on: each call gives the next bucket and its score, nil at the end.
local function walk_index(c, rank)
  local ahead, i = {}, 1
  return function()
    if i > #ahead then
      ahead, i = redis.call('ZRANGE', c.due, rank, rank + 255, 'WITHSCORES'), 1
      rank = rank + 256
    end
    i = i + 2
    return ahead[i - 2], ahead[i - 1]
  end
end

--[[
  Lists pending roots by whole pieces of buckets, the bucket with the nearest deadline first. A call begins with the piece
  it names, wherever that bucket stands in the index now, and goes on behind the place where it stood.

  Input   KEYS[1] stamp; ARGV[1] pair  [2] settings  [3] score ('0': begin)  [4] bucket  [5] step of the walk through it
          [6] age in milliseconds at least  [7] roots wanted  [8] records to look at, about, at most
  Output  {'ok', now, the piece to begin the next call with: score ('' at the end), bucket, step, then per piece with roots
          in it: score, bucket, step, {what show gives, for each root}}
]]
local function list_roots(keys, args)
  local no = refusal(keys[1], args[1])
  if no then return no end
  local c = open(keys[1], args[1], args[2])
  local score, bucket, step = args[3], args[4], args[5]
  local older, wanted, budget = tonumber(args[6]), tonumber(args[7]), tonumber(args[8])
  local next_bucket = walk_index(c, score == '0' and 0 or rank_behind(c, score, bucket))
  if score == '0' then bucket, score = next_bucket() end
  local reply = { 'ok', c.now, '', '', '' }
  while bucket and wanted > 0 and budget > 0 do
    local fields, following = read_piece(c, bucket, step)
    local shown = show_pending(c, bucket, fields, older)
    local n = #reply
    if #shown > 0 then reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = score, bucket, step, shown end
    wanted, budget, step = wanted - #shown / 7, budget - #fields / 2 - 1, following
    if step == '0' then bucket, score = next_bucket() end
  end
  if bucket then reply[3], reply[4], reply[5] = score, bucket, step end
  return reply
end

provide('acker_read_root_v1', read_root)
provide('acker_ended_v1', ended)
provide('acker_force_fail_v1', force_fail)
provide('acker_list_roots_v1', list_roots)

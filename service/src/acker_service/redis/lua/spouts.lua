--[[
  What is shown of spout tasks: when roots were emitted under them and when they were read, how old their oldest unread
  completion is, and how its delivery goes.
]]

do
  -- Returns when the oldest unread completion ended, and how often its delivery was tried; '' and 0 for an empty mailbox.
  -- It is taken for the first one: completions come into a mailbox in the order in which they end.
  local function oldest_unread(base, spout)
    local item = redis.call('XRANGE', base .. 'm' .. spout, '-', '+', 'COUNT', 1)[1]
    if not item then return '', 0 end
    local head, released = read_head(base, spout)
    local packed, skip = item[2][4], item[1] == head and released or 0
    local ended = struct.unpack('>I5', packed, skip_completions(packed, 1, skip) + 13) + EPOCH
    return string.format('%.0f', ended), tonumber(redis.call('HGET', base .. 'tries' .. spout, item[1]) or 0)
  end

  local function fields_of(base, name, spouts)
    return redis.call('HMGET', base .. name, unpack(spouts))
  end

  --[[
    Reads what is shown of spout tasks.

    Input   KEYS[1] shard; ARGV[1] stamp, then spout indexes, few enough for unpack
    Output  {'ok', per spout task: time of the last emit, of the last read, end of the oldest unread completion, number
            of its tries, time of the next try of any, epoch of the callback of which the shard knows, time of its last
            delivery, time and text of its last error}, '' for what there is not
  ]]
  local function read_spouts(_, base, args)
    local spouts, reply = { unpack(args, 2) }, { 'ok' }
    local used, read = fields_of(base, 'used', spouts), fields_of(base, 'read', spouts)
    local begun, delivered = fields_of(base, 'begun', spouts), fields_of(base, 'delivered', spouts)
    local errors = fields_of(base, 'errors', spouts)
    for i, spout in ipairs(spouts) do
      local ended, tries = oldest_unread(base, spout)
      local next_try = redis.call('ZRANGE', base .. 'retry' .. spout, 0, 0, 'WITHSCORES')[2]
      local n = #reply
      reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = used[i] or '', read[i] or '', ended, tries
      reply[n + 5], reply[n + 6] = next_try or '', begun[i] or ''
      reply[n + 7], reply[n + 8] = delivered[i] or '', errors[i] or ''
    end
    return reply
  end

  -- Input: KEYS[1] shard; ARGV[1] stamp. Output: {'ok', now, {spout index, time of its last emit or read ...}}
  local function read_used(_, base)
    local used, reply = {}, {}
    for _, name in ipairs({ 'used', 'read' }) do
      local fields = redis.call('HGETALL', base .. name)
      for i = 1, #fields, 2 do
        used[fields[i]] = math.max(used[fields[i]] or 0, tonumber(fields[i + 1]))
      end
    end
    for spout, time in pairs(used) do
      reply[#reply + 1], reply[#reply + 2] = spout, string.format('%.0f', time)
    end
    return { 'ok', clock(), reply }
  end

  register_on_shard('acker_read_spouts_v1', read_spouts)
  register_on_shard('acker_read_used_v1', read_used)
end

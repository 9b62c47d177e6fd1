--[[
  Early roots: how many there are, and what they take. Whoever may ack can begin as many as there are ids, so both are
  bounded (early_refusal, edge_refusal and kept_failure in transitions.lua, save_root in record.lua).

  What an early root takes is an estimate from above, for Redis's memory depends on what else lies in a bucket: its record
  alone in a bucket, a failure and each remembered edge alone in a key of theirs, and what its trace reserves. The number stands
  in the root's record. So the root gives back what was counted for it when its init comes, or when it is dropped.
]]

local early_before, early_bytes, is_early_full, read_early, write_early, has_texts, size_of_failure, first_characters
-- Bytes of a root without more, and of a remembered edge.
local EARLY_BYTES, EDGE_BYTES = 320, 224

do
  -- Bytes of a failure without its texts; and Redis reserves up to a quarter more than a text has.
  local FAILURE_BYTES, TEXT_COST = 256, 1.25

  -- Whether a packed failure (completions.lua) has a reason or a component. One that has none is not stored.
  function has_texts(failure)
    return #failure > 1
  end

  function size_of_failure(failure)
    -- rule: a failure without texts takes nothing
    return has_texts(failure) and FAILURE_BYTES + math.floor(#failure * TEXT_COST) or 0
  end

  -- Returns the beginning of a text in UTF-8: so many characters of it at most.
  function first_characters(text, count)
    for i = 1, #text do
      local byte = text:byte(i)
      -- rule: a text is cut between two characters
      if byte < 128 or byte >= 192 then
        if count == 0 then return text:sub(1, i - 1) end
        count = count - 1
      end
    end
    return text
  end

  -- Reads the number of early roots of a shard, and the bytes that they take.
  function read_early(base)
    local number, bytes = (redis.call('GET', base .. 'early') or ''):match('^(%d+) ?(%d*)$')
    return tonumber(number) or 0, tonumber(bytes) or 0
  end

  -- Returns the number of early roots before this call, and the bytes that they took; reads them once.
  function early_before(call)
    if not call.early_number then call.early_number, call.early_size = read_early(call.base) end
    return call.early_number, call.early_size
  end

  -- Returns the bytes that early roots take, with the root that the call works on as it is now.
  function early_bytes(call, root)
    local _, before = early_before(call)
    -- rule: the root that a call works on counts as it is now
    local growth = root.state == 'E' and root.size - (root.early_size or 0) or 0
    return before + call.early_growth + growth
  end

  -- Whether early roots take as much as they may. For a fail by hand there is no such bound.
  function is_early_full(call, root)
    -- rule: what early roots take is bounded
    return call.limits and early_bytes(call, root) >= call.limits.max_early_bytes
  end

  -- Writes the number of early roots and the bytes that they take. Nobody serves a store in which it expires: no root is
  -- early for longer than a third of the backstop, so that the hashes with early roots expire before.
  function write_early(call)
    if call.early_change == 0 and call.early_growth == 0 then return end
    local number, bytes = early_before(call)
    number, bytes = number + call.early_change, bytes + call.early_growth
    -- rule: the number of early roots is never below none
    if number > 0 then
      -- rule: what early roots take is never below nothing
      local written = string.format('%.0f %.0f', number, math.max(bytes, 0))
      -- rule: the number of early roots outlives the buckets
      redis.call('SET', call.base .. 'early', written, 'PXAT', call.now + BACKSTOP_MS * 4 / 3)
    else
      -- rule: where no root is early no number of them is kept
      redis.call('UNLINK', call.base .. 'early')
    end
  end
end

--[[
  Delays: how late roots timed out (after their deadline), and how long completions were kept from their end to their
  release. Both are counted as complete latencies are, by powers of two of a millisecond.
]]

-- Adds a delay of so many roots or completions: `delays` holds their numbers by exponent, and the sum as `ms`.
local function add_delay(delays, delay, times)
  if delay < 0 then delay = 0 end
  local exponent = exponent_of(delay)
  delays[exponent], delays.ms = (delays[exponent] or 0) + times, (delays.ms or 0) + delay * times
end

-- Adds the release of so many completions of an entry. They ended together: one call wrote them.
local function add_release(delays, packed, now, times)
  if times > 0 then add_delay(delays, now - EPOCH - struct.unpack('>I5', packed, 14), times) end
end

local function write_delays(base, name, delays)
  for field, change in pairs(delays) do
    local separator = field == 'ms' and '_' or ':'
    if change > 0 then redis.call('HINCRBY', base .. 'delays', name .. separator .. field, change) end
  end
end

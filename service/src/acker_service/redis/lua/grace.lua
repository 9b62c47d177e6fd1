--[[
  Grace after an outage. Where nobody ticked for a while, all roots whose deadlines passed meanwhile would time out at
  once, and all their spouts replay at once. With the topology's grace_ms a shard notes the time of each tick, and two
  ticks that are more than two seconds apart leave a gap: a pending root with a deadline in it gets another deadline, which
  lies behind the gap, so that no root gets it twice. Until a gap is worked off no other begins: where ticks are always that
  far apart, a root would otherwise be in one gap after the other, and never time out.

  The key `ticks` holds the time of the last tick I5, and the begin and the end of the gap, I5 each and 0 without one; all
  in milliseconds since 2020-01-01. A deadline is in the gap from its begin on, and before its end. Twin of the functions
  of the same names in acker_protocol/tree.py.
]]

local note_tick, read_gap, grant_grace

do
  -- The longest time between two ticks that leaves no gap, and how long a gap is kept at least: a walk of an overfull
  -- bucket, which is out of the deadline index meanwhile, takes less.
  local MAX_APART, KEPT_MS = 2000, 60000
  local MAX_SPAN, SHARES = 4294967295, 16777216

  local function read_ticks(call)
    local packed = redis.call('GET', call.base .. 'ticks')
    if not packed then return nil, 0, 0 end
    local last, from, to = struct.unpack('>I5I5I5', packed)
    return last + EPOCH, from + EPOCH, to + EPOCH
  end

  local function set_gap(call, grace, from, to)
    -- rule: without grace there is no gap
    if grace > 0 and to > EPOCH then call.grace, call.gap_from, call.gap_to = grace, from, to end
  end

  -- Whether nothing with a deadline in a gap is left.
  local function is_worked_off(call, to)
    -- rule: a gap is kept while a walk may be in it
    if call.now <= to + KEPT_MS then return false end
    -- rule: a gap is kept while a bucket is due in it
    return redis.call('ZCOUNT', call.due_key, '-inf', to) == 0
  end

  -- Notes a tick, and finds the gap that it works off.
  function note_tick(call, grace)
    local key = call.base .. 'ticks'
    -- rule: without grace no tick is noted
    if grace == 0 then redis.call('UNLINK', key) return end
    local last, from, to = read_ticks(call)
    -- rule: two ticks far apart leave a gap
    if last and call.now - last > MAX_APART then
      -- rule: until a gap is worked off no other begins
      if to <= EPOCH or is_worked_off(call, to) then from, to = last, call.now end
    -- rule: a gap that is worked off is forgotten
    elseif last and to > EPOCH and is_worked_off(call, to) then
      from, to = EPOCH, EPOCH
    end
    -- rule: a tick leaves its time to the next
    local packed = struct.pack('>I5I5I5', call.now - EPOCH, math.max(from - EPOCH, 0), math.max(to - EPOCH, 0))
    redis.call('SET', key, packed, 'PXAT', call.now + BACKSTOP_MS)
    set_gap(call, grace, from, to)
  end

  -- Finds the gap that a walk works off.
  function read_gap(call, grace)
    if grace == 0 then return end
    local _, from, to = read_ticks(call)
    set_gap(call, grace, from, to)
  end

  local function is_in_gap(call, deadline)
    -- rule: a gap is from the tick before it to the tick after it
    return deadline >= call.gap_from and deadline < call.gap_to
  end

  -- Moves each deadline of a pending root that lies in the gap behind it, by a share of the grace that the first bytes of
  -- the root id draw: they choose neither shard nor bucket. Returns whether the root is in time then, and saves it if so.
  function grant_grace(call, root)
    -- rule: only a pending root gets grace
    if not call.gap_from or root.state ~= 'P' then return false end
    -- rule: a share of the grace is drawn from the root id
    local share = math.floor(struct.unpack('>I3', root.id) * call.grace / SHARES)
    local deadline = root.started + math.min(math.max(call.now + share - root.started, 0), MAX_SPAN)
    -- rule: a message deadline in the gap moves behind it, and never back
    if is_in_gap(call, root.deadline) then root.deadline = math.max(root.deadline, deadline) end
    -- rule: an idle deadline in the gap moves behind it, and never back
    if root.idle_deadline and is_in_gap(call, root.idle_deadline) then
      root.idle_deadline = math.max(root.idle_deadline, deadline)
    end
    if call.now > due_ms(root) then return false end
    root.dirty = true
    -- rule: what got grace is written
    save_root(call, root)
    return true
  end
end

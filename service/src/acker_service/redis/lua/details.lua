--[[
  The details of a root say what its last ack says of it: when it came, the component that it named, and how many acks
  there were. They are data: the state machine does not read them.

  A record has one byte for a component, so a shard numbers the names that acks give, from 1, as they come. The key
  `names` lists them: for each a space, the name, an equals sign, and its number in one byte; names have neither. A name
  that finds no number left stays unknown: 0.
]]

local pack_span, unpack_span, component_number, component_name, last_component
local begin_details, note_ack

do
  local MAX_SPAN, MAX_NUMBER = 4294967295, 255
  -- Three bytes hold 2.3 hours exactly, and what is longer in steps of about half a second.
  local EXACT_MS, STEP_MS = 8388608, 512

  -- Packs a time in milliseconds into three bytes.
  function pack_span(span)
    if span < EXACT_MS then return span > 0 and span or 0 end
    return EXACT_MS + math.floor(math.min(span, MAX_SPAN) / STEP_MS)
  end

  function unpack_span(packed)
    return packed < EXACT_MS and packed or (packed - EXACT_MS) * STEP_MS
  end

  -- Reads the names of a shard, once a call.
  local function read_names(call)
    call.names = call.names or redis.call('GET', call.base .. 'names') or ''
    return call.names
  end

  local function add_name(call, component)
    local number = (call.names:byte(-1) or 0) + 1
    if number > MAX_NUMBER then return 0 end
    call.names, call.names_by_number = call.names .. ' ' .. component .. '=' .. string.char(number), nil
    redis.call('SET', call.base .. 'names', call.names)
    return number
  end

  -- Returns the number of a component, 0 if there is none for it. A new name gets the next one.
  function component_number(call, component)
    local number = call.numbers[component]
    if not number then
      local _, at = read_names(call):find(' ' .. component .. '=', 1, true)
      number = at and call.names:byte(at + 1) or add_name(call, component)
      call.numbers[component] = number
    end
    return number
  end

  -- Returns the name of a component by its number; nil if it is unknown.
  function component_name(call, number)
    if number == 0 then return nil end
    if not call.names_by_number then
      call.names_by_number = {}
      for name, byte in read_names(call):gmatch(' ([^=]+)=(.)') do call.names_by_number[byte:byte()] = name end
    end
    return call.names_by_number[number]
  end

  -- Returns the component of the last ack of a root; nil if it is unknown.
  function last_component(call, root)
    return root.acks and component_name(call, root.component) or nil
  end

  -- Begins the details of a new tree, if its topology wants them.
  function begin_details(call, root)
    root.acks, root.acked_at, root.component = call.has_details and 0 or nil, nil, 0
  end

  -- Notes an ack that is applied.
  function note_ack(call, root, op)
    if not root.acks then return end
    root.acks, root.acked_at = root.acks + 1, call.now
    root.component = op.component and component_number(call, op.component) or 0
  end
end

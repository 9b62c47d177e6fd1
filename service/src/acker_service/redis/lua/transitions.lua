--[[
  The state machine of a root: what one operation does to it. Twin of acker_protocol/tree.py, with the same functions
  under the same names in the same order; a stateful property test compares the two.

    state \ operation  Init                  Ack                       Fail                      ResetTimeout
    unknown            pending acked refused early refused             early refused             unknown
    early              pending acked failed  early duplicate refused   early duplicate refused   unknown
                       refused
    pending            duplicate conflict    pending acked failed      failed pending duplicate  pending
                                             duplicate
    finished           finished, with the outcome, whatever the operation
    no ackers          acked refused         finished                  finished                  finished
    handler            init                  ack                       fail                      reset_timeout

  Codes of root.state: N unknown, E early, P pending, F finished. Codes of an answer: p pending, a acked, f failed,
  e early, d duplicate, u unknown, c conflict; A, F, T finished with that outcome; refused is m max_spout_pending,
  b mailbox_full or s store_full. finish is in completions.lua, expire in tick.lua; slices of keys forget what expired.
  Only here, at the end: the checks of an init's admission. remember_edge is in remembered.lua.

  op is the operation. Its kind (1 init, 2 ack, 3 fail, 4 reset timeout) is an argument of its own, and form its variant
  (operations.lua); high and low are the value to XOR, outstanding is nil if unknown, text is the message id or the
  reason, edge_high and edge_low are the hash of root and edge.
]]

local apply_operation, replay_operation

do
  local MAX_SPAN = 4294967295
  local MAX_COUNTED = 4294967295
  local SHORT_REASON = 64 -- characters
  local INIT, FAIL, RESET_TIMEOUT = 1, 3, 4
  local TRANSITIONS

  local apply_untracked, init, ack, fail, reset_timeout
  local resolve, has_counted, is_failed, new_tree, emit, ends_when_all_have, end_edge, xor_in, add_outstanding, touch_progress_deadline, deadline_after, current_state
  local early_refusal, edge_refusal, kept_failure, admission_refusal, full_refusal, would_finish, emitted_by

  -- Applies one operation to a root. Returns the code of the answer.
  function apply_operation(call, root, op, kind)
    -- rule: a finished root answers with its outcome
    if root.state == 'F' then return root.outcome end
    if call.tracked == 0 then return apply_untracked(call, root, op, kind) end
    local code = TRANSITIONS[kind](call, root, op)
    if root.traced then note_operation(call, root, op, kind, code) end
    return code
  end

  -- Without ackers an init is acked at once; every other operation finds its root finished.
  function apply_untracked(call, root, op, kind)
    -- rule: without ackers all but an init find their root acked
    if kind ~= INIT then return 'A' end
    local code = full_refusal(call, op)
    if code then return code end
    new_tree(call, root, op)
    root.spout, root.message_id, call.emitted[op.spout] = op.spout, op.text, true
    -- rule: without ackers an init has its traceparent
    root.traceparent = op.traceparent
    if ends_when_all_have(call, op) then root.tally = new_tally { all_ended = true } end
    finish(call, root, 'A')
    return 'a'
  end

  function init(call, root, op)
    -- rule: a pending root takes no other init
    if root.state == 'P' then return emitted_by(call, root, op) and 'd' or 'c' end
    local code = admission_refusal(call, root, op)
    if code then return code end
    local is_new = root.state == 'N'
    if is_new then new_tree(call, root, op) end
    decide_trace(call, root, op, is_new)
    emit(call, root, op)
    return resolve(call, root)
  end

  -- rule: whether an ack may begin a tree is looked at before its edge
  function ack(call, root, op)
    -- rule: an ack without an ack val changes nothing, unless its tuple was dropped
    if op.high == 0 and op.low == 0 and op.form ~= DROPPED then return current_state(root) end
    -- rule: an ack that may begin no tree is refused
    local code = early_refusal(call, root)
    if code then return code end
    -- rule: an ack whose edge may not count is answered without effect
    code = call.dedupe_window > 0 and op.edge_high and edge_refusal(call, root, op)
    if code then return code end
    if root.state == 'N' then new_tree(call, root, op) end
    -- rule: a dropped edge counts, whatever its value
    if op.form == DROPPED then root.dropped = math.min((root.dropped or 0) + 1, MAX_COUNTED) end
    end_edge(call, root, op)
    return resolve(call, root)
  end

  function fail(call, root, op)
    -- rule: a fail that may begin no tree is refused
    local code = early_refusal(call, root)
    if code then return code end
    -- rule: a root that ends at its first fail takes any, whatever became of its edge
    local ends_edge = op.form == ENDS_EDGE and (root.state ~= 'P' or root.tally)
    code = ends_edge and call.dedupe_window > 0 and op.edge_high and edge_refusal(call, root, op)
    -- rule: an early root is marked as failed, also by the fail of an edge that ended or has no room
    if code and (root.state ~= 'E' or root.failed) then return code end
    -- rule: of several failures the first that counts is kept, and the first of all as long as none does
    local is_kept = root.state == 'N' or not root.failed or not code and not has_counted(root.tally)
    local failure = is_kept and kept_failure(call, root, op)
    if root.state == 'N' then new_tree(call, root, op) end
    if is_kept then
      -- rule: a failure that replaces another counts in its place
      local before = root.failed and size_of_failure(read_failure(call, root) or '') or 0
      root.failed, root.failure = true, failure
      -- rule: a failure counts among what an early root takes
      if root.state == 'E' then root.size = root.size + size_of_failure(failure) - before end
    end
    if root.state == 'E' and not root.tally then root.tally = new_tally { all_ended = false } end
    -- rule: a fail without an edge ends a root of either kind
    if op.form ~= ENDS_EDGE and root.tally then root.tally.has_plain_fail = true end
    if ends_edge and not code then
      -- rule: a failed edge counts, whatever its value
      root.tally.failures = math.min(root.tally.failures + 1, MAX_COUNTED)
      end_edge(call, root, op)
    else
      -- rule: a fail that ended no edge is noted as a plain one
      if op.form then op.form = nil end
    end
    local state = resolve(call, root)
    -- rule: a fail that is refused is noted where it marked its root
    if code == 's' and root.traced then note_operation(call, root, op, FAIL, state) end
    -- rule: a fail whose edge there is no room to remember is refused, though it marked its root
    return code == 's' and code or state
  end

  function reset_timeout(call, root)
    -- rule: only a pending root is reset
    if root.state ~= 'P' then return 'u' end
    -- rule: a reset begins the root's own message timeout anew
    root.deadline, root.dirty = deadline_after(call, root, root.message_timeout or call.message_timeout), true
    touch_progress_deadline(call, root)
    return 'p'
  end

  -- Returns the code for a changed root, and finishes it if it is done: the only place that does.
  function resolve(call, root)
    root.dirty = true
    -- rule: a root waits for its init, whatever else came
    if root.state == 'E' then return 'e' end
    if root.failed and is_failed(root) then
      finish(call, root, 'F')
      return 'f'
    end
    -- rule: a root is pending until both halves of its ack val are zero
    if root.high ~= 0 or root.low ~= 0 then return 'p' end
    -- rule: a zero with edges outstanding is counted as unbalanced
    if root.outstanding and root.outstanding ~= 0 then
      count(call, 'unbalanced')
      return 'p'
    end
    -- rule: a root of which edges failed ends failed, and any other acked
    local has_failed = root.tally and root.tally.failures > 0
    finish(call, root, has_failed and 'F' or 'A')
    return has_failed and 'f' or 'a'
  end

  -- Whether a fail counted: that of an edge which had ended before, or for which there was no room, does not.
  function has_counted(tally)
    return tally and (tally.failures > 0 or tally.has_plain_fail)
  end

  -- Whether a fail ends a root that was failed, whatever edges are left.
  function is_failed(root)
    -- rule: where all edges have to end only a plain fail ends the root
    return not root.tally or root.tally.has_plain_fail
  end

  -- Begins a tree at the first operation on its root, of any kind.
  function new_tree(call, root, op)
    root.state, root.high, root.low, root.outstanding, root.spout, root.size = 'E', 0, 0, 0, 0, EARLY_BYTES
    root.started, root.deadline, root.failed = call.now, call.now + call.message_timeout, false
    root.message_timeout, root.progress_timeout, root.idle_deadline = nil, nil, nil
    root.message_id, root.message_id_is_long = nil, false
    root.traceparent, root.has_traceparent = nil, false
    if root.tally then root.tally = nil end
    if root.dropped then root.dropped = nil end
    begin_details(call, root)
    begin_trace(call, root, op)
  end

  -- Makes a tree pending with the fields of its init.
  function emit(call, root, op)
    root.state, root.spout, root.message_id, call.emitted[op.spout] = 'P', op.spout, op.text, true
    -- rule: the progress timeout of an init goes before the topology's
    root.message_timeout, root.progress_timeout = op.message_timeout, op.progress_timeout or call.progress_timeout
    root.traceparent = op.traceparent
    if ends_when_all_have(call, op) then
      root.tally = root.tally or new_tally { all_ended = true }
      root.tally.all_ended = true
    elseif root.tally then
      root.tally = nil
    end
    if root.progress_timeout == 0 then root.progress_timeout = nil end
    -- rule: the message timeout begins with the init, and is the init's own if it has one
    root.deadline = deadline_after(call, root, root.message_timeout or call.message_timeout)
    touch_progress_deadline(call, root)
    xor_in(root, op)
  end

  -- Whether the root of an init ends when all of its edges have ended, and not at its first fail.
  function ends_when_all_have(call, op)
    -- rule: an init says what ends its root, or else the topology does
    if not op.form then return call.all_ended end
    return op.form == ALL_ENDED
  end

  -- Ends an edge, acked or failed: counts it among what an early root takes, and XORs it in.
  function end_edge(call, root, op)
    -- rule: an edge that is remembered counts among what an early root takes
    if root.state == 'E' and call.dedupe_window > 0 and op.edge_high then root.size = root.size + EDGE_BYTES end
    -- rule: an ack begins the progress timeout anew
    touch_progress_deadline(call, root)
    note_ack(call, root, op)
    xor_in(root, op)
  end

  function xor_in(root, op)
    -- rule: an ack val is XORed in by halves
    root.high, root.low = bit.bxor(root.high, op.high), bit.bxor(root.low, op.low)
    root.outstanding = add_outstanding(root.outstanding, op.outstanding)
  end

  -- Adds two counts; nil if one is unknown or the sum leaves 32 bits.
  function add_outstanding(a, b)
    local sum = a and b and a + b
    -- rule: a sum beyond 32 bits is unknown
    return sum and sum >= -2147483648 and sum <= 2147483647 and sum or nil
  end

  function touch_progress_deadline(call, root)
    -- rule: progress moves the idle deadline by the whole progress timeout
    if root.progress_timeout then root.idle_deadline = deadline_after(call, root, root.progress_timeout) end
  end

  function deadline_after(call, root, timeout)
    return root.started + math.min(math.max(call.now + timeout - root.started, 0), MAX_SPAN)
  end

  function current_state(root)
    return root.state == 'P' and 'p' or 'e'
  end

  -- Returns the code that refuses an ack or a fail which would begin a tree where the store is full, or the shard has as
  -- many early roots as it may, or they take as much as they may.
  function early_refusal(call, root)
    -- rule: only what would begin a tree is refused
    if root.state ~= 'N' then return nil end
    -- rule: an ack or a fail begins no tree in a full store
    if call.store_full then return 's' end
    -- rule: early roots are bounded, those of this call included
    if (early_before(call)) + call.early_change >= call.limits.max_early then return 's' end
    return is_early_full(call, root) and 's' or nil
  end

  -- Remembers the edge of an ack or a fail. Returns nil, or the code that answers one which changes nothing. In a full
  -- store one of a pending root counts though there is no room to remember its edge: the root has to end, and edges stay
  -- longer than it does.
  function edge_refusal(call, root, op)
    -- rule: an edge belongs to a tree by the start of it
    local started = root.state == 'N' and call.now or root.started
    -- rule: an early root takes no further edge where early roots take all that they may
    local has_room = has_room_for_edge(call, root.state == 'P') and not (root.state == 'E' and is_early_full(call, root))
    local code = remember_edge(call, root.bucket, started, op.edge_high, op.edge_low, has_room)
    -- rule: in a full store a pending root takes the ack of an edge that there is no room to remember
    return not (code == 's' and root.state == 'P' and call.store_full) and code or nil
  end

  -- Packs what a root keeps of a failure: a short reason where memory is scarce. An early root keeps it until its init comes: a
  -- short reason above half of what early roots may take, and no texts above five quarters of it. A fail by hand has no such bound.
  function kept_failure(call, root, op)
    local most = root.state ~= 'P' and call.limits and call.limits.max_early_bytes
    local taken = most and early_bytes(call, root)
    -- rule: where early roots took a quarter more than they may, a failure has no texts
    if most and taken * 4 > most * 5 then return pack_failure() end
    local reason = op.text
    -- a short reason needs no room
    if not reason or #reason <= SHORT_REASON then return pack_failure(reason, op.component) end
    -- rule: above half of what early roots may take a failure is short
    local is_short = most and taken * 2 > most
    -- rule: where memory is scarce a failure is short
    if is_short or not take_room_for_text(call, reason) then reason = first_characters(reason, SHORT_REASON) end
    return pack_failure(reason, op.component)
  end

  -- Takes a free slot for an init. Returns nil, or the code that refuses it.
  function admission_refusal(call, root, op)
    local code = full_refusal(call, op)
    if code or not call.free_slots or would_finish(call, root, op) then return code end
    -- rule: an init without a free slot is refused
    if (call.free_slots[op.spout] or 0) <= 0 then return 'm' end
    -- rule: an init takes a slot
    call.free_slots[op.spout], root.holds_slot = call.free_slots[op.spout] - 1, true
    return nil
  end

  function full_refusal(call, op)
    -- rule: no root begins where there is little room to remember its acks
    if call.store_full or not has_room_for_roots(call) then return 's' end
    return call.free_slots and call.free_slots[op.spout] == MAILBOX_FULL and 'b' or nil
  end

  -- Whether this init would finish the root at once, so that it needs no slot.
  function would_finish(call, root, op)
    if root.state == 'N' then return op.high == 0 and op.low == 0 and (op.outstanding or 0) == 0 end
    -- rule: the init of a failed root needs no slot
    if root.failed and (root.tally and root.tally.has_plain_fail or not ends_when_all_have(call, op)) then return true end
    local zero = bit.bxor(root.high, op.high) == 0 and bit.bxor(root.low, op.low) == 0
    return zero and (add_outstanding(root.outstanding, op.outstanding) or 0) == 0
  end

  -- Whether this init is the one that made the root pending: the same spout task and the same message id.
  function emitted_by(call, root, op)
    -- rule: an init is the same one by its spout task and its message id
    return root.spout == op.spout and read_message_id(call, root) == op.text
  end

  TRANSITIONS = { init, ack, fail, reset_timeout }

  -- Answers an operation of a request that was applied before, without effect (acker_protocol/idempotency.py).
  -- op.refused says that its first run refused it.
  function replay_operation(call, root, op, kind)
    if root.state == 'F' then return root.outcome end
    if kind == INIT then
      if root.state == 'P' then return emitted_by(call, root, op) and 'p' or 'c' end
      -- rule: a repeated init that was refused for its cap is told so again
      return op.refused and 'm' or 'd'
    end
    if op.refused then return 's' end
    -- rule: a repeat whose root is forgotten is a duplicate
    if root.state == 'N' then return 'd' end
    if root.state == 'E' then return kind == RESET_TIMEOUT and 'u' or 'e' end
    -- rule: a fail that is repeated is a duplicate, though its root is pending, unless it may have ended an edge alone
    return kind == FAIL and not (op.form == ENDS_EDGE and root.tally) and 'd' or 'p'
  end
end

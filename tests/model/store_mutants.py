# ruff: noqa: E501 - a rule stands in one line
# fmt: off
"""The rules of the store beside the state machine, each broken on purpose, and the tests that notice."""

from tests.support.mutant import LUA, SERVICE, Mutant

Rule = tuple[str, str, str, str]
"""What the rule says, how it reads, how it is broken, and the test that notices."""

ANSWERS = "tests/integration/test_answers.py::"
COMPLETIONS = "tests/integration/test_completions.py::"
CODEC = "tests/unit/service/topologies/test_cursors.py::"
CURSORS = "tests/integration/test_cursors.py::"
DEAD = "tests/integration/test_dead_letters.py::"
DELIVERIES = "tests/integration/test_deliveries.py::"
FAILURES = "tests/integration/test_failures.py::"
FAILURES_METRIC = "tests/integration/test_failures_metric.py::"
FULL = "tests/faults/test_full_store.py::"
LATENCIES = "tests/model/test_latencies.py::test_a_latency_is_counted_at_the_least_power_of_two_that_holds_it"
LIFETIMES = "tests/model/test_lifetimes.py::"
LIBRARY = "tests/integration/test_library.py::"
LISTING = "tests/integration/test_pending_roots.py::"
COMPLETION_CODEC = "tests/unit/service/redis/test_completion_codec.py::"
HISTORY = "tests/integration/test_history.py::"
IDLE = "tests/integration/test_idle.py::"
PAGES = "tests/integration/test_pages.py::"
READING = "tests/unit/service/mailboxes/test_reading.py::"
PAGING = "tests/unit/service/mailboxes/test_paging.py::"
POLL = "tests/integration/test_long_poll.py::"
READERS = "tests/integration/test_read_coalescer.py::"
MANY = "tests/integration/test_many_spouts.py::"
NARROW = "tests/integration/test_full_mailbox.py::"
EARLY = "tests/model/test_early.py::"
EXPLAIN = "tests/integration/test_explain.py::"
FAST = "tests/model/test_fast_path.py::"
EARLY_ROOTS = "tests/integration/test_early_roots.py::"
DEPARTURES = "tests/integration/test_spout_deletion.py::"
REMEMBERED = "tests/integration/test_remembered_requests.py::"
REFUSALS = "tests/integration/test_repeats.py::"
RELEASES = "tests/integration/test_two_releases.py::"
REMOVAL = "tests/integration/test_topology_deletion.py::"
REPEATS = "tests/integration/test_idempotency.py::"
ROOTS = "tests/integration/test_roots.py::"
SLICES = "tests/model/test_slices.py::"
SPOUTS = "tests/integration/test_spouts.py::"
SWEEPING = "tests/model/test_sweep.py::"
STAMPS = "tests/integration/test_stamps.py::"
TABLE = "tests/model/test_table.py::"
TICK = "tests/model/test_tick.py::"
TICKS = "tests/integration/test_ticks.py::"
TIME = "tests/integration/test_time.py::"
TOPOLOGIES = "tests/integration/test_topologies.py::"
TRIPS = "tests/integration/test_trips.py::"
TURNS = "tests/integration/test_batcher.py::"

IN_ACKER: list[Rule] = [
    ("a lower pair is stale", "if not own or stamp < own or", "if not own or", STAMPS + "test_a_lower_pair_is_stale_and_told_the_shards_own"),
    ("a shard without a stamp is stale", "if not own or stamp < own or", "if own and stamp < own or own and", STAMPS + "test_a_shard_without_a_stamp_takes_no_pair"),
    ("a higher pair is adopted", "  redis.call('SET', key, stamp)\n  return nil", "  return { 'stale', own }", STAMPS + "test_a_higher_pair_is_adopted"),
    ("an adopted pair is the shard's own from then on", "  redis.call('SET', key, stamp)\n  return nil", "  return nil", STAMPS + "test_a_higher_pair_is_adopted"),
    ("a tombstone refuses every version of its incarnation", " or stamp:sub(1, 16) == own:sub(1, 16) and #own > #stamp then", " then", STAMPS + "test_a_tombstone_refuses_every_version_of_its_incarnation"),
    ("a tombstone refuses no other incarnation", "stamp:sub(1, 16) == own:sub(1, 16) and #own", "#own", STAMPS + "test_a_tombstone_gives_way_to_a_later_incarnation"),
    ("stamping leaves a higher stamp alone", "if redis.call('EXISTS', keys[1]) == 0 then redis", "if true then redis", STAMPS + "test_stamping_leaves_a_higher_stamp_alone"),
    ("a barrier is a write at the place of its key", "keys[1]:match('^[^}]*}') .. ':barrier'", "'acker:{barrier}'", STAMPS + "test_a_barrier_writes_at_the_place_of_its_key"),
    ("a barrier goes on its own", ", '', 'PX', BACKSTOP_MS)", ", '')", STAMPS + "test_a_barrier_writes_at_the_place_of_its_key"),
    ("a shard without a stamp is stamped", "if redis.call('EXISTS', keys[1]) == 0 then redis", "if false then redis", STAMPS + "test_a_shard_without_a_stamp_is_stamped"),
    ("keys carry the incarnation", "base = base,", "base = key .. ':0:',", REMOVAL + "test_with_discard_it_goes_at_once"),
    ("all functions of a shard use keys with the incarnation", "return key .. ':' .. stamp:sub(1, 16) .. ':'", "return key .. ':0:'", LIFETIMES + "test_emitting_and_reading_use_a_spout_task_which_is_noted_once_a_second"),
    ("a call that collected something writes it", "call[name], call.is_unused = made, false", "call[name] = made", POLL + "test_a_completion_on_another_replica_wakes_who_waits"),
    ("hints carry the incarnation", "return call.stamp:sub(1, 16) end", "return 'none' end", POLL + "test_a_completion_on_another_replica_wakes_who_waits"),
    ("hints go to the channel of their shard", "return call.key .. ':hints' end", "return 'acker:hints' end", POLL + "test_a_completion_on_another_replica_wakes_who_waits"),
    ("the backstop is set", "  redis.call('PEXPIREAT', key, call.now + BACKSTOP_MS)\n", "", LIFETIMES + "test_roots_go_on_their_own_in_a_store_that_nobody_serves"),
    ("the backstop is three times the longest timeout", "21 * 86400000", "7 * 86400000", LIFETIMES + "test_roots_go_on_their_own_in_a_store_that_nobody_serves"),
    ("a slice keeps its later end", "redis.call('PEXPIRETIME', key) < call.now + window", "true", SLICES + "test_a_slice_of_acked_edges_keeps_the_later_end"),
    ("a slice gets the later end of a longer window", "redis.call('PEXPIRETIME', key) < call.now + window", "redis.call('PEXPIRETIME', key) < 0", SLICES + "test_a_slice_of_acked_edges_keeps_the_later_end"),
    ("what frees or reads runs in a full store", "flags = flags or { 'allow-oom' }", "flags = flags or {}", FULL + "test_everything_pending_ends_and_is_told_and_inits_go_on_when_there_is_room"),
    ("a right that is missing is told", "is_checked and may and '1' or '0'", "'1'", LIBRARY + "test_a_missing_right_is_named_before_a_function_runs"),
    ("a command that the server lacks is not allowed", "is_checked and may", "may", LIBRARY + "test_a_command_that_the_server_lacks_is_not_allowed"),
    ("an error of the check is no missing right", "not may:find('Invalid command', 1, true)", "false", LIBRARY + "test_an_error_of_the_check_is_told_and_is_no_missing_right"),
    ("a stale call applies nothing", "    if stale then return stale end\n", "", STAMPS + "test_a_call_that_is_stale_applies_nothing"),
]

IN_COMPLETIONS: list[Rule] = [
    ("an outcome has its own code", "A = 0, F = 1, T = 2", "A = 0, F = 2, T = 1", ANSWERS + "test_a_completion_tells_message_id_reason_component_and_latency"),
    ("an outcome has its own count", "A = 'acked', F = 'failed', T = 'timed_out'", "A = 'acked', F = 'timed_out', T = 'failed'", ANSWERS + "test_counts_tell_how_roots_ended"),
    ("a completion ends behind its texts", "at = at + 2 + high * 256 + low", "at = at + 2 + high", PAGES + "test_an_entry_is_read_on_behind_what_was_read_of_it"),
    ("a completion carries the message id", "add_text(OUTCOME[outcome], '', 4, read_message_id(call, root))", "OUTCOME[outcome], ''", ANSWERS + "test_a_message_id_comes_back_as_given"),
    ("a completion carries the traceparent", "flags, packed = add_text(flags, packed, 32, read_traceparent(call, root))", "", ANSWERS + "test_a_completion_gives_back_the_traceparent_however_the_root_ends"),
    ("a traceparent lies beside the record", "or root.has_traceparent and redis", "or false and redis", ANSWERS + "test_a_completion_gives_back_the_traceparent_however_the_root_ends"),
    ("a long message id lies beside the record", "or root.message_id_is_long and redis", "or false and redis", LISTING + "test_a_long_message_id_is_shown"),
    ("an early failure lies beside the record", "return root.failure or redis.call('HGET', call.base .. 'x' .. root.bucket, 'f' .. root.id)", "return root.failure", ANSWERS + "test_an_early_failure_keeps_its_own_reason_until_the_init"),
    ("a failure has a reason", "add_text(0, '', 8, reason)", "0, ''", ANSWERS + "test_a_completion_tells_message_id_reason_component_and_latency"),
    ("a failure names its component", "  flags, packed = add_text(flags, packed, 16, component)\n", "", ANSWERS + "test_a_completion_tells_message_id_reason_component_and_latency"),
    ("a failed root is told with its reason", "if outcome == 'F' then", "if false then", ANSWERS + "test_a_completion_tells_message_id_reason_component_and_latency"),
    ("a completion says when the tree began", "root.id, root.started - EPOCH,", "root.id, call.now - EPOCH,", TIME + "test_a_progress_timeout_ends_a_root_that_stands_still"),
    ("a full mailbox is not opened by a root that ends", "if free and free ~= MAILBOX_FULL then", "if free then", NARROW + "test_a_full_mailbox_stays_full_though_a_root_ends_in_the_same_request"),
    ("a root under a removed spout task is told to nobody", "if not is_gone(call, spout) then append_completions", "if true then append_completions", DEPARTURES + "test_what_ends_under_a_removed_spout_task_leaves_nothing"),
    ("a root under a removed spout task is not counted", "if change ~= 0 and not is_gone(call, spout) then", "if change ~= 0 then", DEPARTURES + "test_what_ends_under_a_removed_spout_task_leaves_nothing"),
    ("unread completions are counted", "  redis.call('HINCRBY', call.base .. 'unread', spout, #completions)\n", "", SPOUTS + "test_a_spout_task_is_shown_with_what_is_pending_and_unread"),
    ("every completion of a box is unread", "'unread', spout, #completions)", "'unread', spout, 1)", SPOUTS + "test_a_spout_task_is_shown_with_what_is_pending_and_unread"),
    ("the newest entry is noted", "  redis.call('HSET', call.base .. 'tips', spout, entry)\n", "", READERS + "test_all_mailboxes_that_are_waited_for_are_swept_in_one_round_trip"),
    ("a hint that may not be published stops nothing", "redis.pcall('SPUBLISH'", "redis.call('SPUBLISH'", LIBRARY + "test_a_hint_that_may_not_be_published_stops_nothing"),
    ("a trace that grew counts though nothing else changed", "and call.traces_growth == 0 and", "and", EXPLAIN + "test_a_trace_grows_in_steps_as_it_is_counted"),
    ("news are hinted at", "  publish_hint(call.hints_channel, call.incarnation, spout)\n", "", POLL + "test_a_completion_on_another_replica_wakes_who_waits"),
    ("pending roots are counted", "redis.call('HINCRBY', call.base .. 'pending', spout, change)", "redis.call('HGET', call.base .. 'pending', spout)", SPOUTS + "test_an_init_registers_its_spout_task"),
    ("an emit uses its spout task", "  for spout in pairs(collected(call, 'emitted')) do redis.call('HSET', call.base .. 'used', spout, call.now) end\n", "", LIFETIMES + "test_emitting_and_reading_use_a_spout_task_which_is_noted_once_a_second"),
    ("ended roots are counted", "redis.call('HINCRBY', call.base .. 'counts', COUNTED[outcome] .. ':' .. exponent, change)", "redis.call('HSET', call.base .. 'counts', COUNTED[outcome] .. ':' .. exponent, change)", TICK + "test_one_tick_ends_all_that_is_overdue"),
    ("dropped roots are counted", "redis.call('HINCRBY', call.base .. 'counts', name, change)", "redis.call('HGET', call.base .. 'counts', name)", DEPARTURES + "test_a_forced_deletion_drops_and_counts_what_is_early"),
    ("a latency is counted at the least power of two that holds it", "math.frexp(latency - 1)", "math.frexp(latency)", LATENCIES),
    ("long latencies are counted together", "exponent < MAX_EXPONENT and exponent or MAX_EXPONENT", "exponent", LATENCIES),
    ("latencies are added up", "  if latency > 0 then count(call, LATENCY_SUM[outcome], latency * times) end\n", "", LATENCIES),
]

IN_RECORD: list[Rule] = [
    ("what is noted is written though the rest did not change", "if root.traced and (root.dirty or root.entries) then", "if root.traced and root.dirty then", FAST + "test_it_answers_and_stores_what_the_state_machine_does"),
    ("where no root is early there is no number", "    redis.call('UNLINK', call.base .. 'early')\n", "    redis.call('SET', call.base .. 'early', number)\n", EARLY + "test_a_shard_without_early_roots_keeps_no_number"),
    ("the number is never below none", "if number > 0 then", "if number ~= 0 then", EARLY + "test_a_number_that_is_wrong_never_goes_below_none"),
    ("the number outlives the buckets", "BACKSTOP_MS * 4 / 3", "BACKSTOP_MS", EARLY + "test_the_number_outlives_the_last_early_root_and_the_bucket_that_holds_it"),
    ("what lies beside a record goes with it", "if root.message_id_is_long or root.has_traceparent or root.failed and not root.was_pending then", "if false then", LIFETIMES + "test_what_lies_beside_a_record_goes_with_it"),
]

IN_REQUESTS: list[Rule] = [
    ("an init whose root is unknown needs its spout task", "return (replayed or call.store_full) and '.' or '?'", "return '.'", REMEMBERED + "test_a_root_that_is_forgotten_between_the_question_and_the_init_gets_its_spout_task"),
    ("a repeat needs no spout task", "return (replayed or call.store_full) and '.' or '?'", "return call.store_full and '.' or '?'", REFUSALS + "test_a_repeated_request_does_not_make_its_spout_task_again_after_the_retention"),
    ("in a full store no spout task is registered", "return (replayed or call.store_full) and '.' or '?'", "return replayed and '.' or '?'", REMEMBERED + "test_in_a_full_store_no_spout_task_is_registered"),
    ("a finished root needs no spout task", "or root.state == 'F' then return '.' end", "then return '.' end", REFUSALS + "test_a_repeated_init_of_a_remembered_root_does_not_make_its_spout_task_again"),
    ("a pending root may belong to a spout task that was registered meanwhile", "and not is_gone(call, root.spout) and '!' or '.' end", "and '.' or '.' end", REMEMBERED + "test_an_init_that_is_sent_twice_at_once_to_a_new_spout_task_is_no_conflict"),
    ("a question applies nothing", "if call.spouts == ASKED or marks:find('[?!]') then", "if marks:find('[?!]') then", REMEMBERED + "test_a_question_for_spout_tasks_applies_nothing"),
    ("what needs a spout task is not applied", "if call.spouts == ASKED or marks:find('[?!]') then", "if call.spouts == ASKED then", REMEMBERED + "test_a_root_that_is_forgotten_between_the_question_and_the_init_gets_its_spout_task"),
    ("without a key nothing is remembered", "if request.set == '' then return '+' .. apply_operations(call, request.ops) end", "", TURNS + "test_calls_without_a_key_leave_nothing_to_remember"),
    ("what had no effect is remembered", "if call.store_full and not call.changed then return end", "if not call.changed then return end", REPEATS + "test_what_had_no_effect_is_remembered_too"),
    ("in a full store what had no effect is not remembered", "if call.store_full and not call.changed then return end", "", REMEMBERED + "test_in_a_full_store_only_a_request_that_changed_something_is_remembered"),
    ("each request has its own effect", "    call.changed = false\n", "", REMEMBERED + "test_in_a_full_store_only_a_request_that_changed_something_is_remembered"),
    ("a single operation that was refused is not remembered", "if refused and request.partial_hash == '' then return end", "", REPEATS + "test_a_request_whose_inits_were_all_refused_is_begun_anew"),
    ("both slices are looked at", "for slice = 0, 1 do", "for slice = 0, 0 do", SLICES + "test_a_repeat_is_known_for_a_window_whenever_it_came"),
    ("both slices are looked at", "for slice = 0, 1 do", "for slice = 1, 1 do", SLICES + "test_a_repeat_is_known_for_a_window_whenever_it_came"),
    ("requests lie in the slice of now", "local key = math.floor(call.now / call.idempotency_window) % 2 .. ':' .. request.set", "local key = '0:' .. request.set", SLICES + "test_a_request_is_forgotten_though_others_follow"),
    ("a request that was refused a place is a repeat too", "if found[1] == 1 or found[2] == 1 then", "if found[1] == 1 then", REPEATS + "test_refused_inits_are_told_again_and_taken_in_a_new_request"),
    ("it is remembered that a place was refused", "request.had_refusals = found[2] == 1", "request.had_refusals = false", REPEATS + "test_refused_inits_are_told_again_and_taken_in_a_new_request"),
    ("it is remembered which operations were refused", "redis.call('HSET', bits, request.partial_hash, pack_refused(request.positions, codes))", "", REFUSALS + "test_after_the_retention_only_the_init_that_was_refused_is_said_to_be_refused"),
    ("the release before hears which operations were refused", "return not request.knows_positions and redis.call('HGET', key, request.partial_hash .. APPLY_ORDER)\n      or redis.call('HGET', key, request.partial_hash)", "return request.knows_positions and redis.call('HGET', key, request.partial_hash)", REMEMBERED + "test_the_release_before_tells_again_which_operations_this_one_refused"),
    ("it knows them by the order in which they were applied", "if request.positions ~= '' then", "if false then", REMEMBERED + "test_the_release_before_tells_again_which_operations_this_one_refused"),
    ("what was refused is kept no longer than that it was", "redis.call('PEXPIREAT', bits, redis.call('PEXPIRETIME', hashes))", "", REMEMBERED + "test_what_was_refused_is_forgotten_with_the_request"),
    ("an operation is known by its position in the request", "return positions == '' and n - 1 or struct.unpack('>I4', positions, n * 4 - 3)", "return n - 1", REFUSALS + "test_it_is_said_of_the_same_ones_whatever_the_cap_is_then"),
    ("the release before knew only that an init was refused", "if not request.refused then return kind == INIT end", "if not request.refused then return false end", REMEMBERED + "test_a_request_that_the_release_before_remembered_is_answered_as_it_did"),
    ("a conflict is remembered", "'[bcms]'", "'[bms]'", REFUSALS + "test_an_init_that_was_a_conflict_is_not_said_to_have_been_applied"),
    ("a full cap is remembered", "'[bcms]'", "'[bcs]'", REPEATS + "test_refused_inits_are_told_again_and_taken_in_a_new_request"),
    ("a full mailbox is remembered", "'[bcms]'", "'[cms]'", NARROW + "test_a_repeat_tells_again_that_an_init_found_no_place"),
    ("a full store is remembered", "'[bcms]'", "'[bcm]'", FULL + "test_a_batch_that_is_refused_for_memory_is_applied_but_for_its_inits"),
    ("a repeat is answered as one", "return '=' .. run(call", "return '+' .. run(call", REPEATS + "test_a_batch_over_several_shards_is_repeated_in_all_of_them"),
    ("a repeat is not applied", "      return replay_operation(call, root, op, kind)\n", "      return apply_operation(call, root, op, kind)\n", REPEATS + "test_a_repeated_ack_is_applied_once"),
    ("the room that is left goes on to the next shard", "    reply[2] = write_free_slots(call.free_slots)\n", "    reply[2] = args[3]\n", "tests/integration/test_answers.py::test_room_under_a_cap_is_one_for_all_shards"),
    ("a cap counts what is pending in all shards", "for shard = 0, shards - 1 do", "for shard = 0, 0 do", ANSWERS + "test_room_under_a_cap_is_one_for_all_shards"),
    ("what is pending is taken off a cap", "call.free_slots[some[i]] - (pending or 0)", "call.free_slots[some[i]]", ANSWERS + "test_room_under_a_cap_is_one_for_all_shards"),
    ("a call that Redis refuses for memory takes no inits", "return version(key, base, args, true)", "return version(key, base, args, false)", FULL + "test_a_batch_that_is_refused_for_memory_is_applied_but_for_its_inits"),
    ("for a replica of the release before acks begin trees without a bound", "call.store_full, call.spouts, call.free_slots = store_full, REGISTERED, read", "call.max_early, call.store_full, call.spouts, call.free_slots = 1, store_full, REGISTERED, read", EARLY + "test_replicas_of_the_release_before_begin_trees_without_a_bound_and_they_are_counted[acker_apply_full_v1]"),
    ("a call with inits is refused when memory is full", "redis.register_function('acker_apply_v2', on_shard(with_memory(apply_v2)))", "register_on_shard('acker_apply_v2', with_memory(apply_v2))", FULL + "test_everything_pending_ends_and_is_told_and_inits_go_on_when_there_is_room"),
]

IN_OPERATIONS: list[Rule] = [
    ("a traceparent is not that of the next operation", "op.is_late, op.traceparent = nil, flags >= 128, nil, nil", "op.is_late = nil, flags >= 128, nil", ANSWERS + "test_a_traceparent_is_not_that_of_the_next_root"),
    ("an unknown count is unknown", "  if flags % 2 == 1 then op.outstanding = nil end\n", "", ANSWERS + "test_one_who_leaves_the_count_out_makes_it_unknown_for_good"),
    ("an extra is its own operation's", "  op.message_timeout, op.progress_timeout, op.text, op.component, op.edge_high = nil, nil, nil, nil, nil\n", "", ANSWERS + "test_what_one_operation_says_is_not_said_of_the_next"),
    ("a text is as long as it says", "ops:sub(pos + 2, stop - 1)", "ops:sub(pos + 2, stop)", ANSWERS + "test_a_completion_tells_message_id_reason_component_and_latency"),
    ("a root is put down before the next", "      save_root(call, root)\n      load_root(call, root, root_id, bucket)", "      load_root(call, root, root_id, bucket)", FAST + "test_it_answers_and_stores_what_the_state_machine_does"),
    ("the last root is put down", "  save_root(call, root)\n  return table.concat(codes)", "  return table.concat(codes)", FAST + "test_it_answers_and_stores_what_the_state_machine_does"),
    ("each request takes its roots up anew", "  root.id = nil\n", "", FAST + "test_a_request_that_comes_twice_in_one_call_counts_once"),
]

IN_BUCKETS: list[Rule] = [
    ("outcomes are forgotten when they expire", "    if call.now > expiry then return nil end\n", "", SLICES + "test_an_outcome_is_forgotten_though_others_follow"),
    ("a slice begins when the one before ends", "call.now >= call.slice_end or", "", SLICES + "test_an_outcome_is_forgotten_though_others_follow"),
    ("a changed retention begins a slice", " or call.slice_retention ~= call.retention then", " then", SLICES + "test_an_outcome_keeps_its_expiry_when_the_retention_becomes_longer"),
    ("a changed retention begins a slice", " or call.slice_retention ~= call.retention then", " then", SLICES + "test_an_outcome_keeps_its_expiry_when_the_retention_becomes_shorter"),
    ("a number is used again only once its outcomes are removed", "or 0) > expiry then return true end", "or 0) >= 0 then return true end", SLICES + "test_an_outcome_that_was_not_removed_yet_is_not_remembered_again_by_a_later_slice"),
    ("a number is used again", "or 0) > expiry then return true end", "or 0) < 0 then return true end", SWEEPING + "test_a_slice_number_that_is_needed_again_makes_a_sweep_come_early"),
    ("a number that is needed brings a sweep", "    redis.call('HSET', key, 'forced', 1)\n", "", SWEEPING + "test_a_slice_number_that_is_needed_again_makes_a_sweep_come_early"),
    ("it is looked when the outcomes of a slice expire", "    redis.call('ZADD', call.due_key, 'LT', expiry, SWEEP)\n", "", SWEEPING + "test_outcomes_that_have_to_be_kept_count_like_roots"),
    ("an outcome of the call is not among those before its slice", "counts[i]:find(':', 1, true)", "counts[i]", SWEEPING + "test_expired_outcomes_are_removed_once_they_are_as_many_as_what_is_kept"),
    ("a lower score stays", "'ZADD', call.due_key, 'LT', unpack", "'ZADD', call.due_key, unpack", TICK + "test_each_root_of_a_bucket_ends_in_its_own_time"),
    ("the lowest score of a call is written", "if not score or moment < score then", "if true then", TICK + "test_one_tick_ends_all_that_is_overdue"),
    ("a new bucket gets the backstop", "if redis.call('PEXPIRETIME', key) == -1 then", "if false then", LIFETIMES + "test_roots_go_on_their_own_in_a_store_that_nobody_serves"),
    ("more scores than a command takes are written", "if n == 2 * PAIRS_PER_CALL then", "if false then", TICK + "test_more_buckets_than_a_command_takes_are_scored"),
]

IN_FAST_PATH: list[Rule] = [
    ("an init with a traceparent is not plain", " and (kind == ACK or flags % 64 < 32), nil, nil", ", nil, nil", FAST + "test_it_answers_and_stores_what_the_state_machine_does"),
    ("a root that ends is pending no more", "call.pending[spout], call.changed = (call.pending[spout] or 0) - 1, true", "call.changed = true", "tests/integration/test_batcher.py::test_acks_of_one_turn_do_what_they_do_one_by_one"),
    ("plain operations take it", "local FAST_PATH = true", "local FAST_PATH = false", FAST + "test_inits_and_acks_with_all_that_clients_name_take_it"),
    ("an ack is XORed", "bxor(high, op_high), bxor(low, op_low)", "op_high, op_low", FAST + "test_it_answers_and_stores_what_the_state_machine_does"),
    ("a zero with edges outstanding is unbalanced", "(sum ~= 0 or kept % DETAILS >= LONG_MESSAGE_ID)", "kept % DETAILS >= LONG_MESSAGE_ID", FAST + "test_it_answers_and_stores_what_the_state_machine_does"),
    ("a count that is too large goes to the state machine", "if not is_narrow(sum) or is_zero", "if is_zero", FAST + "test_it_answers_and_stores_what_the_state_machine_does"),
    ("a long message id is read by the state machine", "(sum ~= 0 or kept % DETAILS >= LONG_MESSAGE_ID)", "sum ~= 0", FAST + "test_an_ack_of_a_later_call_ends_a_root_with_its_message_id"),
    ("an edge that was acked is a duplicate", "elseif dedupes and edge_at and is_acked_before", "elseif false and is_acked_before", FAST + "test_it_answers_and_stores_what_the_state_machine_does"),
    ("a timeout of its own stands before the message id", "PLAIN_RECORD[flags + OWN_TIMEOUT] = 12, 16", "PLAIN_RECORD[flags + OWN_TIMEOUT] = 12, 12", FAST + "test_an_ack_of_a_later_call_ends_a_root_with_its_message_id"),
    ("what begins is pending", "call.pending[spout], call.emitted[spout], call.changed = (call.pending[spout] or 0) + 1, true, true", "call.emitted[spout], call.changed = true, true", FAST + "test_it_answers_and_stores_what_the_state_machine_does"),
    ("what ends is pending no more", "call.pending[spout], call.changed = (call.pending[spout] or 0) - 1, true", "call.changed = true", FAST + "test_it_answers_and_stores_what_the_state_machine_does"),
    ("what begins takes a slot", "    if call.free_slots then call.free_slots[spout] = call.free_slots[spout] - 1 end\n", "", FAST + "test_under_a_cap_inits_take_slots_and_ends_free_them"),
    ("what ends frees a slot", "    if free and free ~= MAILBOX_FULL then call.free_slots[spout] = free + 1 end\n", "", FAST + "test_under_a_cap_inits_take_slots_and_ends_free_them"),
    ("without a free slot the state machine refuses", "return not call.free_slots or (call.free_slots[spout] or 0) > 0", "return true", FAST + "test_under_a_cap_inits_take_slots_and_ends_free_them"),
    ("a latency is counted", "    call.acked_latencies[latency] = (call.acked_latencies[latency] or 0) + 1\n", "", FAST + "test_it_answers_and_stores_what_the_state_machine_does"),
    ("with a progress timeout the state machine begins a root", "call.progress_timeout == 0 and not call.store_full", "not call.store_full", FAST + "test_it_answers_and_stores_what_the_state_machine_does"),
    ("what was changed is written before the state machine goes on", "            redis_call('HSET', key, root_id, raw)\n          end\n          rest", "          end\n          rest", FAST + "test_it_answers_and_stores_what_the_state_machine_does"),
    ("what was changed is written at the next root", "          redis_call('HSET', key, last, pack_acked(call, high, low, outstanding, kept, component, acks, rest))\n        else\n          save_root", "        else\n          save_root", FAST + "test_it_answers_and_stores_what_the_state_machine_does"),
    ("an ack of a traced root is noted", "true, true, 'p'\n          is_noted = is_traced\n", "true, true, 'p'\n", FAST + "test_it_answers_and_stores_what_the_state_machine_does"),
    ("the last ack of a traced root is noted", "is_noted, ended = is_traced, 'A'", "ended = 'A'", EXPLAIN + "test_a_trace_stays_when_the_outcome_is_forgotten"),
    ("a traced root has its end noted", "is_noted, ended = is_traced, 'A'", "is_noted = is_traced", EXPLAIN + "test_the_traces_of_acked_roots_make_space_for_others"),
    ("a traced root begins its trace", "begins, is_noted = is_traced, is_traced", "is_noted = is_traced", FAST + "test_it_answers_and_stores_what_the_state_machine_does"),
    ("the state machine goes on with what was noted", "if noted then root.entries, root.begins_trace = noted, begins end", "", FAST + "test_it_answers_and_stores_what_the_state_machine_does"),
    ("other rare fields are for the state machine", "if is_traced and rest:sub(rare_at, rare_at) ~= ONLY_TRACED then rest = nil end", "", FAST + "test_it_answers_and_stores_what_the_state_machine_does"),
    ("a traced root has a shorter message id", "#text + (is_traced and #ONLY_TRACED or 0) > ", "#text > ", FAST + "test_it_answers_and_stores_what_the_state_machine_does"),
    ("what is short of a zero value begins", "(op_high ~= 0 or op_low ~= 0)\n", "true\n", FAST + "test_it_answers_and_stores_what_the_state_machine_does"),
]

IN_TRANSITIONS: list[Rule] = [
    ("without ackers an init has its traceparent", "root.spout, root.message_id, call.emitted[op.spout] = op.spout, op.text, true\n    root.traceparent = op.traceparent", "root.spout, root.message_id, call.emitted[op.spout] = op.spout, op.text, true", ANSWERS + "test_without_ackers_the_traceparent_comes_back"),
    ("pairs lie in the slice of now", "math.floor(call.now / call.dedupe_window) % 2 .. set", "'0' .. set", SLICES + "test_an_acked_edge_is_forgotten_though_others_follow"),
    ("a slice of pairs expires", "    expire_slice(call, key, call.dedupe_window)\n", "", SLICES + "test_an_acked_edge_is_forgotten_though_others_follow"),
]

IN_TICK: list[Rule] = [
    ("a root that timed out names the component that acked last", "flags >= DETAILS and component_name(call, raw:byte(COMPONENT_AT)) or ''", "''", FAILURES_METRIC + "test_a_root_that_timed_out_counts_for_the_component_that_acked_last"),
    ("what is over leaves the index", "if #call.empty > 0 then redis.call('ZREM', call.due_key, unpack(call.empty)) end", "", TICK + "test_a_shard_is_looked_at_until_the_outcomes_of_its_roots_are_forgotten"),
    ("the earliest deadline is the bucket's score", "deadline < earliest) then earliest = deadline end", "deadline > earliest) then earliest = deadline end", TICK + "test_each_root_of_a_bucket_ends_in_its_own_time"),
    ("what stays in the index is scored by what is left", "if #call.scored > 0 then redis.call('ZADD', call.due_key, unpack(call.scored)) end", "", TICK + "test_a_shard_is_looked_at_until_the_outcomes_of_its_roots_are_forgotten"),
    ("a tick says how many roots ended", "    call.finished_count = call.finished_count + 1\n    count_completion", "    count_completion", TIME + "test_a_root_that_takes_too_long_is_told_once_and_finished"),
    ("a tick says how many roots the state machine ended", "    call.finished_count = call.finished_count + 1\n    if root.state", "    if root.state", TICK + "test_a_tick_says_how_many_roots_ended_by_either_path"),
    ("a tick renews the backstop of a bucket", "    set_backstop_ttl(call, key)\n    if has_long", "    if has_long", LIFETIMES + "test_a_visit_of_the_tick_renews_what_is_kept_of_pending_roots"),
    ("a tick renews the backstop of what lies beside", "    if has_long_values then set_backstop_ttl(call, call.base .. 'x' .. bucket) end\n", "", LIFETIMES + "test_a_visit_of_the_tick_renews_what_is_kept_of_pending_roots"),
    ("a bucket is due behind its score", "'(' .. call.now, 'BYSCORE'", "'(' .. (call.now - 1), 'BYSCORE'", TICK + "test_a_root_is_overdue_a_millisecond_behind_its_deadline"),
    ("a tick looks at buckets that are due, and at no others", "'(' .. call.now, 'BYSCORE'", "'+inf', 'BYSCORE'", TICK + "test_a_tick_leaves_buckets_that_are_not_due_alone"),
    ("an overfull bucket is left to be walked", "if size > OVERFULL then", "if false then", TICK + "test_a_tick_leaves_an_overfull_bucket_to_be_walked"),
    ("a call reads so many records", "budget = budget - size - 1", "budget = budget - 1", TICK + "test_a_tick_reads_so_many_records_a_call"),
    ("there is more when the records are spent", "budget <= 0 or #due_now", "#due_now", TICK + "test_a_tick_reads_so_many_records_a_call"),
    ("there is more when many buckets are due", "budget <= 0 or #due_now == MAX_BUCKETS and overfull < MAX_BUCKETS", "budget <= 0", TICK + "test_one_tick_ends_all_that_is_overdue"),
    ("a walk ends without more when all that is due is overfull", " and overfull < MAX_BUCKETS\n", "\n", TICK + "test_a_tick_asks_for_no_more_when_all_that_is_due_has_to_be_walked"),
    ("a walk scores its bucket ahead", "if args[4] == '0' then redis.call('ZADD', call.due_key, call.now + LEASE_MS, bucket) end", "if args[4] == '0' then redis.call('ZREM', call.due_key, bucket) end", TICK + "test_a_bucket_that_is_walked_is_not_due_but_comes_due_again_if_its_walker_dies"),
    ("a walk takes its bucket out of what is due", "if args[4] == '0' then redis.call('ZADD', call.due_key, call.now + LEASE_MS, bucket) end", "", TICK + "test_a_bucket_that_is_walked_is_not_due_but_comes_due_again_if_its_walker_dies"),
    ("a walk ends by the score that it found", "if scan[1] == '0' and earliest then redis.call('ZADD', call.due_key, 'LT', earliest, bucket) end", "", TICK + "test_one_tick_ends_all_that_is_overdue"),
    ("a walk never scores above those that arrived meanwhile", "'ZADD', call.due_key, 'LT', earliest, bucket)", "'ZADD', call.due_key, earliest, bucket)", TICK + "test_a_root_that_arrives_during_a_walk_is_looked_at_in_time"),
    ("a walk remembers the earliest deadline of its pieces", "if found and (not earliest or found < earliest) then earliest = found end", "earliest = found", TICK + "test_a_walk_scores_its_bucket_by_the_earliest_of_all_pieces"),
    ("a walk renews the backstop", "      set_backstop_ttl(call, call.base .. 'r' .. bucket)\n      set_backstop_ttl", "      set_backstop_ttl", LIFETIMES + "test_a_visit_of_the_tick_renews_what_is_kept_of_pending_roots"),
    ("a record that is overdue is read whole", "elseif now > deadline or band(flags, RARE_FIELDS) ~= 0 then", "elseif band(flags, RARE_FIELDS) ~= 0 then", TICK + "test_a_root_times_out_once_whatever_its_record_holds"),
    ("a record with rare fields is read whole", "elseif now > deadline or band(flags, RARE_FIELDS) ~= 0 then", "elseif now > deadline then", TICK + "test_a_root_that_makes_no_progress_times_out_before_its_message_timeout"),
    ("a record with an idle deadline is read whole", "elseif now > deadline or band(flags, RARE_FIELDS) ~= 0 then", "elseif now > deadline then", TIME + "test_a_progress_timeout_ends_a_root_that_stands_still"),
    ("the fast path times out nothing that is in time", "if now > deadline and FAST_PATH and", "if FAST_PATH and", TICK + "test_each_root_of_a_bucket_ends_in_its_own_time"),
    ("the fast path takes no record with rare fields", "FAST_PATH and PLAIN_FLAGS[flags] then", "FAST_PATH then", TICK + "test_a_root_times_out_once_whatever_its_record_holds"),
    ("the fast path finds a message id behind a timeout of its own", "== 0 and 2 or 6)", "== 0 and 2 or 2)", TICK + "test_a_root_times_out_once_whatever_its_record_holds"),
    ("what the fast path times out is pending no more", "    call.pending[spout] = (call.pending[spout] or 0) - 1\n    call.finished_count", "    call.finished_count", TICK + "test_a_root_times_out_once_whatever_its_record_holds"),
    ("what the fast path times out is counted", "    count_completion(call, 'T', latency, 1)\n", "", TICK + "test_a_root_times_out_once_whatever_its_record_holds"),
    ("the fast path leaves an outcome", "    redis.call('HSET', call.base .. 'r' .. bucket, root_id, marker)\n", "    redis.call('HDEL', call.base .. 'r' .. bucket, root_id)\n", TICK + "test_a_root_times_out_once_whatever_its_record_holds"),
    ("what the fast path times out is scored by its expiry", "root_id, marker)\n    return expiry\n", "root_id, marker)\n    return nil\n", TICK + "test_a_root_times_out_once_whatever_its_record_holds"),
    ("an expired outcome is removed", "if not expiry then expired[#expired + 1] = fields[i - 1] end", "", SWEEPING + "test_what_the_tick_removes_for_a_deadline_calls_for_no_sweep"),
    ("a bucket of outcomes is scored by the last expiry", "(not latest or expiry > latest)", "(not latest or expiry < latest)", SWEEPING + "test_a_bucket_of_outcomes_is_removed_with_the_last_of_them"),
    ("a root that timed out is scored by its expiry", "    return nil, call.marker_expiry\n", "    return nil\n", TICK + "test_a_root_times_out_once_whatever_its_record_holds"),
    ("a sweep that goes on makes the tick go on", "local more = is_sweeping or", "local more =", SWEEPING + "test_a_sweep_of_many_buckets_takes_several_calls_and_moves_no_deadline"),
]

IN_SWEEP: list[Rule] = [
    ("all outcomes of a bucket are not all of it", "if #root_ids == size then", "if true then", SLICES + "test_the_tick_removes_the_outcomes_of_an_overfull_bucket"),
    ("what is removed is counted", "    call.removed = call.removed + #root_ids\n", "", SWEEPING + "test_what_the_tick_removes_for_a_deadline_calls_for_no_sweep"),
    ("a sweep waits until it is worth its while", "and expired - removed >= kept then", "then", SWEEPING + "test_expired_outcomes_are_removed_once_they_are_as_many_as_what_is_kept"),
    ("roots count as kept", "local kept = written - expired + count_records(call)", "local kept = written - expired", SWEEPING + "test_expired_outcomes_are_removed_once_they_are_as_many_as_what_is_kept"),
    ("outcomes count as kept", "local kept = written - expired + count_records(call)", "local kept = count_records(call)", SWEEPING + "test_outcomes_that_have_to_be_kept_count_like_roots"),
    ("what is left is looked at again", "if next_expiry or left > 0 then", "if next_expiry then", SWEEPING + "test_it_is_looked_again_as_long_as_expired_outcomes_are_left"),
    ("nothing is looked at when nothing is left", "      redis.call('ZREM', call.due_key, SWEEP)\n", "", SWEEPING + "test_expired_outcomes_are_removed_once_they_are_as_many_as_what_is_kept"),
    ("an overfull bucket is left to be scanned", "if size > OVERFULL or size > 0", "if size > 0", SWEEPING + "test_an_overfull_bucket_is_left_to_be_scanned_in_parts"),
    ("a step is bounded", "or size > 0 and budget <= 0 then", "then", SWEEPING + "test_a_step_leaves_buckets_beyond_its_bound_to_the_tick"),
    ("a record is no outcome", "if not is_record(raw) and not expiry_of", "if not expiry_of", SWEEPING + "test_expired_outcomes_are_removed_once_they_are_as_many_as_what_is_kept"),
    ("an outcome that has not expired stays", "if not is_record(raw) and not expiry_of(call, raw) then", "if not is_record(raw) then", SWEEPING + "test_a_sweep_leaves_outcomes_that_have_not_expired"),
    ("a bucket that is empty leaves the index", "remove_outcomes(call, key, root_ids, size) then redis", "remove_outcomes(call, key, root_ids, size) and false then redis", SWEEPING + "test_a_sweep_of_many_buckets_takes_several_calls_and_moves_no_deadline"),
    ("a sweep that was left begins anew", "if not cursor or call.now - tonumber(stepped) > STEP_WITHIN_MS then", "if not cursor then", SWEEPING + "test_a_sweep_that_nobody_goes_on_with_begins_anew"),
    ("a sweep goes on where it was", "if not cursor or call.now", "if true or call.now", SWEEPING + "test_a_sweep_of_many_buckets_takes_several_calls_and_moves_no_deadline"),
    ("after a sweep numbers of slices can be used again", "'until', began,", "'until', 0,", SWEEPING + "test_a_slice_number_that_is_needed_again_makes_a_sweep_come_early"),
]

IN_MAILBOX: list[Rule] = [
    ("a call passes over some megabytes at most", " or passable <= 0 then", " then", DEAD + "test_entries_that_do_not_match_are_passed_over_in_bounded_steps"),
    ("a cursor ahead of the mailbox is its beginning", "  if from.entry ~= '' and is_beyond_end(key, from.entry) then from.entry = '' end\n", "", COMPLETIONS + "test_a_cursor_ahead_of_the_mailbox_counts_as_its_beginning"),
    ("a cursor ahead of the mailbox releases nothing", "    if is_beyond_end(key, to) then return { 'ok', 0, 0 } end\n", "", COMPLETIONS + "test_a_cursor_ahead_of_the_mailbox_counts_as_its_beginning"),
    ("a later millisecond is ahead", "return a_ms > b_ms or a_ms", "return a_ms", COMPLETIONS + "test_a_cursor_ahead_of_the_mailbox_counts_as_its_beginning"),
    ("a later entry of a millisecond is ahead", "or a_ms == b_ms and a_seq > b_seq", "", COMPLETIONS + "test_a_cursor_ahead_within_the_newest_millisecond_counts_as_the_beginning"),
    ("the newest entry is not ahead", "a_seq > b_seq", "a_seq >= b_seq", COMPLETIONS + "test_a_cursor_leads_on_from_where_reading_ended"),
    ("reading uses a spout task", "    touch(base, args[2])\n    return peek", "    return peek", LIFETIMES + "test_reading_uses_a_spout_task_under_which_nothing_was_emitted"),
    ("a use is noted once a second", ">= 1000 then", ">= 0 then", LIFETIMES + "test_emitting_and_reading_use_a_spout_task_which_is_noted_once_a_second"),
    ("a reading begins behind its cursor within an entry", "entry[1] == from.entry and from.taken or 0", "0", COMPLETIONS + "test_a_limit_holds_inside_a_batchs_entry_too"),
    ("a reading begins behind what was released within an entry", "entry[1] == from.head and from.released or 0)", "0)", COMPLETIONS + "test_reading_without_a_cursor_begins_at_the_oldest_not_released"),
    ("a reading begins behind its cursor's entry", "from.entry == '' and '-' or from.entry", "'-'", COMPLETIONS + "test_a_limit_holds_inside_a_batchs_entry_too"),
    ("a reading takes as many as are wanted", "wanted, room = wanted - n, room - #packed", "wanted, room = 0, room - #packed", PAGES + "test_a_page_of_few_completions_takes_one_round_trip"),
    ("a reading takes no more than are wanted", "wanted, room = wanted - n, room", "room = room", COMPLETIONS + "test_a_reading_takes_no_more_entries_than_it_needs"),
    ("a reading is bounded in bytes", "local MAX_BYTES = 4194304", "local MAX_BYTES = 4194304000", COMPLETIONS + "test_a_reading_is_bounded_in_bytes"),
    ("a reading goes on behind sixteen entries", "if #entries < count then return 0, last end", "if true then return 0 end", COMPLETIONS + "test_many_entries_are_released_at_once"),
    ("an entry is cut at what is wanted", "skip), math.min(left, wanted)", "skip), left", PAGES + "test_an_entry_is_cut_at_the_completions_that_are_wanted"),
    ("an entry is cut at the bytes", "if stop - start > room then", "if false then", PAGES + "test_an_entry_is_cut_at_the_completion_that_reaches_the_bytes"),
    ("bytes that were read are counted", "wanted - n, room - #packed", "wanted - n, room", PAGES + "test_an_entry_is_cut_at_the_completion_that_reaches_the_bytes"),
    ("an entry is cut behind what was read of it", "skip_completions(packed, 1, skip), math", "1, math", PAGES + "test_an_entry_is_read_on_behind_what_was_read_of_it"),
    ("what is left of an entry is more", "          if n < left then return 1, '' end\n", "", PAGES + "test_an_entry_is_cut_at_the_completions_that_are_wanted"),
    ("other entries are more", "if wanted <= 0 or room <= 0 or passable <= 0 then return 1, last end", "if wanted <= 0 or room <= 0 or passable <= 0 then return 0, last end", PAGES + "test_a_shard_has_no_more_where_the_wanted_end_it"),
    ("a shard that was read to its end has no more", "if #entries < count then return 0, last end", "if #entries < count then return 1 end", PAGES + "test_a_shard_has_no_more_where_the_wanted_end_it"),
    ("a release ends at its cursor within an entry", "entry[1] == to and math.min(taken, n) or n", "n", COMPLETIONS + "test_an_entry_can_be_released_piece_by_piece"),
    ("a release ends at its cursor's entry", "redis.call('XRANGE', key, '-', to, 'COUNT', limit)", "redis.call('XRANGE', key, '-', '+', 'COUNT', limit)", COMPLETIONS + "test_what_comes_after_the_cursor_is_not_released"),
    ("a release never goes back", "elseif after > before then", "else", COMPLETIONS + "test_releasing_an_older_cursor_changes_nothing"),
    ("a release is remembered within an entry", "        redis.call('HSET', base .. 'heads', spout, entry[1] .. ' ' .. after)\n", "", COMPLETIONS + "test_reading_without_a_cursor_begins_at_the_oldest_not_released"),
    ("what was released is counted once", "released = released + math.max(after - before, 0)", "released = released + after", COMPLETIONS + "test_an_entry_can_be_released_piece_by_piece"),
    ("a release that is behind counts nothing", "math.max(after - before, 0)", "(after - before)", COMPLETIONS + "test_releasing_an_older_cursor_changes_nothing"),
    ("what was released is gone", "    if #gone > 0 then redis.call('XDEL', key, unpack(gone)) end\n", "", COMPLETIONS + "test_what_comes_after_the_cursor_is_not_released"),
    ("what was released is unread no longer", "    if released > 0 then redis.call('HINCRBY', base .. 'unread', spout, -released) end\n", "", SPOUTS + "test_a_spout_task_is_shown_with_what_is_pending_and_unread"),
    ("a release goes on in steps", "#entries == limit and 1 or 0", "0", COMPLETIONS + "test_many_entries_are_released_at_once"),
    ("a discard says how many", "redis.call('HGET', base .. 'unread', spout) or 0)\n    redis.call('XTRIM'", "0)\n    redis.call('XTRIM'", REMOVAL + "test_completions_are_discarded_by_an_operator"),
    ("a discard empties the mailbox", "    redis.call('XTRIM', base .. 'm' .. spout, 'MAXLEN', 0)\n", "", REMOVAL + "test_completions_are_discarded_by_an_operator"),
    ("what was discarded is unread no longer", "    redis.call('HDEL', base .. 'unread', spout)\n", "", REMOVAL + "test_completions_are_discarded_by_an_operator"),
    ("a tip is its spout task's", "unpack(args, 2))", "unpack(args, 1))", READERS + "test_all_mailboxes_that_are_waited_for_are_swept_in_one_round_trip"),
]

IN_ROOTS: list[Rule] = [
    ("a root shows its ack val", "struct.pack('>i4i4', root.high, root.low)", "struct.pack('>i4i4', root.low, root.high)", ANSWERS + "test_a_root_shows_how_it_stands"),
    ("an unknown count is shown as unknown", "root.outstanding or ''", "root.outstanding or 0", ANSWERS + "test_a_root_shows_how_it_stands"),
    ("a root shows what ends it first", "root.started, due_ms(root)", "root.started, root.deadline", TIME + "test_a_partial_ack_moves_the_idle_deadline"),
    ("a finished root shows its outcome", "if root.state == 'F' then return { 'ok', call.now, 'F', root.outcome } end", "if root.state == 'F' then return { 'ok', call.now, 'N' } end", ANSWERS + "test_a_root_shows_how_it_stands"),
    ("a root that is there is not over", "over[n] = raw and is_record(raw) and 0 or 1", "over[n] = 1", ROOTS + "test_a_look_finds_the_roots_that_are_over_and_no_others"),
    ("a root that is not there is over", "over[n] = raw and is_record(raw) and 0 or 1", "over[n] = raw and 0 or 1", ROOTS + "test_a_look_finds_the_roots_that_are_over_and_no_others"),
    ("a fail by hand leaves an unknown root unknown", "    if root.state == 'N' then return { 'ok', 'N' } end\n    local code", "    local code", ROOTS + "test_a_root_that_nobody_knows_stays_unknown"),
    ("a fail by hand has a reason", "apply_operation(call, root, { text = args[5] }, 3)", "apply_operation(call, root, {}, 3)", ROOTS + "test_a_fail_by_hand_is_told_as_forced"),
    ("a fail by hand is written", "    save_root(call, root)\n    commit(call)\n    return { 'ok', code }", "    commit(call)\n    return { 'ok', code }", ROOTS + "test_a_fail_by_hand_is_told_as_forced"),
    ("a fail by hand is told", "    save_root(call, root)\n    commit(call)\n    return { 'ok', code }", "    save_root(call, root)\n    return { 'ok', code }", ROOTS + "test_a_fail_by_hand_is_told_as_forced"),
    ("a fail by hand goes by the state machine", "    local code = apply_operation(call, root, { text = args[5] }, 3)\n", "    local code = 'f'\n    finish(call, root, 'F')\n", ROOTS + "test_an_early_root_that_was_failed_by_hand_fails_at_its_init"),
    ("an overfull bucket is listed in pieces", "redis.call('HLEN', key) <= OVERFULL", "true", LISTING + "test_an_overfull_hash_is_listed_piece_by_piece"),
    ("only pending roots are listed", "return root.state == 'P' and call.now - root.started >= filter.age", "return call.now - root.started >= filter.age", LISTING + "test_only_pending_roots_are_listed"),
    ("a list is of those that are old enough", "call.now - root.started >= filter.age", "call.now - root.started > filter.age", "tests/model/test_ages.py::test_a_list_can_be_of_those_that_are_old_enough"),
    ("a list goes on behind the score where it stopped", "scan_index(call, score == '0' and 0 or rank_after(call, score, bucket))", "scan_index(call, 0)", LISTING + "test_roots_that_stay_are_all_listed_while_others_come_and_go"),
    ("buckets of one score go on in the order of bytes", "if is_past then high = middle else low = middle + 1 end", "high = middle", LISTING + "test_many_small_hashes_of_one_deadline_are_listed_once"),
    ("buckets of one score go on in the order of bytes", "if is_past then high = middle else low = middle + 1 end", "low = middle + 1", LISTING + "test_many_small_hashes_of_one_deadline_are_listed_once"),
    ("a walk through the index goes on behind 256 buckets", "rank = rank + 256", "rank = rank + 257", LISTING + "test_a_call_walks_through_more_hashes_than_it_reads_at_once"),
    ("the nearest deadline comes first", "redis.call('ZRANGE', call.due_key, rank, rank + 255, 'WITHSCORES')", "redis.call('ZREVRANGE', call.due_key, rank, rank + 255, 'WITHSCORES')", LISTING + "test_the_nearest_deadlines_come_first_whatever_the_shard"),
    ("a list ends when there are enough", "wanted, budget, cursor = wanted - #roots / VALUES,", "wanted, budget, cursor = wanted,", LISTING + "test_a_call_looks_no_further_when_there_are_enough"),
    ("a list looks at so many records", "budget - #fields / 2 - 1, next_cursor", "budget, next_cursor", LISTING + "test_a_call_looks_at_a_bounded_number_of_records"),
    ("an overfull bucket is walked to its end", "if cursor == '0' then bucket, score = next_bucket() end\n    end", "cursor = '0'\n      bucket, score = next_bucket()\n    end", LISTING + "test_an_overfull_hash_is_listed_piece_by_piece"),
    ("a list says where it stopped", "    if bucket then reply[4], reply[5], reply[6] = score, bucket_number(bucket), cursor end\n", "", LISTING + "test_page_by_page_every_root_is_listed_once"),
]

IN_TOPOLOGIES: list[Rule] = [
    ("totals of a stale stamp are none", "reply[i + 1] = stamps[i] == args[i] and { sum(", "reply[i + 1] = { sum(", HISTORY + "test_a_topology_that_is_made_again_begins_anew"),
    ("pending roots of all spout tasks count", "total + tonumber(hash[i])", "tonumber(hash[i])", HISTORY + "test_pending_and_unread_of_all_spout_tasks_count"),
    ("a configuration is written only over the one that was read", "    if (stamp or '') ~= args[1] then return { 'raced' } end\n", "", STAMPS + "test_a_configuration_is_written_only_over_the_one_that_was_read"),
    ("a change raises the version", "string.format('%010d', tonumber(stamp:sub(17)) + 1)", "stamp:sub(17)", STAMPS + "test_a_change_raises_the_version_and_keeps_the_incarnation"),
    ("a change keeps the incarnation", "      stamp = stamp:sub(1, 16) .. string.format('%010d', tonumber(stamp:sub(17)) + 1)\n", "      stamp = hex(clock(), 12) .. args[3] .. string.format('%010d', tonumber(stamp:sub(17)) + 1)\n", STAMPS + "test_a_change_raises_the_version_and_keeps_the_incarnation"),
    ("an incarnation is above a tombstone's", "not_below(hex(clock(), 12) .. args[3], args[5]:sub(1, 16))", "hex(clock(), 12) .. args[3]", REMOVAL + "test_an_incarnation_is_above_the_tombstones_of_the_old_one"),
    ("an incarnation carries over to its upper half", "math.floor(low / 4294967296), 8)", "0, 8)", STAMPS + "test_an_incarnation_is_above_any_floor"),
    ("a pair is above what a shard is ahead with", "    if stamp < args[5] then stamp = args[5]:sub(1, 16)", "    if false then stamp = args[5]:sub(1, 16)", STAMPS + "test_a_configuration_that_a_failover_lost_is_written_anew_above_its_shards"),
    ("a bucket that is not due lets no shard be ticked", "if earliest and tonumber(earliest) < now then", "if earliest then", IDLE + "test_a_pass_with_nothing_due_takes_one_round_trip"),
    ("a shard in which a bucket is due is ticked", "if earliest and tonumber(earliest) < now then", "if false then", IDLE + "test_only_a_shard_in_which_something_is_due_is_ticked"),
    ("a topology is listed", "    redis.call('SADD', keys[2], args[4])\n", "", TOPOLOGIES + "test_all_topologies_are_listed_by_name"),
    ("a spout task is made only in its incarnation", "    if not own or own:sub(1, 16) ~= stamp:sub(1, 16) then return { 'stale', own or '' } end\n", "", SPOUTS + "test_a_spout_task_can_be_made_at_once_in_a_store_that_was_emptied"),
    ("a spout task is written only over the one that was read", "    if (value or '') ~= args[3] then return { 'raced' } end\n", "", STAMPS + "test_a_spout_task_is_written_only_over_the_one_that_was_read"),
    ("a spout task keeps its index", "value and value:match('^%d+ %d+ ')", "nil", DEPARTURES + "test_a_spout_task_that_changes_keeps_its_index"),
    ("an index is never used again", "redis.call('HINCRBY', topology, 'next', count) - count", "0", DEPARTURES + "test_an_index_is_never_used_again"),
    ("each new spout task has its own index", "new_value(index + n - 1, now, args[3])", "new_value(index, now, args[3])", MANY + "test_the_function_makes_all_or_none_and_gives_what_was_there_as_it_was"),
    ("a spout task that exists stays as it is", "if not value then new[#new + 1] = i end", "new[#new + 1] = i", MANY + "test_the_function_makes_all_or_none_and_gives_what_was_there_as_it_was"),
    ("a topology has so many spout tasks at most", "if count + #new > tonumber(args[2]) then return { 'full', count, #new } end", "", MANY + "test_the_function_makes_all_or_none_and_gives_what_was_there_as_it_was"),
    ("all new spout tasks of a call are written", "for from = 1, #fields, SLICE do", "for from = 1, 1 do", MANY + "test_new_spout_tasks_of_a_batch_are_made_together"),
    ("all spout tasks of a call are looked up", "for from = first, #args, SLICE do", "for from = first, first do", MANY + "test_new_spout_tasks_of_a_batch_are_made_together"),
    ("pending roots that are none are 0", "tonumber(count or 0) end", "count end", TRIPS + "test_pending_roots_are_read_in_the_order_of_the_spout_tasks_however_many"),
    ("counts are read", "redis.call('HGETALL', base .. 'unread'),\n", "{},\n", SPOUTS + "test_a_spout_task_is_shown_with_what_is_pending_and_unread"),
]

IN_REMOVAL: list[Rule] = [
    ("a mark raises the version", "local stamp, mark = next_version(args[1]),", "local stamp, mark = args[1],", DEPARTURES + "test_a_replica_with_a_warm_cache_meets_a_mark"),
    ("a topology is marked only as it was read", "    if redis.call('HGET', keys[1], 'pair') ~= args[1] then return { 'raced' } end\n", "", STAMPS + "test_a_topology_is_marked_only_as_it_was_read"),
    ("a mark says since when", "string.format('%.0f', clock()) or ''", "'1' or ''", DEPARTURES + "test_a_removal_at_work_is_not_taken_over"),
    ("only the topology that was marked is forgotten", "if redis.call('HGET', keys[1], 'pair') == args[1] then", "if true then", STAMPS + "test_only_the_topology_that_was_marked_is_forgotten"),
    ("a topology that has gone has no history", "redis.call('DEL', keys[1] .. ':' .. args[1]:sub(1, 16) .. ':history' .. level)", "redis.call('EXISTS', keys[1])", HISTORY + "test_a_history_goes_with_its_topology"),
    ("a topology that has gone has no configuration", "      redis.call('DEL', keys[1], keys[2])\n", "", REMOVAL + "test_with_discard_it_goes_at_once"),
    ("a topology that has gone is not listed", "      redis.call('SREM', keys[3], args[2])\n", "", DEPARTURES + "test_a_topology_that_has_gone_is_not_listed"),
    ("a shard that is above is not buried", "    if own and own:sub(1, 26) > args[1] then return { 'stale', own } end\n", "", STAMPS + "test_a_shard_that_is_above_is_not_buried"),
    ("a tombstone stays for a day", "TOMBSTONE_MS = 86400000", "TOMBSTONE_MS = 8640000", STAMPS + "test_a_tombstone_stays_for_a_day"),
    ("a tombstone goes", "args[1] .. 'x', 'PX', TOMBSTONE_MS)", "args[1] .. 'x')", REMOVAL + "test_an_idle_topology_goes_and_leaves_only_tombstones"),
    ("a tombstone is no stamp", "args[1] .. 'x', 'PX'", "args[1], 'PX'", STAMPS + "test_a_tombstone_refuses_every_version_of_its_incarnation"),
    *((f"{name} is swept", f"'{name}' .. n", "'none'", DEPARTURES + "test_a_topology_that_goes_leaves_nothing_of_all_that_a_shard_keeps") for name in ("s0:", "s1:", "n0:", "n1:", "m", "retry", "tries", "d") ),
    *((f"all of them are swept: {old}", old, new, DEPARTURES + "test_a_topology_that_goes_leaves_nothing_of_all_that_a_shard_keeps") for old, new in (("if n < sets then", "if n < sets - 1 then"), ("if n < spouts then", "if n < spouts - 1 then"), ("if args[6] ~= '0' then", "if args[6] == '0' then")) ),
    ("what the release before does not say is swept", "tonumber(args[5]) or math.huge", "tonumber(args[5]) or 0", DEPARTURES + "test_the_release_before_removes_all_that_a_shard_keeps"),
    ("without a dedupe window no edge is looked for", "if args[6] ~= '0' then", "if true then", DEPARTURES + "test_without_a_dedupe_window_there_are_no_edges_to_look_for"),
    *((f"{name} is swept", f"'{name}' .. bucket", "'none'", DEPARTURES + "test_a_topology_that_goes_leaves_nothing_of_all_that_a_shard_keeps") for name in ("x", "p0:", "p1:") ),
    ("r is swept", "unlink(base, { 'r' .. bucket,", "unlink(base, { 'none',", DEPARTURES + "test_a_topology_that_goes_leaves_nothing_of_all_that_a_shard_keeps"),
    *((f"{name} is swept", f"base .. '{name}'{end}", f"base .. 'none'{end}", DEPARTURES + "test_a_topology_that_goes_leaves_nothing_of_all_that_a_shard_keeps") for name, end in (("due", ","), ("pending", ","), ("unread", ", base .. 'heads'"), ("heads", ","), ("tips", ","), ("counts", ", base .. 'gone'"), ("gone", ", base .. 'used'"), ("used", ", base .. 'begun'")) ),
    ("a forced deletion has a reason", "pack_failure('topology deleted')", "nil", REMOVAL + "test_forced_it_fails_what_is_pending_and_goes_when_that_was_released"),
    ("a forced deletion fails what is pending", "    finish(call, root, 'F')\n    save_root(call, root)", "    redis.call('HDEL', key, root_id)", REMOVAL + "test_forced_it_fails_what_is_pending_and_goes_when_that_was_released"),
    ("a forced deletion remembers outcomes", "    save_root(call, root)\n", "    redis.call('HDEL', key, root_id)\n", REMOVAL + "test_forced_it_fails_what_is_pending_and_goes_when_that_was_released"),
    ("a forced deletion drops what is early", "return drop_record(call, root) end", "return count(call, 'dropped') end", DEPARTURES + "test_a_forced_deletion_drops_and_counts_what_is_early"),
    ("a forced deletion counts what it drops", "return drop_record(call, root) end", "return remove_long_values(call, root) end", DEPARTURES + "test_a_forced_deletion_drops_and_counts_what_is_early"),
    ("a forced deletion sweeps the number of early roots", "base .. 'early',", "base .. 'none',", DEPARTURES + "test_a_topology_that_goes_leaves_nothing_of_all_that_a_shard_keeps"),
    ("a forced deletion leaves no bucket due", "    if is_whole then redis.call('ZREM', call.due_key, bucket) end\n", "", DEPARTURES + "test_a_forced_deletion_drops_and_counts_what_is_early"),
    ("a forced deletion takes a piece a call", "budget = budget - 1 - fail_bucket(call, bucket)", "budget = budget + 0 * fail_bucket(call, bucket)", DEPARTURES + "test_a_forced_deletion_takes_a_piece_a_call"),
    ("a forced deletion says if there is more", "redis.call('EXISTS', call.due_key) }", "0 }", DEPARTURES + "test_a_forced_deletion_takes_a_piece_a_call"),
    ("a spout task is marked only in its incarnation", "    if not stamp or stamp:sub(1, 16) ~= args[1]:sub(1, 16) then return { 'stale', stamp or '' } end\n", "", STAMPS + "test_a_spout_task_is_marked_only_as_it_was_read"),
    ("a spout task is marked only as it was read", "    if redis.call('HGET', keys[2], args[2]) ~= args[3] then return { 'raced' } end\n", "", STAMPS + "test_a_spout_task_is_marked_only_as_it_was_read"),
    ("a spout task's mark raises the version", "    stamp = next_version(stamp)\n", "", REMOVAL + "test_what_ends_under_a_removed_spout_task_reaches_nobody_elses_mailbox"),
    ("a removed spout task has no name", "      redis.call('HDEL', keys[2], args[2])\n", "", REMOVAL + "test_a_spout_task_stays_while_it_is_busy_and_goes_when_it_is_not"),
    ("a removed index is gone for good", "    redis.call('SADD', base .. 'gone', spout)\n", "", DEPARTURES + "test_what_ends_under_a_removed_spout_task_leaves_nothing"),
    ("a removed mailbox is gone", "    redis.call('UNLINK', base .. 'm' .. spout, base .. 'retry' .. spout, base .. 'tries' .. spout, base .. 'd' .. spout)\n", "", DEPARTURES + "test_a_spout_task_that_goes_leaves_nothing_but_that_its_index_is_gone"),
    *((f"a removed spout task leaves nothing {name}", f"'{name}'{end}", f"'none'{end}", DEPARTURES + "test_a_spout_task_that_goes_leaves_nothing_but_that_its_index_is_gone") for name, end in (("unread", ", 'pending', 'heads'"), ("pending", ", 'heads'"), ("heads", ", 'tips', 'used'"), ("tips", ", 'used'"), ("used", ", 'begun'")) ),
    ("a removal says what it discarded", "return { 'ok', unread + dead }", "return { 'ok', 0 }", DEPARTURES + "test_a_spout_task_that_goes_leaves_nothing_but_that_its_index_is_gone"),
]

IN_DELIVERY: list[Rule] = [
    ("a lease that is held is another's", "    if holder ~= worker and tonumber(leased_until) > now then return tonumber(leased_until) - now end\n", "", DELIVERIES + "test_one_worker_at_a_time_has_the_lease_and_may_give_it_back"),
    ("who has the lease takes on", "if holder ~= worker and tonumber(leased_until) > now", "if tonumber(leased_until) > now", DELIVERIES + "test_what_was_claimed_stays_in_the_mailbox_until_it_is_settled"),
    ("a lease that is past is anothers", "and tonumber(leased_until) > now then return", "then return", DELIVERIES + "test_a_lease_that_is_past_is_anothers"),
    ("nobody gives back the lease of another", "    if holder ~= args[3] then return { 'ok' } end\n", "", DELIVERIES + "test_nobody_gives_back_the_lease_of_another"),
    ("a lease is given back", "      redis.call('HDEL', base .. 'leases', args[2])\n", "", DELIVERIES + "test_one_worker_at_a_time_has_the_lease_and_may_give_it_back"),
    ("a receiver that asks for it is left alone", "'- ' .. string.format('%.0f', clock() + tonumber(args[4]))", "'- 0'", DELIVERIES + "test_a_receiver_that_is_left_alone_gets_nothing_from_another_worker"),
    ("what was delivered leaves the mailbox", "    if result.kind == 'done' then\n      remove_entry(base, spout, result.entry)\n", "    if result.kind == 'done' then\n", DELIVERIES + "test_what_was_claimed_stays_in_the_mailbox_until_it_is_settled"),
    ("what was delivered is counted", "return { delivered = n }, n", "return {}, n", DELIVERIES + "test_settling_again_changes_nothing"),
    ("what was delivered is unread no more", "return { delivered = n }, n", "return { delivered = n }, 0", DELIVERIES + "test_what_was_claimed_stays_in_the_mailbox_until_it_is_settled"),
    ("what is settled again is not there", "if stored and (current or", "if (current or", DELIVERIES + "test_settling_again_changes_nothing"),
    ("a part that is asked for again is what is left", "    if rest ~= '' then\n      remove_entry(base, spout, entry)", "    if false then\n      remove_entry(base, spout, entry)", DELIVERIES + "test_what_a_receiver_asks_for_again_is_all_that_is_left"),
    ("what failed waits for its time", "redis.call('ZADD', base .. 'retry' .. spout, retry_at, entry)", "redis.call('ZADD', base .. 'retry' .. spout, 0, entry)", DELIVERIES + "test_what_failed_is_tried_again_when_it_is_due_and_in_the_same_set"),
    ("tries are counted", "    redis.call('HSET', tries, entry, tried)\n", "", DELIVERIES + "test_what_no_try_succeeds_for_becomes_dead_letters"),
    ("what waits for its next try is not fresh", "if redis.call('ZSCORE', retry, entry) then", "if false then", DELIVERIES + "test_what_a_receiver_asks_for_again_is_all_that_is_left"),
    ("a dead letter leaves the mailbox", "    remove_entry(base, spout, entry)\n    redis.call('XADD', base .. 'd'", "    redis.call('XADD', base .. 'd'", DELIVERIES + "test_dead_letters_that_are_replayed_are_delivered_as_if_never_tried"),
    ("dead letters are counted", "    redis.call('HINCRBY', base .. 'dead', spout, left)\n", "", DELIVERIES + "test_what_no_try_succeeds_for_becomes_dead_letters"),
    ("what was published stays", "return { published = n }, 0", "remove_entry(base, spout, result.entry)\n  return { published = n }, 0", DELIVERIES + "test_what_is_published_stays_and_is_claimed_once"),
    ("what was published is unread", "return { published = n }, 0", "return { published = n }, n", DELIVERIES + "test_what_is_published_stays_and_is_claimed_once"),
    ("what was sent is not fresh again", "if tried_before == 0 then advance_sent(base, spout, result.entry) end", "", DELIVERIES + "test_what_is_published_stays_and_is_claimed_once"),
    ("a part that is tried again hides nothing that was never tried", "    if tried_before == 0 then advance_sent", "    if true then advance_sent", DELIVERIES + "test_a_part_that_is_tried_again_hides_nothing_that_was_never_tried"),
    ("what was released of an entry is not delivered", "local entry, packed, skip = item[1], item[2][4], item[1] == head and released or 0", "local entry, packed, skip = item[1], item[2][4], 0", DELIVERIES + "test_what_was_released_of_an_entry_before_is_not_delivered"),
    ("a callback that was led elsewhere begins anew", "      reset_delivery(base, spout)\n", "", DELIVERIES + "test_a_callback_that_was_led_elsewhere_begins_anew"),
    ("of another callback by now only what was delivered counts", "(current or args[i + 1] == 'done')", "true", DELIVERIES + "test_a_failure_of_the_old_callback_does_not_put_off_the_new_one"),
    ("a try that was settled before is not counted again", "      if result.rest == '' and tried == tried_before then return {}, 0 end  -- this try was settled before\n", "", DELIVERIES + "test_a_failure_that_is_settled_again_counts_once"),
    ("a late failure takes back no try", "math.max(stored, result.tried)", "result.tried", DELIVERIES + "test_a_failure_that_comes_late_takes_back_no_try_and_puts_nothing_off"),
    ("what was taken of an entry is not left", "positions == '' or wanted[position]", "true", DELIVERIES + "test_what_a_receiver_asks_for_again_is_all_that_is_left"),
    ("what was released meanwhile is not left", "if is_wanted and position >= released then", "if is_wanted then", DELIVERIES + "test_what_is_released_while_it_is_delivered_is_not_delivered_again"),
    ("what was released is no dead letter", "if is_wanted and position >= released then", "if is_wanted then", DELIVERIES + "test_what_was_released_is_not_among_the_dead_letters"),
    ("an entry of which nothing is left is done", "    if result.left == 0 then result.kind = 'done' end\n", "", DELIVERIES + "test_what_is_released_while_it_is_delivered_is_not_delivered_again"),
    ("an entry of which all is left stays the same entry", "    if result.kind == 'retry' and result.left == tonumber(stored[2][2]) - released then result.rest = '' end\n", "", DELIVERIES + "test_an_entry_of_which_all_is_asked_for_again_stays_the_same_entry"),
    ("the release before says what is left by its completions", "settle_by(result_of_completions)", "settle_by(result_of_positions)", RELEASES + "test_the_release_before_settles_a_delivery_whole_and_in_part"),
    ("the release before counts a try by settling it", "or stored + 1, stored", "or stored, stored", RELEASES + "test_the_release_before_settles_a_delivery_whole_and_in_part"),
    ("since when nothing succeeded is remembered", "    if succeeded == '0' then redis.call('HSETNX', base .. 'failing', spout, now) end\n", "", DELIVERIES + "test_since_when_nothing_succeeded_is_remembered_until_something_does"),
]

IN_DEAD: list[Rule] = [
    ("dead letters that are put back are dead no more", "    if total > 0 then redis.call('HINCRBY', base .. 'dead', spout, -total) end\n", "", DELIVERIES + "test_dead_letters_that_are_replayed_are_delivered_as_if_never_tried"),
    ("dead letters that are put back are unread", "      redis.call('HINCRBY', base .. 'unread', spout, reply[2])\n", "", DELIVERIES + "test_dead_letters_that_are_replayed_are_delivered_as_if_never_tried"),
    ("dead letters that are put back lie in the mailbox", "function(n, packed) add_entry(base, spout, n, packed) end", "function() end", DELIVERIES + "test_dead_letters_that_are_replayed_are_delivered_as_if_never_tried"),
    ("a dead letter that was ended is gone", "        redis.call('XDEL', key, item[1])\n", "", "tests/integration/test_callbacks.py::test_dead_letters_are_discarded"),
    ("dead letters that are thrown away are counted", "    if reply[2] > 0 then redis.call('HINCRBY', base .. 'counts', 'discarded', reply[2]) end\n", "", DELIVERIES + "test_dead_letters_that_are_discarded_are_counted"),
    ("a page of dead letters skips what was taken", "taken = tonumber(args[4])", "taken = 0", DELIVERIES + "test_what_no_try_succeeds_for_becomes_dead_letters"),
    ("a text of the error is no pattern", "find(text, 1, true)", "find(text)", DEAD + "test_those_that_match_are_listed"),
    ("the first time is included", "at >= from", "at > from", DEAD + "test_those_that_match_are_listed"),
    ("the last time is included", "at <= to", "at < to", DEAD + "test_those_that_match_are_listed"),
    ("a dead letter that does not match stays", "      if matches(item) then", "      if true then", DEAD + "test_those_that_match_are_ended_and_counted_and_all_others_stay"),
    ("a step ends dead letters behind the last one", "after == '' and '-' or '(' .. after", "'-'", DEAD + "test_dead_letters_behind_many_that_stay_are_ended"),
    ("the list passes over those that do not match", "args, tonumber(args[6]), append, filter(args, 7))", "args, tonumber(args[6]), append)", DEAD + "test_those_that_match_are_listed"),
]

IN_TRACE: list[Rule] = [
    ("traces of a shard are bounded", "    if call.has_no_more_to_drop then return false end\n", "    if call.has_no_more_to_drop then return true end\n", EXPLAIN + "test_a_flood_of_traced_roots_stays_within_the_bound"),
    ("a shard without anything to drop has no space", "    return read_total(call) + cost <= call.trace_max\n  end", "    return true\n  end", EXPLAIN + "test_a_flood_of_traced_roots_stays_within_the_bound"),
    ("traces of acked roots make space", "drop_first(call.base, 'acked', DROPPED_PER_CALL)", "0", EXPLAIN + "test_the_traces_of_acked_roots_make_space_for_others"),
    ("an acked root can be dropped in the same call", "call.has_acked_traces, call.has_no_more_to_drop = true, false", "call.has_acked_traces = true", EXPLAIN + "test_the_trace_of_a_root_that_is_acked_makes_space_in_the_same_call"),
    ("the trace of a root is bounded", "if size > MAX_ROOT_BYTES or not has_space", "if not has_space", EXPLAIN + "test_the_trace_of_one_root_is_bounded"),
    ("a trace that is cut is at its bound", "entries:sub(1, bytes)", "entries", EXPLAIN + "test_the_trace_of_one_root_is_bounded"),
    ("nothing is added to a cut trace", "    if n < #entries then cut(call, root_id, kept) end\n", "", EXPLAIN + "test_entries_behind_missing_ones_are_not_added"),
    ("a cut trace keeps its time", ", 'PXAT', redis.call('PEXPIRETIME', key))", ")", EXPLAIN + "test_a_cut_trace_keeps_its_time_to_live"),
    ("a trace that grows is counted", "      grow(call, more * BYTE_COST)\n", "", EXPLAIN + "test_a_trace_grows_in_steps_as_it_is_counted"),
    ("a trace that grows is counted for itself", "      redis.call('HINCRBY', call.base .. 'traced', root_id, more)\n", "", EXPLAIN + "test_a_trace_that_grew_gives_its_space_back"),
    ("a full store keeps no more of a trace", "    if call.store_full then\n      cut(call, root_id)\n", "    if false then\n", EXPLAIN + "test_a_full_store_keeps_no_more_of_traces"),
    ("a trace stays for its time from its end on", "(outcome and call.now or deadline)", "deadline", EXPLAIN + "test_all_that_is_kept_of_traces_expires"),
    ("a trace stays as long as its root may be pending", "(outcome and call.now or deadline)", "call.now", EXPLAIN + "test_a_trace_stays_as_long_as_its_root_may_be_pending"),
    ("a reset keeps a trace", "      if expiry then expire(call, root_id, expiry) end\n", "      if expiry and entries then expire(call, root_id, expiry) end\n", EXPLAIN + "test_a_trace_stays_as_long_as_its_root_may_be_pending"),
    ("the lists of traces expire", "      redis.call('PEXPIREAT', call.base .. 'traces', expiry)\n", "", EXPLAIN + "test_all_that_is_kept_of_traces_expires"),
    ("what traces take expires", "      redis.call('PEXPIREAT', call.base .. 'traced', expiry)\n", "", EXPLAIN + "test_all_that_is_kept_of_traces_expires"),
    ("a trace that expired gives its space back", "(%.0f', call.now - call.trace_ttl)", "(%.0f', 0)", EXPLAIN + "test_traces_whose_time_has_passed_give_their_space_back"),
    ("a trace that began long ago and has not expired stays", "if expiry > call.now then", "if false then", EXPLAIN + "test_a_trace_that_began_long_ago_stays_until_its_time_has_passed"),
    ("a trace that began long ago is not looked at again", "        redis.call('ZADD', name, expiry - call.trace_ttl, root_id)\n", "", EXPLAIN + "test_a_trace_that_began_long_ago_stays_until_its_time_has_passed"),
    ("what all traces take is counted", "    if growth ~= 0 then redis.call('HINCRBY', call.base .. 'traced', '', growth) end\n", "", EXPLAIN + "test_a_flood_of_traced_roots_stays_within_the_bound"),
    ("only the first operation begins a trace", "    if before == 0 then  -- it was cut", "    if false then  -- it was cut", EXPLAIN + "test_a_trace_that_has_expired_shows_no_edges"),
    ("a new trace replaces the one of an earlier root", "      drop_trace(call.base, root_id)\n      redis.call('ZADD', traces, call.now, root_id)\n", "", EXPLAIN + "test_a_trace_that_begins_anew_is_counted_once"),
    ("a long trace that is written at once is counted", "    if bytes > STEP then redis.call('HSET', call.base .. 'traced', root_id, reserved(bytes) - STEP) end\n", "", EXPLAIN + "test_a_trace_that_begins_anew_is_counted_once"),
    ("a root that finds no space does not show the trace of an earlier one", "    if n == 0 then\n      drop_trace(call.base, root_id)\n", "    if n == 0 then\n", EXPLAIN + "test_a_root_without_space_does_not_show_the_tree_of_an_earlier_one"),
    ("what changed nothing is not noted", "not CHANGED[code] or", "", FAST + "test_it_answers_and_stores_what_the_state_machine_does"),
    ("a trace that began for nothing goes", "    if was_traced ~= is_traced then\n", "    if false then\n", EXPLAIN + "test_the_trace_of_an_early_root_goes_if_its_init_does_not_ask_for_it"),
    ("a marked id is traced before its init", " or root.id:sub(7) == '\\0\\0')", ")", EXPLAIN + "test_an_id_that_ends_with_four_zeros_is_traced_from_its_first_ack_on"),
]

IN_FAILURES: list[Rule] = [
    ("a chunk of failures ends a day after its last write", "      redis.call('PEXPIREAT', key, call.now + DAY_MS)\n", "      redis.call('PERSIST', key)\n", FAILURES + "test_the_list_takes_few_keys_which_end_a_day_after_the_last_write"),
    ("a chunk of failures is begun empty", "begins or number % size == 0)", "begins)", FAILURES + "test_the_list_keeps_the_newest_failures_of_each_shard"),
    ("what would be replaced at once is not written", "math.max(total - call.max_failures, 0)", "0", FAILURES + "test_failures_beyond_the_list_are_not_written"),
    ("what replaces all of the list begins a chunk", "local begins = skipped > 0", "local begins = false", FAILURES + "test_a_wave_of_timeouts_is_listed_as_far_as_the_list_goes"),
    ("the component of a failure stands behind its reason", "return failure:sub(6 + high * 256 + low)", "return failure:sub(4)", FAILURES + "test_a_root_that_failed_is_listed_with_all_that_is_known_of_it"),
    ("the component of a failure needs no reason", "return failure:sub(4) end", "return '' end", FAILURES + "test_filters_leave_out_all_others"),
    ("components are counted by name up to a bound", "known < MAX_COMPONENTS", "true", FAILURES + "test_components_beyond_the_first_fifty_are_counted_together"),
    ("every failure is counted", "count_kind(call, group.kind, #group.list)", "count_kind(call, group.kind, 1)", FAILURES_METRIC + "test_failures_are_counted_by_outcome_and_component"),
    ("failures beyond the bound are counted without a name", "      redis.call('HINCRBY', key, kind:sub(1, 1) .. 'other', times)\n", "", FAILURES_METRIC + "test_components_beyond_a_bound_share_a_series"),
    ("failures of one call, spout task and kind are one run", "    local list = by_kind[kind]\n", "    local list = by_kind[next(by_kind)]\n", FAILURES_METRIC + "test_failures_are_counted_by_outcome_and_component"),
    ("a run keeps within its chunk", "#group.list)\n        write_run", "1000)\n        write_run", FAILURES + "test_the_list_keeps_the_newest_failures_of_each_shard"),
    ("a component is admitted once", "    if redis.call('HGET', key, '+' .. component) then return end\n", "", FAILURES + "test_a_component_is_admitted_once_for_both_outcomes"),
]

IN_FAILURE_LIST: list[Rule] = [
    ("the list holds so many failures", "math.max(listed - call.max_failures, 0)", "0", FAILURES + "test_the_list_keeps_the_newest_failures_of_each_shard"),
    ("a root's newest failure is found", "        if packed:sub(body, body + 7) == root_id then", "        if not found and packed:sub(body, body + 7) == root_id then", FAILURES + "test_a_root_id_that_is_used_again_shows_its_newest_failure"),
    ("an id within a text is no root", "        if packed:sub(body, body + 7) == root_id then", "        if true then", FAILURES + "test_an_id_within_a_text_is_no_root"),
]

IN_PYTHON: list[tuple[str, *Rule]] = [
    ("topologies/deletion.py", "a topology is counted again behind its mark", "        if use := await self._in_use(marked, mode):", '        if use := "":', REMOVAL + "test_a_busy_topology_stays_and_goes_on"),
    ("topologies/deletion.py", "a busy topology is unmarked", "            await self._mark(marked, None)\n", "", REMOVAL + "test_a_busy_topology_stays_and_goes_on"),
    ("topologies/deletion.py", "a forced deletion waits until all was released", "        if not await self._in_use(topology, DeleteMode.DRAIN):\n", "        if True:\n", REMOVAL + "test_forced_it_fails_what_is_pending_and_goes_when_that_was_released"),
    ("topologies/deletion.py", "a young mark is left to whoever set it", " > DELETION_TIMEOUT_MS:", " > -1:", DEPARTURES + "test_a_removal_at_work_is_not_taken_over"),
    ("topologies/deletion.py", "a spout task is counted again behind its mark", "return stats.remaining(target.spout.index)", 'return ""', REMOVAL + "test_a_spout_task_stays_while_it_is_busy_and_goes_when_it_is_not"),
    ("topologies/deletion.py", "a busy spout task is unmarked", "            await self._mark(marked, None)\n", "", DEPARTURES + "test_a_busy_spout_task_goes_on"),
    ("topologies/registry.py", "a new topology is above the tombstones", "await self._highest_stamp(name, config))", "None)", REMOVAL + "test_an_incarnation_is_above_the_tombstones_of_the_old_one"),
    ("topologies/registry.py", "a shard without a stamp is stamped by what was read", "        if not stale.stamp:\n            await self.stamp_shards(refreshed)\n        elif", "        if", STAMPS + "test_a_shard_that_lost_its_stamp_is_stamped_again"),
    ("topologies/cursors.py", "a cursor is its list's", "if (kind, name_hash) != (self.kind, _hash(self.spout_task)):", "if False:", CURSORS + "test_dead_letters_are_not_read_from_the_cursor_of_another_list"),
    ("topologies/cursors.py", "a cursor is its spout task's", "if (kind, name_hash) != (self.kind, _hash(self.spout_task)):", "if kind != self.kind:", CURSORS + "test_reading_from_or_up_to_the_cursor_of_another_list_is_refused"),
    ("topologies/cursors.py", "a cursor is that of one life of a spout task", "(cursor.incarnation, index) == (self.incarnation, self.spout_index)", "cursor.incarnation == self.incarnation", CODEC + "test_a_cursor_of_a_spout_task_that_was_made_again_is_the_beginning"),
    ("topologies/cursors.py", "a cursor of pending roots is no other list's", "if cursor.format in (CursorFormat.PENDING_ROOTS, CursorFormat.FAILURES):", "if cursor.format == CursorFormat.FAILURES:", CODEC + "test_the_cursor_of_another_list_is_refused"),
    ("mailboxes/paging.py", "a shard is asked for its share", "min(missing, -(-missing // shards) * 2 + OVERFETCH)", "missing", PAGING + "test_a_shard_is_asked_for_twice_its_share_and_some_more"),
    ("mailboxes/paging.py", "a shard is asked for its share of the bytes", "-(-self._free_bytes // shards)", "PAGE_BYTES", PAGING + "test_a_shard_is_asked_for_twice_its_share_and_some_more"),
    ("mailboxes/paging.py", "a shard that has more is asked again", "if passed is None or not given.more:", "if True:", PAGING + "test_a_shard_that_has_all_of_a_page_gives_the_rest_in_a_second_round"),
    ("mailboxes/reading.py", "behind its last cursor a shard has no more", "reply.more and len(items) == len(found)", "reply.more", PAGES + "test_a_read_up_to_a_cursor_asks_a_shard_no_further"),
    ("http/routes/completions.py", "others run while a large page is written", "            await asyncio.sleep(0)\n", "            pass\n", "tests/unit/service/http/test_completions.py::test_others_run_while_a_large_page_is_written"),
    ("delivery/pubsub.py", "many messages go in one round trip", "round_trips(messages, lease.max_batch)", "round_trips(messages, 1)", "tests/integration/test_pubsub.py::test_messages_of_many_entries_go_in_few_round_trips_and_in_their_order"),
    ("mailboxes/runs.py", "a run is cut within an entry", "return replace(entry, completions=entry.completions.split(max(0, count))[0])", "return entry", READING + "test_a_run_is_cut_behind_so_many_or_at_a_position"),
    ("mailboxes/runs.py", "a position counts what was read of an entry before", "offset=entry.skipped + count", "offset=count", READING + "test_completions_already_taken_from_an_entry_are_counted"),
    ("redis/completion_codec.py", "an entry with texts is walked", "return bool(len(packed) % size or packed[size - 1 :: size].translate(None, _OUTCOME_FLAGS))", "return bool(len(packed) % size)", COMPLETION_CODEC + "test_whatever_stands_in_an_entry_is_read_back_in_its_order"),
    ("redis/completion_codec.py", "a latency is never negative", "{ended - started if ended > started else 0}", "{ended - started}", COMPLETION_CODEC + "test_completions_are_written_byte_for_byte_as_their_objects_are"),
    ("roots/expiry.py", "a topology that is new is ticked", "return [name for name in names if name not in idle]", "return list(self._due)", IDLE + "test_a_topology_that_is_new_is_ticked_at_once"),
    ("roots/expiry.py", "a topology with nothing due is not ticked", "return [name for name in names if name not in idle]", "return names", IDLE + "test_a_pass_with_nothing_due_takes_one_round_trip"),
    ("roots/expiry.py", "a look that fails is made for each topology", "contextlib.suppress(ServiceError):  # which", "contextlib.suppress():  # which", IDLE + "test_what_cannot_be_looked_at_together_is_looked_at_apart"),
    ("roots/expiry.py", "two shards are ticked at once", "CALLS_AT_ONCE = 2", "CALLS_AT_ONCE = 1", TICKS + "test_shards_are_ticked_two_at_a_time_and_by_turns"),
    ("roots/expiry.py", "no more than two shards are ticked at once", "CALLS_AT_ONCE = 2", "CALLS_AT_ONCE = 4", TICKS + "test_shards_are_ticked_two_at_a_time_and_by_turns"),
    ("roots/expiry.py", "a shard that has more is last then", "                due.append(shard)\n", "                due.appendleft(shard)\n", TICKS + "test_shards_are_ticked_two_at_a_time_and_by_turns"),
    ("roots/expiry.py", "a shard that has more is ticked again", "            if ticked.more:", "            if False:", TICKS + "test_one_call_at_a_time_ends_the_same"),
    ("topologies/stats.py", "what a stale stamp hides is counted again", "                stale.add(topology.name)", "                pass", IDLE + "test_a_topology_that_another_replica_made_again_is_counted_as_it_is_now"),
    ("topologies/stats.py", "one call counts the shards of all topologies", "if self._redis.is_cluster or not topologies:", "if True:", IDLE + "test_a_look_at_what_is_full_counts_only_what_fills_a_mailbox"),
    ("monitoring/backpressure.py", "memory is full from nine tenths on", "FULL_RATIO = 0.9", "FULL_RATIO = 0.96", FULL + "test_inits_are_refused_before_memory_is_at_its_end"),
    ("monitoring/snapshot.py", "a store without maxmemory is never full", "if max_bytes else 0.0", "if max_bytes else 1.0", NARROW + "test_inits_are_refused_until_completions_were_released"),
    ("monitoring/snapshot.py", "the fullest server says how full the store is", "return max(((int(it[\"used_memory\"]), int(it.get(\"maxmemory\", 0))) for it in memories), key=memory_ratio)", "return 0, 0", FULL + "test_inits_are_refused_before_memory_is_at_its_end"),
    ("monitoring/backpressure.py", "a mailbox is full from its bound on", "in suspected if stored[index] >= self._mailbox_max", "in suspected if stored[index] > self._mailbox_max", NARROW + "test_inits_are_refused_until_completions_were_released"),
    ("monitoring/backpressure.py", "a mailbox is suspected from its bound on", "in stored.items() if count >= self._mailbox_max", "in stored.items() if count > self._mailbox_max", NARROW + "test_inits_are_refused_until_completions_were_released"),
    ("monitoring/backpressure.py", "a mailbox that was full is counted again", "return {index for index in suspected if stored[index] >= self._mailbox_max}", "return suspected", NARROW + "test_inits_are_refused_until_completions_were_released"),
    ("redis/column_codec.py", "a share is chosen by the id", "(hashes < threshold)", "(hashes >= 0)", EXPLAIN + "test_a_share_of_the_roots_is_traced_by_their_ids_alone"),
    ("redis/codec.py", "a single operation says that its root is in the share", "    if trace_threshold:\n", "    if False:\n", EXPLAIN + "test_a_sampled_root_is_traced_from_an_early_ack_on"),
    ("operations/single.py", "a single ack is known again under another share", "names_of(operation) or topology.trace_threshold", "names_of(operation)", EXPLAIN + "test_a_single_ack_is_known_again_when_the_share_has_changed"),
    ("operations/applier.py", "each shard takes an equal part of the early roots", "math.ceil(max_early / len(topology.shards))", "max_early", EARLY_ROOTS + "test_each_shard_takes_its_part_of_the_early_roots"),
    ("operations/applier.py", "a full store begins no roots, also without inits", "apply_functions.apply_without_new_roots if backpressure.is_store_full else apply_functions.apply", "apply_functions.apply", EARLY_ROOTS + "test_what_a_full_store_refuses_leaves_no_key_behind"),
    ("operations/applier.py", "what may begin a root is refused when Redis has no memory", "function = apply_function(self._backpressure)", "function = apply_functions.apply if request.operations.spout_tasks else apply_functions.apply_without_new_roots", FULL + "test_an_ack_of_an_unknown_root_is_refused_as_soon_as_redis_has_no_memory"),
    ("monitoring/backpressure.py", "another policy lets no init in", "violation is not None or memory_ratio", "memory_ratio", FULL + "test_a_store_that_begins_to_evict_takes_no_inits"),
    ("operations/applier.py", "a spout task is registered only if a shard needs it", "new |= request.operations.spout_tasks_of(reply.marked(REGISTER, part.apply_order))", "new |= request.operations.spout_tasks", REFUSALS + "test_a_repeated_request_does_not_make_its_spout_task_again_after_the_retention"),
    ("operations/applier.py", "a spout task that was registered meanwhile is looked for again", "missed |= request.operations.spout_tasks_of(reply.marked(FIND, part.apply_order))", "missed |= set()", REMEMBERED + "test_an_init_that_is_sent_twice_at_once_to_a_new_spout_task_is_no_conflict"),
    ("operations/applier.py", "without memory for a spout task its inits are refused", "if UNREGISTERED in registered.values():", "if False:", REMEMBERED + "test_inits_of_a_new_spout_task_are_refused_when_there_is_no_memory_for_it"),
    ("operations/batch.py", "equal orders are one object", "apply_order=by_index if by_index == as_applied else as_applied", "apply_order=as_applied", "tests/unit/service/operations/test_batch.py::test_equal_orders_are_one_object"),
    ("operations/pending_limit.py", "the places that are taken are counted on every shard", "pending[index] += count", "pending[index] = count", ANSWERS + "test_room_under_a_cap_is_one_for_all_shards"),
    ("redis/client.py", "the lease is released when all is settled", "(await self.execute_each([*calls, last]))[:-1]", "(await self.execute_each([last, *calls]))[1:]", TRIPS + "test_the_lease_goes_back_when_all_is_settled"),
    ("redis/client.py", "the lease goes back in the round trip that settles", "if len(nodes) == 1:", "if False:", TRIPS + "test_a_small_batch_takes_three_round_trips_from_one_wait_to_the_next"),
    ("delivery/worker.py", "what comes while a batch is delivered goes next", "            return await self.settle(lease, claimed, await self.deliver(lease, claimed))\n", "            result = await self.deliver(lease, claimed)\n            self._wakeup.clear()\n            return await self.settle(lease, claimed, result)\n", TRIPS + "test_what_comes_while_a_batch_is_delivered_goes_next_though_no_poll_finds_it"),
    ("delivery/worker.py", "what a claim finds wakes nobody again", "        self._wakeup.clear()  # the claim finds all that came until now\n", "", TRIPS + "test_what_comes_while_the_worker_lingers_goes_along"),
    ("delivery/worker.py", "a worker lingers before it claims", "woken_s + self.config.linger_s - time.monotonic()", "0", TRIPS + "test_what_comes_while_the_worker_lingers_goes_along"),
    ("delivery/worker.py", "an idle worker releases its lease", "        return Pause(backoff_s=backoff_s, due_ms=min(known, default=None))\n", "        return None\n", TRIPS + "test_an_idle_worker_leaves_the_lease_to_another"),
    ("delivery/worker.py", "a worker wakes for the retry of what it settled", "known = retries if claimed.due_ms is None else [*retries, claimed.due_ms]", "known = [] if claimed.due_ms is None else [claimed.due_ms]", TRIPS + "test_a_retry_takes_three_and_one_look_for_what_else_is_due"),
    ("delivery/worker.py", "a receiver that is left alone costs nothing", "            await self.sleep(min(IDLE_S, pause.backoff_s))\n", "            await self._wait(pause.backoff_s)\n", TRIPS + "test_a_receiver_that_is_left_alone_costs_no_round_trips"),
    ("delivery/worker.py", "the time since its reading counts", " + int((time.monotonic() - self.read_s) * 1_000)", "", "tests/unit/service/delivery/test_worker.py::test_a_clock_that_was_read_once_goes_on"),
    ("operations/pending_limit.py", "a capped init counts its own spout task alone", "read_pending([*pending])", "read_pending([*pending, 7, 8])", TRIPS + "test_a_capped_init_of_one_shard_takes_two_round_trips_at_most_and_reads_one_field"),
    ("operations/pending_limit.py", "a full mailbox is no room", "mailbox_full=index in full", "mailbox_full=False", NARROW + "test_inits_are_refused_until_completions_were_released"),
]

IN_HISTORY: list[Rule] = [
    ("a step is claimed once", "if step <= claimed then", "if step < claimed then", HISTORY + "test_a_step_is_claimed_by_one_worker"),
    ("a claim says how long ago the one before was", "    return { 'ok', now, step, claimed }", "    return { 'ok', now, step, step - 1 }", HISTORY + "test_a_step_is_claimed_by_one_worker"),
    ("a step has one sample", "if math.floor(last_step / factor) >= math.floor(step / factor) then return nil end", "", HISTORY + "test_what_is_late_is_no_second_sample_of_its_step"),
    ("a longer window has a sample of each of its steps", "math.floor(last_step / factor) >= math.floor(step / factor)", "last_step >= step", HISTORY + "test_a_history_is_bounded"),
    ("totals that stay are one sample", "if last:sub(HEAD_SIZE + 1) == totals then return last_step end", "", HISTORY + "test_an_idle_topology_keeps_one_sample"),
    ("a history is bounded", "    if #excess > 0 then redis.call('ZREM', key, unpack(excess)) end\n  end\n\n  -- Adds a sample to all", "  end\n\n  -- Adds a sample to all", HISTORY + "test_a_history_is_bounded"),
    ("the oldest samples go", "redis.call('ZRANGE', key, 0, -SAMPLES - 1)", "redis.call('ZRANGE', key, SAMPLES, -1)", HISTORY + "test_a_history_is_bounded"),
    ("what changed last reaches all levels", "if level == 1 and unchanged_since and unchanged_since + LONG < step - since then return end", "if unchanged_since then return end", HISTORY + "test_what_changed_last_reaches_the_longer_windows_though_nothing_changes_any_more"),
    ("an idle topology is looked at once", "unchanged_since + LONG < step - since", "false", HISTORY + "test_totals_that_every_level_has_are_looked_at_once"),
    ("a topology that was made again gets no sample of the one before", "if stamp and stamp:sub(1, 16) == incarnation then", "if stamp then", HISTORY + "test_what_is_noted_of_a_topology_that_was_made_again_is_left_out"),
    ("a topology that is gone gets no sample", "if stamp and stamp:sub(1, 16) == incarnation then", "if not stamp or stamp:sub(1, 16) == incarnation then", HISTORY + "test_what_is_noted_of_a_topology_that_was_made_again_is_left_out"),
]

MUTANTS = [
    Mutant(rule=rule, path=f"{LUA}{name}.lua", old=old, new=new, tests=(test,))
    for name, rules in (
        ("acker", IN_ACKER),
        ("completions", IN_COMPLETIONS),
        ("record", IN_RECORD),
        ("buckets", IN_BUCKETS),
        ("operations", IN_OPERATIONS),
        ("fast_path", IN_FAST_PATH),
        ("requests", IN_REQUESTS),
        ("transitions", IN_TRANSITIONS),
        ("sweep", IN_SWEEP),
        ("tick", IN_TICK),
        ("trace", IN_TRACE),
        ("mailbox", IN_MAILBOX),
        ("roots", IN_ROOTS),
        ("topologies", IN_TOPOLOGIES),
        ("removal", IN_REMOVAL),
        ("history", IN_HISTORY),
        ("delivery", IN_DELIVERY),
        ("dead", IN_DEAD),
    )
    for rule, old, new, test in rules
] + [Mutant(rule=rule, path=SERVICE + name, old=old, new=new, tests=(test,)) for name, rule, old, new, test in IN_PYTHON]  # fmt: skip

"""Draws values of the contract for property tests: ids, names, texts, messages, as wide as the contract allows."""

import string

from acker_protocol.operations import Ack, EndOn, Fail, Init, Operation, ResetTimeout
from hypothesis import strategies as st

_LETTERS = string.ascii_letters + string.digits

ids = st.integers(1, 2**64 - 1)
ack_vals = st.integers(0, 2**64 - 1)
counts = st.integers(-(2**31), 2**31 - 1)
names = st.builds(str.__add__, st.sampled_from(_LETTERS), st.text(_LETTERS + "._-", max_size=127))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
timeouts = st.integers(100, 604_800_000)
traces = st.sampled_from((None, True))
ends = st.none() | st.sampled_from(EndOn)
drops = st.sampled_from((False, False, True))
traceparents = st.builds("00-{:032x}-{:016x}-{:02x}".format, st.integers(1, 2**128 - 1), ids, st.integers(0, 255))

inits = st.builds(
    Init,
    root_id=ids,
    spout_task=names,
    ack_val=ack_vals,
    outstanding=st.none() | counts,
    message_id=st.none() | texts,
    message_timeout_ms=st.none() | timeouts,
    progress_timeout_ms=st.none() | st.just(0) | timeouts,
    component=st.none() | names,
    trace=traces,
    end_on=ends,
)
acks = st.builds(
    Ack,
    root_id=ids,
    ack_val=ack_vals,
    outstanding=st.none() | counts,
    edge_id=st.none() | ids,
    component=st.none() | names,
    dropped=drops,
)
plain_fails = st.builds(Fail, root_id=ids, reason=st.none() | texts, component=st.none() | names)
fails_of_edges = st.builds(
    Fail,
    root_id=ids,
    ack_val=ack_vals,
    outstanding=st.none() | counts,
    edge_id=st.none() | ids,
    reason=st.none() | texts,
    component=st.none() | names,
)
resets = st.builds(ResetTimeout, root_id=ids, component=st.none() | names)
messages: st.SearchStrategy[Operation] = st.one_of(inits, acks, plain_fails, fails_of_edges, resets)

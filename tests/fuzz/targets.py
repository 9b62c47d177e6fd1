"""All targets of the fuzzers, by name."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from hypothesis import settings

from tests.fuzz import decoders
from tests.fuzz.decoders import Target
from tests.fuzz.sockets import Connections
from tests.fuzz.store import LuaArguments
from tests.support.servers import acker_serve, valkey
from tests.unit.protocol import test_tree
from tests.unit.service.operations import test_decoding


class Needs(StrEnum):
    """What has to run while a target is tried."""

    NOTHING = "nothing"
    STORE = "store"
    ACKER = "acker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fuzzed:
    """A target: what it is called in docs/trust.md, what it is made by (of the address of what it needs)."""

    what: str
    make: Callable[[str], Target]
    needs: Needs = Needs.NOTHING

    @property
    def is_guided(self) -> bool:
        """Whether the fuzzer sees which lines an input reaches: those of this process alone."""
        return self.needs is Needs.NOTHING


def _of(target: Target) -> Callable[[str], Target]:
    return lambda _: target


def _property(test: Any) -> Callable[[str], Target]:
    """Let the bytes of the fuzzer be the choices of hypothesis in one of its tests."""
    return _of(settings(deadline=None)(test).hypothesis.fuzz_one_input)


TARGETS = {
    "json": Fuzzed(what="a batch in JSON, beside the reference codec", make=_of(decoders.json_batch)),
    "packed": Fuzzed(what="a packed batch, beside the reference codec", make=_of(decoders.packed_batch)),
    "operation": Fuzzed(what="a single operation, beside the reference codec", make=_of(decoders.operation)),
    "values": Fuzzed(
        what="operations with other values, drawn by hypothesis",
        make=_property(test_decoding.test_operations_with_other_values_among_them_are_judged_alike),
    ),
    "bytes": Fuzzed(
        what="packed batches with other bytes, drawn by hypothesis",
        make=_property(test_decoding.test_a_packed_batch_with_other_bytes_in_it_is_judged_alike),
    ),
    "tree": Fuzzed(
        what="trees whose operations come in any order, drawn by hypothesis",
        make=_property(test_tree.test_a_tree_is_acked_at_the_last_of_its_operations_in_whatever_order_and_not_before),
    ),
    "header": Fuzzed(
        what="`Acker-Anchors`, read by the protocol and by both forms of the hot path", make=_of(decoders.header)
    ),
    "headers": Fuzzed(what="headers as libraries give them, compiled beside interpreted", make=_of(decoders.headers)),
    "children": Fuzzed(what="keys of children, compiled beside interpreted", make=_of(decoders.children)),
    "folding": Fuzzed(what="folding and packing, compiled beside interpreted", make=_of(decoders.folding)),
    "cursor": Fuzzed(what="a cursor of each list", make=_of(decoders.cursor)),
    "settings": Fuzzed(what="settings", make=_of(decoders.settings)),
    "keys": Fuzzed(what="the file of keys", make=_of(decoders.keys_file)),
    "webhook": Fuzzed(what="the answer of a webhook's receiver", make=_of(decoders.webhook_answer)),
    "request": Fuzzed(what="a plain request, beside the parser of HTTP", make=_of(decoders.plain_request)),
    "lua": Fuzzed(what="arguments of the functions in Redis", make=LuaArguments, needs=Needs.STORE),
    "socket": Fuzzed(what="bytes on a connection, whole and in pieces", make=Connections, needs=Needs.ACKER),
}


@contextlib.contextmanager
def running(needs: Needs) -> Iterator[str]:
    """Run what a target needs until the block is left; gives its address."""
    with tempfile.TemporaryDirectory(prefix="acker-fuzz-") as scratch:
        folder = Path(scratch)
        if needs is Needs.STORE:
            with valkey(folder) as store:
                yield store.url
        elif needs is Needs.ACKER:
            with acker_serve(folder, "--data-dir", str(folder / "data")) as acker:
                yield acker.url
        else:
            yield ""

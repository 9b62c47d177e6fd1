"""The compiled hot path of the client and the interpreted one beside it, for tests that hold them to each other."""

from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from acker_client._core import hot_path, hot_path_form


def interpreted() -> ModuleType:
    """Load the source of the hot path as a module of its own."""
    source = Path(hot_path_form.__file__).with_name("hot_path.py")
    spec = spec_from_file_location("interpreted_hot_path", source)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODULES = (hot_path, interpreted())


class Submitter:
    """Counts what is not tracked."""

    def __init__(self) -> None:
        self.untracked = 0

    def count_untracked(self) -> None:
        self.untracked += 1


def context(module: ModuleType) -> Any:
    """A context whose tuples are never sent."""
    unused: Any = None
    return module.TupleContext(
        topology="default",
        prefix="00 default ",
        submitter=Submitter(),
        session=unused,
        buffer=unused,
        driver=unused,
        tuple_class=type("Own", (module.ReceivedTuple,), {"__slots__": ()}),
    )


def outcome(function: Callable[[], Any]) -> Any:
    """What a function returns, or which error it raises."""
    try:
        return function()
    except Exception as error:  # noqa: BLE001 - whatever one form raises, the other has to raise
        return type(error), str(error)


def both(function: Callable[[ModuleType], Any]) -> tuple[Any, Any]:
    """What a function gives for each form."""
    compiled, source = (outcome(lambda module=module: function(module)) for module in MODULES)  # type: ignore[misc]
    return compiled, source


def received(headers: Any) -> Callable[[ModuleType], Any]:
    """What is received of these headers, in each form."""

    def receive(module: ModuleType) -> Any:
        used = context(module)
        tup = used.receive(headers, "count", "fail", False)  # noqa: FBT003
        return tup.anchors, tup.tracked, used.submitter.untracked, str(tup)

    return receive

"""What JSON schemas cannot see in manifests, told without a cluster.

The API server would refuse most of it; the rest it takes, and then the pod never starts (a probe on a port that is not
there) or nothing happens at all (a Service that selects nothing). A check for each kind of fault yields lines of words.
"""

from collections.abc import Iterator

from tests.deploy.lint.autoscalers import unscalable
from tests.deploy.lint.containers import misbuilt
from tests.deploy.lint.names import misnamed
from tests.deploy.lint.networking import leading_nowhere
from tests.deploy.lint.restricted import unrestricted
from tests.deploy.lint.selectors import unselected
from tests.deploy.lint.words import misspelt
from tests.deploy.manifests import Object, pods, title


def lint(objects: list[Object]) -> Iterator[str]:
    """Yield all faults of objects that are applied together."""
    for check in (misnamed, misspelt, unselected, leading_nowhere, unscalable):
        yield from check(objects)
    for some, _, spec in pods(objects):
        for container in [*spec.get("initContainers", []), *spec["containers"]]:
            where = f"{title(some)}[{container['name']}]"
            yield from misbuilt(where, some, spec, container)
            yield from unrestricted(where, spec, container)

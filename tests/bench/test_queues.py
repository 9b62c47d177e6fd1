"""Trees of tasks that publish tasks, in Celery and Dramatiq, tracked by Acker and by their own means."""

import pytest

from bench import queues
from bench.measure import Series
from bench.peers.growing import ACKED, BRANCHES, FAILED, FAILING, LEAVES, TASKS, leaves_of
from bench.progress import Progress
from bench.sizes import TINY


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", queues.peers())
def test_all_trees_end_rightly_with_acker_though_a_worker_is_killed(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    taken = queues.rounds(queues.peers()[name], TINY, tmp_path_factory.mktemp(name), Progress(name))
    everything = Series.of([float(TINY.grown_roots)] * TINY.rounds)
    assert taken["acker rightly"] == everything
    assert FAILING[0] < TINY.grown_roots
    lines = list(queues.lines(name, taken))
    assert len({line.what for line in lines}) == len(lines)
    assert [line.reached for line in lines if line.goal] == [True]
    for way in queues.peers()[name].variants:
        assert sum(taken[f"{way} {kind}"].median for kind in queues.KINDS) == TINY.grown_roots
        assert taken[f"{way} cpu"].low > 0


@pytest.mark.parametrize(
    ("root", "told", "kind"),
    [
        (0, [(ACKED, TASKS)], "rightly"),
        (0, [(ACKED, TASKS), (ACKED, TASKS)], "rightly"),
        (0, [(ACKED, TASKS - 1)], "early"),
        (0, [(ACKED, TASKS - 1), (ACKED, TASKS)], "early"),
        (0, [(FAILED, TASKS)], "wrongly"),
        (0, [(ACKED, TASKS), (FAILED, TASKS)], "wrongly"),
        (0, [], "never"),
        (FAILING[0], [(FAILED, 3)], "rightly"),
        (FAILING[0], [(ACKED, TASKS - 1)], "wrongly"),
        (FAILING[0], [], "never"),
    ],
)
def test_a_tree_has_ended_rightly_if_what_was_told_first_was_true_and_nothing_else_was_told(
    root: int, told: list[tuple[str, int]], kind: str
) -> None:
    assert queues.kind_of(root, told) == kind


def test_the_branches_share_all_leaves() -> None:
    assert sum(len(leaves_of(branch)) for branch in range(BRANCHES)) == LEAVES

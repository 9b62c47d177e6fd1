from acker_service.domain.schedule import DEFAULT
from acker_service.domain.terms import Terms


def test_completions_go_by_hundreds_and_a_lease_outlasts_a_post_unless_something_else_is_set() -> None:
    assert Terms() == Terms(most=500, wait_s=0.02, lease_ms=35_000, pause_after_ms=86_400_000, schedule=DEFAULT)

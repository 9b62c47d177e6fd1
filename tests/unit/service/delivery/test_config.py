from acker_service.delivery.config import DeliveryConfig
from acker_service.delivery.schedule import DEFAULT


def test_completions_go_by_hundreds_and_a_lease_outlasts_a_post_unless_something_else_is_set() -> None:
    assert DeliveryConfig() == DeliveryConfig(
        max_batch=500, linger_s=0.02, lease_ms=35_000, pause_after_ms=86_400_000, schedule=DEFAULT
    )

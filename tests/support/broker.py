"""Finds out whether a RabbitMQ can be started here."""

import os

import pytest

from examples.support.broker import NoBroker, find_program


def need_broker() -> None:
    """Skip the test where RabbitMQ is not installed; in CI, where it is to be, fail."""
    try:
        find_program()
    except NoBroker as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))

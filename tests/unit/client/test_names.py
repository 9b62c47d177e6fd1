"""Tests the names of components and spout tasks that are made of names that others gave."""

import pytest
from acker_client._core.names import valid_name
from acker_protocol.wire import fields
from hypothesis import given
from hypothesis import strategies as st

FOREIGN_NAMES = (
    *("_private", "crm:sync_contact", "发送邮件", "发送.邮件", "crm.contacts:sync/all", "a" * 150),
    *(
        "",
        "...",
        "send mail",
        "\N{ROCKET}",
        "\N{VULGAR FRACTION ONE HALF}",
        "задача_" * 40,
        "orders.>",
        "\ud800",
    ),
)


@pytest.mark.parametrize("name", FOREIGN_NAMES)
@pytest.mark.parametrize("suffix", ["", "-12345-0a1b2c3d"])
def test_a_name_that_is_made_of_any_name_is_valid(name, suffix):
    made = valid_name(name, suffix=suffix)
    assert fields.name(made) == made
    assert made.endswith(suffix)


@given(st.text(max_size=200))
def test_a_name_that_is_made_of_any_text_is_valid_and_stays_when_a_name_is_made_of_it_again(text):
    made = fields.name(valid_name(text))
    assert valid_name(made) == made


@pytest.mark.parametrize("name", ["split", "tests.queues.celery_tasks", "A-1_b.c", "9", "a" * 128])
def test_a_valid_name_stays_as_it_is(name):
    assert valid_name(name) == name


def test_a_name_can_be_read_where_only_punctuation_was_replaced():
    assert valid_name("crm.contacts:sync/all") == "crm.contacts-sync-all"
    assert valid_name("_private") == "private"


def test_names_that_lose_letters_or_are_cut_differ_by_a_digest():
    names = ["发送邮件", "发送短信", "a" * 150, "a" * 151, "", "send.发送", "send.邮件"]
    assert len({valid_name(name) for name in names}) == len(names)
    assert valid_name("send.邮件").startswith("send-")

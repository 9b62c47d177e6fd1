"""The text of the metrics is written once an interval for all who ask, and never lacks what they know of."""

import asyncio
import threading
import time
from typing import Any

import httpx
import pytest
from acker_service.components import Components
from acker_service.metrics.metrics import Form
from acker_service.monitoring import metrics_text

from tests.support.exposition import read
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

INTERVAL_S = 0.2
ACCEPTS = (
    "",
    "text/plain",
    "text/plain;version=1.0.0;escaping=dots",
    "text/plain;version=1.0.0;escaping=allow-utf-8",
    "application/openmetrics-text",
    "application/openmetrics-text;version=1.0.0;escaping=values",
    "application/openmetrics-text;version=1.0.7",
    "application/openmetrics-text;version=9.0.0;escaping=dots",
)


@pytest.fixture
def written(parts: Components, monkeypatch: pytest.MonkeyPatch) -> list[Form]:
    """The forms of the texts that were written, in turn."""
    forms, write = list[Form](), parts.metrics.write

    def note(form: Form, *args: Any) -> bytes:
        forms.append(form)
        return write(form, *args)

    monkeypatch.setattr(parts.metrics, "write", note)
    monkeypatch.setattr(metrics_text, "INTERVAL_S", INTERVAL_S)
    return forms


async def test_a_text_is_written_once_an_interval_for_all_who_ask(api: httpx.AsyncClient, written: list[Form]) -> None:
    began = time.monotonic()
    for _ in range(5):
        answers = await asyncio.gather(*(api.get("/metrics") for _ in range(20)))
        assert all(answer.is_success for answer in answers)
    assert 5 <= len(written) <= 1 + (time.monotonic() - began) / INTERVAL_S


async def test_versions_and_escapings_are_no_further_texts(api: httpx.AsyncClient, written: list[Form]) -> None:
    began = time.monotonic()
    for _ in range(2):
        answers = await asyncio.gather(*(api.get("/metrics", headers={"Accept": accept}) for accept in ACCEPTS))
        types = {answer.headers["content-type"] for answer in answers}
        assert types == {form.content_type for form in Form}
    for form in Form:
        assert written.count(form) <= 1 + (time.monotonic() - began) / INTERVAL_S


async def test_a_text_shows_what_was_counted_before_it_was_asked_for(
    api: httpx.AsyncClient, parts: Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, writing, go = parts.metrics.write, threading.Event(), threading.Event()

    def write_slowly(*args: Any) -> bytes:
        text = write(*args)
        writing.set()
        go.wait(30)
        return text

    async def is_writing() -> bool:
        return writing.is_set()

    monkeypatch.setattr(parts.metrics, "write", write_slowly)
    first = asyncio.create_task(api.get("/metrics"))
    await eventually(is_writing)
    parts.metrics.operations.sweeps.inc(1_000)
    second = asyncio.create_task(api.get("/metrics"))
    for _ in range(100):  # until it waits
        await asyncio.sleep(0)
    go.set()
    sweeps = [read((await asked).text).value("acker_hint_sweeps_total") or 0 for asked in (first, second)]
    assert sweeps[0] < 1_000 <= sweeps[1]


async def test_one_who_goes_away_takes_the_text_from_nobody(api: httpx.AsyncClient, written: list[Form]) -> None:
    await api.get("/metrics")
    gone, *others = (asyncio.create_task(api.get("/metrics")) for _ in range(3))
    await asyncio.sleep(0)
    gone.cancel()
    async with asyncio.timeout(30):
        assert all(answer.is_success for answer in await asyncio.gather(*others))
    assert written

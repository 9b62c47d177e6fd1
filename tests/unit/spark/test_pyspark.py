"""Tests what is said where no PySpark fits."""

import sys
from types import SimpleNamespace

import pytest
from acker_spark._pyspark import check_pyspark


def test_the_pyspark_of_the_tests_fits() -> None:
    check_pyspark()


@pytest.mark.parametrize("version", ["3.5.6", "2.4.8", "3.0.0.dev1"])
def test_one_that_is_too_old_is_refused_with_its_version(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(__version__=version))
    with pytest.raises(ImportError, match=f"4.0 or later, and this Python has {version}: pip install"):
        check_pyspark()


def test_where_there_is_none_the_extras_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(
        ImportError, match=r"has none: pip install 'acker-spark\[pyspark\]', or 'acker-spark\[connect\]'"
    ):
        check_pyspark()


@pytest.mark.parametrize("version", ["4.0.0", "4.1.0.dev2", "10.0.0"])
def test_a_later_one_fits(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(__version__=version))
    check_pyspark()

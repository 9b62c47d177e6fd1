"""Finds a Java for Spark."""

import os
import shutil

import pytest


def need_java() -> None:
    """Skip where there is none, but fail where CI is set: `.ci/run` installs one."""
    if shutil.which("java") or os.environ.get("JAVA_HOME"):
        return
    if os.environ.get("CI") == "true":
        pytest.fail("Java is missing, and .ci/run should have installed it")
    pytest.skip("Java 17 or later is not installed: Spark needs it (apt-get install openjdk-17-jre-headless)")

"""Finds a Java for Spark."""

import os

from tests.support.programs import needed


def need_java() -> None:
    """Skip where there is none, but fail where CI is set: `.ci/run` installs one."""
    if not os.environ.get("JAVA_HOME"):
        needed("java")

"""Crash tests of the example store. As root: `pytest test_store.py`."""

import os
import shlex
import sys

import pytest

STORE = [sys.executable, os.path.join(os.path.dirname(__file__), "store.py")]
CHECK = f"{shlex.join(STORE)} check {{}} {{acked}}"
VOLUME = ["--filesystem", "ext4", "--cuts", "6", "--states", "20"]


def test_a_store_that_syncs_survives(crashtest):
    crashtest(CHECK, [*STORE, "work", "{}", "fsync"], *VOLUME)


def test_a_store_that_does_not_sync_loses(crashtest):
    with pytest.raises(pytest.fail.Exception, match="acknowledged numbers are missing"):
        crashtest(CHECK, [*STORE, "work", "{}", "none"], "--no-explain", *VOLUME)

"""The fixture `crashtest`, for the conftest.py of a project."""

import os
import subprocess

import pytest


@pytest.fixture
def crashtest():
    """Returns a function that runs `logforce crashtest` and fails with its report."""

    def run(check, workload, *options):
        command = [os.environ.get("LOGFORCE", "logforce"), "crashtest", *options]
        ended = subprocess.run(
            [*command, "--check", check, "--", *workload], capture_output=True, text=True
        )
        report = ended.stdout + ended.stderr
        if ended.returncode == 77 and os.environ.get("CRASHTEST_REQUIRED") != "1":
            pytest.skip(report.replace("\n", " "))
        if ended.returncode != 0:
            pytest.fail(f"exit status {ended.returncode}\n{report}", pytrace=False)

    return run

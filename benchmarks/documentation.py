"""How many commands and Python blocks of README and docs run, parse, or name what they wait for."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.harness import ROOT, Result, benchmark

TESTS = "tests/docs/test_commands.py"


@benchmark("docs.commands")
def documentation() -> Iterator[Result]:
    """Run the test of every command; the share that passes counts."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "tests.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", TESTS]
        subprocess.run(command, cwd=ROOT)
        report_tree = ElementTree.parse(report)  # noqa: S314 -- written by pytest just now
        cases = report_tree.findall(".//testcase")
    passed, failed = Counter[str](), []
    for case in cases:
        _, _, label = case.get("name", "").rstrip("]").partition("[")
        if not label:  # a test of the table
            continue
        if len(case):
            failed.append(label)
        else:
            passed[label.split()[0]] += 1
    yield Result(
        "docs.commands",
        passed.total() / (passed.total() + len(failed)),
        n=passed.total() + len(failed),
        details={"classes": dict(passed), "failed": failed},
    )

"""How many commands and Python blocks of README and docs run, parse, or name what they wait for."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from benchmarks.harness import ROOT, Result, benchmark

TESTS = ROOT / "tests/docs/test_commands.py"


@dataclass
class Outcomes:
    """A plugin of pytest: what became of each command, whose test's id begins with its class."""

    passed: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a command that passed; name one that failed or was skipped."""
        label = report.nodeid.partition("[")[2].removesuffix("]")
        if label and not report.passed:
            self.failed.append(label)
        elif label and report.when == "call":
            self.passed[label.split()[0]] += 1


@benchmark("docs.commands")
def documentation() -> Iterator[Result]:
    """Run the test of every command; the share that passes counts."""
    outcomes = Outcomes()
    pytest.main(["-q", str(TESTS)], plugins=[outcomes])
    n = outcomes.passed.total() + len(outcomes.failed)
    details = {"classes": dict(outcomes.passed), "failed": outcomes.failed}
    yield Result("docs.commands", outcomes.passed.total() / n, n=n, details=details)

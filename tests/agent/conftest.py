"""One sandbox for all agent tests of a process: its worker imports torch once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sandboxes import needs_sandbox

from genlab.agent.lab import Lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    needs_sandbox()
    with Lab(tmp_path_factory.mktemp("data")) as found:
        yield found

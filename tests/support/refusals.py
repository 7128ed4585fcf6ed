"""What every error promises: one line that names the faulty values, and fields for programs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from genlab.core.errors import GenlabError


@contextmanager
def refused(
    *values: object, key: str = "", path: str | Path = "", fix: str = ""
) -> Iterator[pytest.ExceptionInfo[GenlabError]]:
    """Expect a GenlabError of one line that names `values`, with the fields that are given here."""
    with pytest.raises(GenlabError) as error:
        yield error
    line = str(error.value)
    assert "\n" not in line
    assert [str(value) for value in values if str(value) not in line] == [], line
    fields = {"key": key, "path": Path(path) if path else None, "fix": fix}
    expected = {name: value for name, value in fields.items() if value}
    assert {name: getattr(error.value, name) for name in expected} == expected

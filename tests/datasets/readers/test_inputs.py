"""Inputs that were misread once are read rightly, or refused by name."""

from pathlib import Path

import pytest
from own_inputs import CASES


@pytest.mark.parametrize("name", CASES)
def test_what_people_have_is_read_or_refused_by_name(tmp_path: Path, name: str) -> None:
    assert CASES[name](tmp_path)

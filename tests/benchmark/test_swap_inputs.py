"""Inputs of users are handled as expected, each with others of its kind."""

from pathlib import Path

import pytest
from swap_inputs import KINDS, Sibling

SIBLINGS = [pytest.param(check, id=check.__name__) for kind in KINDS.values() for check in kind]


@pytest.mark.parametrize("check", SIBLINGS)
def test_input(check: Sibling, tmp_path: Path) -> None:
    check(tmp_path)


def test_each_kind_has_siblings() -> None:
    assert {kind for kind, checks in KINDS.items() if len(checks) < 3} == set()

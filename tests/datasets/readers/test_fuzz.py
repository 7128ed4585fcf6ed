"""Damaged files never crash a reader; `make bench` reads 20,000 of them."""

from pathlib import Path

import own_fuzz


def test_damaged_files_end_in_pictures_or_in_one_line(tmp_path: Path) -> None:
    paths = own_fuzz.write_all(tmp_path / "data")
    before = sorted(tmp_path.rglob("*"))
    faults = list(own_fuzz.run_cases(paths, 150, seed=0))
    assert not faults, faults[0]
    assert sorted(tmp_path.rglob("*")) == before

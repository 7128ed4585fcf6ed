"""Damaged files never crash a reader; `make bench` reads 20,000 of them."""

import zipfile
from pathlib import Path

import own_data
import own_fuzz
import pytest
from refusals import refused

from genlab.core.params.sections import SourceParams
from genlab.datasets.own import read_source
from genlab.datasets.readers.conventions import hdf5


def test_damaged_files_end_in_pictures_or_in_one_line(tmp_path: Path) -> None:
    paths = own_fuzz.write_all(tmp_path / "data")
    before = sorted(tmp_path.rglob("*"))
    faults = list(own_fuzz.run_cases(paths, 150, seed=0))
    assert not faults, faults[0]
    assert sorted(tmp_path.rglob("*")) == before


def test_a_damaged_task_of_an_archive_is_counted(tmp_path: Path) -> None:
    tasks = own_data.draw_tasks(4)
    path = own_data.TASK_CONVENTIONS["zip"](tmp_path / "data", tasks)
    with zipfile.ZipFile(path) as archive:
        member = archive.infolist()[0]
    content = bytearray(path.read_bytes())
    content[member.header_offset + 1] ^= 255  # of its signature
    path.write_bytes(content)
    source = SourceParams(path=str(path), kind="grids")
    with refused(Path(member.filename).name, key="source.unreadable"):
        read_source(source)
    read = read_source(source.model_copy(update={"unreadable": "skip"}))
    assert 0 < len(read.retained_rows) < sum(1 for _ in own_data.list_grids(tasks))


def test_a_reader_that_ends_its_process_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = own_data.CONVENTIONS["MATLAB"](tmp_path / "data", *own_data.draw(12))
    monkeypatch.setattr(hdf5, "LOAD_MATLAB", "import os; os.kill(os.getpid(), 11)")
    with refused("signal 11", path=path):
        read_source(SourceParams(path=str(path)))

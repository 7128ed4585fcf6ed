"""The stage's outs: the same from the same inputs, wherever and whenever it runs."""

import json
import re
import shutil
from pathlib import Path

import pytest

from genlab.benchmark.snapshot import RESULTS, write_snapshot
from genlab.benchmark.store.repository import STORE, Store
from genlab.core.params import load_params

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def outs(folder: Path) -> dict[str, bytes]:
    """Run the stage in a new folder; return its files, the report without run, hour and seconds."""
    for name in ("astronaut-officer", "private/mine"):  # private cases are left out
        shutil.copytree(ROOT / "cases" / "astronaut-officer", folder / "cases" / name)
    changes = {"tools": ["control_pasted"], "cases": str(folder / "cases")}
    params = load_params(ROOT / "params.yaml").benchmark
    small = params.model_copy(update=changes)
    write_snapshot(small, folder, seed=0, bootstrap=100)
    with Store(folder / "runs" / STORE) as store:
        [run] = store.runs()
        store.set_run(run.run_id, max_cost=9.0)
        write_snapshot(small, folder, seed=0, bootstrap=100)
        assert store.run(run.run_id).max_cost == small.max_cost  # the params' ceiling counts
    page = (folder / "data/benchmark/report.html").read_text(encoding="utf-8")
    page = page.replace(run.run_id, "RUN")
    page = re.sub(r"started [^<]* UTC", "started", page)
    page = re.sub(r"<td>[0-9.]+</td></tr>", "<td>seconds</td></tr>", page)
    written = {"report.html": page.encode()}
    names = ("metrics/benchmark.json", "plots/benchmark/scores.png")
    return {**written, **{name: (folder / name).read_bytes() for name in (*names, str(RESULTS))}}


def test_a_fresh_stage_writes_the_same_bytes(tmp_path: Path) -> None:
    first = outs(tmp_path / "one")
    second = outs(tmp_path / "two")
    assert [name for name in first if first[name] != second[name]] == []
    assert b'"scored": 1' in first[str(RESULTS)]
    assert "cases/private" in (ROOT / ".dvcignore").read_text().splitlines()
    assert len(json.loads(first["metrics/benchmark.json"])) == 5

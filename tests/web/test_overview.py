"""The state of the pipeline comes from dvc, which runs as a process in the background."""

import sys
from pathlib import Path

import pytest

from genlab.web.pages import overview

STALE = {"train@d": [{"changed deps": {"src/x": "modified", "params.yaml": {"lr": "new"}}}]}
WHY = "changed deps: src/x: modified, params.yaml: lr: new"
DIFF = {
    "metrics/grids.json": {"n": {"old": 100, "new": 101, "diff": 1}},
    "metrics/images.json": {
        "ssim": {"old": 0.5, "new": 0.75, "diff": 0.25},
        "passed": {"old": True, "new": False, "diff": -1},
        "psnr": {"old": None, "new": 20.0},
    },
}
DVC = f"""
import json, sys, time
open('asked', 'a').write('x')
time.sleep(0.2)
if sys.argv[1] == 'stage':
    print('params@d', 'train@d', 'train@e', 'agent', sep='\\n')
print(json.dumps({STALE} if sys.argv[1] == 'status' else {DIFF}) if '--json' in sys.argv else '')
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose dvc is a small script."""
    (tmp_path / ".dvc").mkdir()
    monkeypatch.setattr(overview, "DVC", (sys.executable, "-c", DVC))
    return tmp_path


def ask(root: Path) -> overview.Status:
    return overview.ask(root, overview.fingerprint(root)).result(30)


def test_it_answers_at_once_and_knows_later(root: Path) -> None:
    state = overview.fingerprint(root)
    first = overview.ask(root, state)
    assert not first.done()
    status = first.result(30)
    assert status.fault is None
    train = {"stage": "train", "d": "stale", "e": "up to date", "all_datasets": "–"}
    assert status.stages[1] == train
    assert status.stages[2]["all_datasets"] == "up to date"
    assert status.stale == [{"stage": "train@d", "reasons": WHY}]
    assert [row["name"] for row in status.changes] == ["n", "SSIM", "passed", "PSNR"]
    assert [row["committed"] for row in status.changes] == ["100", "0.5", "yes", "–"]
    changed = {"metrics": "images", "name": "SSIM", "committed": "0.5", "now": "0.75"}
    assert status.changes[1] == changed


def test_it_asks_again_only_when_a_file_changed(root: Path) -> None:
    (root / "data").mkdir()
    ask(root)
    (root / "data/.making/run").mkdir(parents=True)  # a training under way is no change
    (root / "data/.making/run/history.json").write_text("{}")
    assert overview.ask(root, overview.fingerprint(root)).done()
    (root / "params.yaml").write_text("seed: 1")
    assert not overview.ask(root, overview.fingerprint(root)).done()
    ask(root)
    assert (root / "asked").read_text() == "xxx" * 2


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import sys; sys.exit('ERROR: Unable to acquire lock')", "under way"),
        ("import sys; sys.exit('ERROR: not inside of a DVC repository')", "not inside"),
        ("print('no json')", "no JSON"),
        ("print([])", "no JSON"),
        (None, "no project of dvc"),
    ],
)
def test_a_fault_is_a_sentence(
    root: Path, monkeypatch: pytest.MonkeyPatch, code: str | None, words: str
) -> None:
    monkeypatch.setattr(overview, "DVC", (sys.executable, "-c", code))
    if code is None:
        (root / ".dvc").rmdir()
    status = ask(root)
    assert words in (status.fault or "")
    assert status.stages == ()

"""dvc is asked in the background, by a real process; the page never waits for it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from genlab.web.status import Watch

STAGES = {"train@d": [{"changed deps": {"x": "modified"}}]}
PYTHON = (sys.executable, "-c")


def test_it_answers_at_once_and_knows_later(tmp_path: Path) -> None:
    code = f"import json, time; time.sleep(0.5); print(json.dumps({STAGES}))"
    asked = Watch(tmp_path, [[*PYTHON, code], [*PYTHON, "print('{}')"]])
    started = time.perf_counter()
    first = asked.look()
    assert time.perf_counter() - started < 0.4
    assert (first.stages, first.asking) == (None, True)
    asked.wait(30)
    assert asked.look().stages == STAGES
    assert asked.look().metrics == {}


def test_it_asks_again_only_when_a_file_changed(tmp_path: Path) -> None:
    code = "from pathlib import Path; Path('asked').open('a').write('x'); print('{}')"
    (tmp_path / "data").mkdir()
    asked = Watch(tmp_path, [[*PYTHON, code], [*PYTHON, "print('{}')"]])
    asked.look()
    asked.wait(30)
    (tmp_path / "data/.making/run").mkdir(parents=True)  # a training under way is no change
    (tmp_path / "data/.making/run/history.json").write_text("{}")
    assert not asked.look().asking
    (tmp_path / "params.yaml").write_text("seed: 1")
    assert asked.look().asking
    asked.wait(30)
    assert asked.look().stages == {}
    assert (tmp_path / "asked").read_text() == "xx"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ([*PYTHON, "import sys; sys.exit('ERROR: Unable to acquire lock')"], "going on"),
        ([*PYTHON, "import sys; sys.exit('ERROR: not inside of a DVC repository')"], "not inside"),
        ([*PYTHON, "print('no json')"], "no JSON"),
        (["/no/such/program"], "could not be started"),
        (None, "no project of dvc"),
    ],
)
def test_a_fault_is_a_sentence(tmp_path: Path, command: list[str] | None, words: str) -> None:
    asked = Watch(tmp_path) if command is None else Watch(tmp_path, [command, command])
    asked.look()
    asked.wait(30)
    found = asked.look()
    assert words in (found.fault or "")
    assert found.stages is None

"""dvc is asked in the background, by a real process; the page never waits for it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from genlab.web.status import Watch

PRINTS = 'print(\'{"train@d": [{"changed deps": {"x": "modified"}}]}\')'


def watch(root: Path, code: str) -> Watch:
    return Watch(root, [sys.executable, "-c", code])


def test_it_answers_at_once_and_knows_later(tmp_path: Path) -> None:
    asked = watch(tmp_path, f"import time; time.sleep(0.5); {PRINTS}")
    started = time.perf_counter()
    first = asked.look()
    assert time.perf_counter() - started < 0.4
    assert (first.stages, first.asking) == (None, True)
    asked.wait(30)
    assert asked.look().stages == {"train@d": [{"changed deps": {"x": "modified"}}]}


def test_it_asks_again_only_when_a_file_changed(tmp_path: Path) -> None:
    code = "from pathlib import Path; Path('asked').open('a').write('x'); print('{}')"
    asked = watch(tmp_path, code)
    for _ in range(3):
        asked.look()
        asked.wait(30)
    assert (tmp_path / "asked").read_text() == "x"
    (tmp_path / "params.yaml").write_text("seed: 1")
    assert asked.look().asking
    asked.wait(30)
    assert asked.look().stages == {}
    assert (tmp_path / "asked").read_text() == "xx"


def test_runs_in_the_making_do_not_make_it_ask(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    asked = watch(tmp_path, "print('{}')")
    asked.look()
    asked.wait(30)
    (tmp_path / "data/.making/run").mkdir(parents=True)
    (tmp_path / "data/.making/run/history.json").write_text("{}")
    assert not asked.look().asking


def test_faults_are_sentences(tmp_path: Path) -> None:
    faults = {
        "import sys; sys.exit('ERROR: Unable to acquire lock')": "A run is going on",
        "import sys; sys.exit('ERROR: you are not inside of a DVC repository')": "not inside",
        "print('no json')": "no JSON",
    }
    for code, words in faults.items():
        asked = watch(tmp_path, code)
        asked.look()
        asked.wait(30)
        found = asked.look()
        assert words in (found.fault or "")
        assert found.stages is None
    bare = Watch(tmp_path)
    bare.look()
    bare.wait(30)
    assert "no project of dvc" in (bare.look().fault or "")
    absent = Watch(tmp_path, [str(tmp_path / "no-such-program")])
    absent.look()
    absent.wait(30)
    assert "could not be started" in (absent.look().fault or "")

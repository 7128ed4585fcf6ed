"""dvc.lock is held against what git holds, on a clean clone without any cached data."""

import shutil
import sys
from pathlib import Path

import pytest
from clones import dvc_in, run_in
from scripts.check_lock import find_stale, main

ROOT = Path(__file__).resolve().parents[2]
STAGE = """
import pathlib, sys
out = pathlib.Path(sys.argv[1])
out.parent.mkdir(parents=True, exist_ok=True)
out.write_text("made")
"""
DVC = """
stages:
  data:
    cmd: python make.py data/x/grids
    deps: [make.py, src]
    params: [seed]
    outs: [data/x]
  measure:
    cmd: python make.py metrics/x.json
    deps: [make.py, data/x]
    params: [beta]
    outs:
      - metrics/x.json: {cache: false}
"""


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A committed pipeline that has been run."""
    folder = tmp_path_factory.mktemp("origin")
    (folder / "src").mkdir()
    (folder / "src" / "code.py").write_text("x = 1\n")
    (folder / "make.py").write_text(STAGE)
    (folder / "dvc.yaml").write_text(DVC)
    (folder / "params.yaml").write_text("seed: 0\nbeta: 1.0\n")
    (folder / ".gitignore").write_text("/data/\n")
    run_in(folder, "git", "init", "-q")
    dvc_in(folder, "init", "-q")
    dvc_in(folder, "repro", "-q")
    run_in(folder, "git", "add", "-A")
    run_in(folder, "git", "commit", "-q", "-m", "one")
    return folder


@pytest.fixture
def clone(origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    run_in(tmp_path, "git", "clone", "-q", str(origin), "clone")
    monkeypatch.chdir(tmp_path / "clone")
    return tmp_path / "clone"


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_clean_clone_without_data_is_fresh(
    clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not (clone / "data").exists()
    assert main() == 0
    assert "fits" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("src/code.py", "x = 1", "x = 2", "data: changed deps: src: modified"),
        ("params.yaml", "beta: 1.0", "beta: 0.0", "measure: changed deps: params.yaml:beta"),
        ("metrics/x.json", "made", "made up", "measure: changed outs: metrics/x.json: modified"),
        ("dvc.yaml", "make.py metrics/x.json", "make.py  metrics/x.json", "changed command"),
        ("dvc.yaml", "params: [seed]", "params: [seed, beta]", "params.yaml:beta: new"),
    ],
)
def test_a_change_is_named(clone: Path, file: str, old: str, new: str, says: str) -> None:
    _replace(clone / file, old, new)
    assert any(says in line for line in find_stale()), find_stale()


def test_a_result_that_was_not_committed_is_named(clone: Path) -> None:
    (clone / "metrics" / "x.json").unlink()
    assert find_stale() == ["measure: changed outs: metrics/x.json: deleted"]


def test_a_stage_that_ran_on_other_data_is_named(clone: Path) -> None:
    lines = (clone / "dvc.lock").read_text().splitlines()
    place = lines.index("    - path: data/x")  # the first stage's out
    assert "md5:" in lines[place + 2]
    lines[place + 2] = "      md5: " + "0" * 32 + ".dir"
    (clone / "dvc.lock").write_text("\n".join(lines) + "\n")
    assert "measure: was run on another data/x than data wrote" in find_stale()


RESOLVE = f"""
stages:
  shared_params:
    cmd: {sys.executable} {ROOT}/stages/params.py
    deps: [src]
    params:
      - params.yaml:
    outs:
      - results/params.json: {{cache: false}}
"""


def test_resolved_params_are_stale_where_they_would_be_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "src").mkdir()
    source = tmp_path / "src" / "code.py"
    source.write_text("x = 1\n")
    (tmp_path / "dvc.yaml").write_text(RESOLVE)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    run_in(tmp_path, "git", "init", "-q")
    dvc_in(tmp_path, "init", "-q")
    dvc_in(tmp_path, "repro", "-q")
    monkeypatch.chdir(tmp_path)
    source.write_text("x = 1  # a remark\n")
    assert find_stale() == []
    _replace(tmp_path / "params.yaml", "seed: 0 ", "seed: 1 ")
    assert find_stale() == ["shared_params: would write another results/params.json"]


def test_a_missing_lock_names_the_fix(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (clone / "dvc.lock").unlink()
    assert main() == 1
    errors = capsys.readouterr().err
    assert "data: changed deps: src" in errors
    assert "make repro" in errors

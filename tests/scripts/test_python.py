"""The launcher: which Python a stage gets, with which code, and what it says where none is."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from clones import dvc_in, run_in

ROOT = Path(__file__).resolve().parents[2]
# In place of a Python: it says which one it is, and which code it would import.
USABLE = '#!/bin/sh\n[ "$1" = -c ] && exit 0\necho "$0|$PYTHONPATH|$*"\n'
WITHOUT_GENLAB = "#!/bin/sh\nexit 1\n"


def make_program(path: Path, text: str = USABLE) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A copy of the project's launcher, at a path with a space, and nothing else."""
    folder = tmp_path / "a place" / "genlab"
    (folder / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts/python", folder / "scripts/python")
    return folder


def launch(folder: Path, script: str = "scripts/python", path: str = "", **environment: str) -> str:
    """The output of the launcher in `folder`, with the system's own programs after `path`."""
    done = subprocess.run(
        ["/bin/sh", script, "stages/train.py", "--name", "two words"],
        cwd=folder,
        env={"PATH": f"{path}:{folder}/no-python:/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) is (done.stderr == ""), done.stderr
    if done.returncode:
        assert done.returncode == 2
        assert done.stdout == ""
    return (done.stdout or done.stderr).rstrip("\n")


def test_the_environment_of_the_repository_comes_first(repository: Path) -> None:
    python = make_program(repository / ".venv/bin/python")
    on_path = make_program(repository.parent / "other/python")
    expected = f"{python}|{repository}/src|stages/train.py --name two words"
    assert launch(repository, path=str(on_path.parent)) == expected


@pytest.mark.parametrize("place", ["inside", "worktree", "elsewhere"])
def test_a_folder_of_dvc_finds_the_environment_of_the_repository(
    repository: Path, tmp_path: Path, place: str
) -> None:
    """As `dvc exp run --temp` makes one: below .dvc/tmp, or where DVC_ROOT alone names it."""
    python = make_program(repository / ".venv/bin/python")
    folders = {
        "inside": repository / ".dvc/tmp/exps/standalone/tmp1",
        "worktree": repository / "build/worktree",
        "elsewhere": tmp_path / "tmp1",
    }
    folder = folders[place]
    (folder / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts/python", folder / "scripts/python")
    environment = {"DVC_ROOT": str(repository)} if place == "elsewhere" else {}
    # the folder's own code
    assert launch(folder, **environment).startswith(f"{python}|{folder}/src|stages/train.py")


def test_a_script_that_is_called_from_elsewhere_finds_its_own_environment(
    repository: Path, tmp_path: Path
) -> None:
    python = make_program(repository / ".venv/bin/python")
    assert launch(tmp_path, str(repository / "scripts/python")).startswith(f"{python}|")


@pytest.mark.parametrize("name", ["python", "python3"])
def test_else_the_python_of_an_activated_environment_is_taken(repository: Path, name: str) -> None:
    activated = make_program(repository.parent / "activated" / name)
    output = launch(repository, path=str(activated.parent), PYTHONPATH="mine")
    assert output == f"{activated}|{repository}/src:mine|stages/train.py --name two words"


def test_without_an_environment_one_line_says_what_to_do(repository: Path) -> None:
    make_program(repository / "no-python/python", WITHOUT_GENLAB)
    make_program(repository / "other/python3", WITHOUT_GENLAB)
    line = launch(repository, path=str(repository / "other"))
    assert line.count("\n") == 0
    assert line.startswith("genlab: error: ")
    for text in (str(repository / ".venv"), "make setup", "dvc checkout"):
        assert text in line


@pytest.mark.parametrize("fault", ["dangling", "unfinished", "empty"])
def test_a_broken_environment_is_named(repository: Path, fault: str) -> None:
    environment = repository / ".venv"
    if fault == "unfinished":
        make_program(environment / "bin/python", WITHOUT_GENLAB)
    else:
        (environment / "bin").mkdir(parents=True)
    if fault == "dangling":
        (environment / "bin/python").symlink_to("/nowhere/python3")
    line = launch(repository)
    assert line.count("\n") == 0
    for text in (f"{environment} has no Python with genlab", "make setup", "dvc checkout"):
        assert text in line


@pytest.mark.slow
def test_what_dvc_removed_before_a_stage_without_environment_comes_back(tmp_path: Path) -> None:
    """The way back that the line names, with the real dvc and the real environment."""
    folder = tmp_path / "a place"
    (folder / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts/python", folder / "scripts/python")
    (folder / "stage.py").write_text("open('out', 'w').write('made')")
    (folder / "dvc.yaml").write_text(
        "stages:\n  work:\n    cmd: sh scripts/python stage.py\n"
        "    deps: [stage.py]\n    outs: [out]\n"
    )
    run_in(folder, "git", "init", "-q")
    dvc_in(folder, "init", "--quiet")
    dvc_in(folder, "repro")
    (folder / "stage.py").write_text("open('out', 'w').write('made again')")
    failed = subprocess.run(
        [sys.executable, "-m", "dvc", "repro"],
        cwd=folder, env={**os.environ, "PATH": "/usr/bin:/bin", "PYTHONPATH": ""},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert failed.returncode != 0
    assert "make setup; then, for outs that dvc removed: dvc checkout" in failed.stderr
    assert not (folder / "out").exists()
    dvc_in(folder, "checkout")
    assert (folder / "out").read_text() == "made"

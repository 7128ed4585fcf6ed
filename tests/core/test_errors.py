"""A fault is one line on stderr and an exit status; a bug keeps its traceback."""

import errno
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from genlab.core.errors import GenlabError, run_cli

ROOT = Path(__file__).resolve().parents[2]


def _run(body: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    script = f"from genlab.core.errors import *\ndef main():\n{body}\nrun_cli(main)\n"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        [sys.executable, "-c", script], cwd=cwd, env=environment, capture_output=True, text=True
    )


def _one_line(text: str) -> str:
    assert text.endswith("\n")
    assert text.count("\n") == 1, text
    assert text.startswith("genlab: ")
    return text


def test_a_fault_of_the_user_is_one_line_and_status_2(tmp_path: Path) -> None:
    done = _run("  raise GenlabError('params.yaml: lr must be > 0,\\n got -1')", tmp_path)
    assert done.returncode == 2
    assert _one_line(done.stderr) == "genlab: error: params.yaml: lr must be > 0, got -1\n"
    assert done.stdout == ""


def test_a_missing_file_is_named_with_a_fix(tmp_path: Path) -> None:
    done = _run("  open('nowhere.npz')", tmp_path)
    assert done.returncode == 2
    line = _one_line(done.stderr)
    assert "nowhere.npz" in line
    assert "check the path" in line


def test_a_bug_keeps_its_traceback(tmp_path: Path) -> None:
    done = _run("  return 1 / 0", tmp_path)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "Traceback" in done.stderr


def test_its_own_exit_status_is_kept(tmp_path: Path) -> None:
    assert _run("  raise SystemExit(7)", tmp_path).returncode == 7


@pytest.mark.parametrize(
    ("number", "fix"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EACCES, "writable"),
        (errno.EROFS, "can be written"),
    ],
)
def test_each_fault_of_the_disk_names_its_fix(
    number: int, fix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def main() -> None:
        raise OSError(number, os.strerror(number), "data/x.npz")

    with pytest.raises(SystemExit) as stop:
        run_cli(main)
    assert stop.value.code == 2
    line = _one_line(capsys.readouterr().err)
    assert "data/x.npz" in line
    assert os.strerror(number) in line
    assert fix in line


@pytest.mark.parametrize("typer_app", [False, True])
def test_ctrl_c_is_one_line_and_status_130(tmp_path: Path, typer_app: bool) -> None:
    script = tmp_path / "wait.py"
    script.write_text(
        "import time, typer\n"
        "from genlab.core.errors import run_cli\n"
        "app = typer.Typer()\n"
        "@app.command()\n"
        "def main() -> None:\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
        f"run_cli({'app' if typer_app else 'main'})\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(
        [sys.executable, str(script)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in _one_line(errors)


def test_an_error_has_its_place_for_programs() -> None:
    error = GenlabError("params.yaml: lr must be > 0", key="lr", path="params.yaml", fix="raise lr")
    assert not isinstance(error, SystemExit)
    assert (error.key, error.path, error.fix) == ("lr", Path("params.yaml"), "raise lr")
    assert pickle.loads(pickle.dumps(error)).key == "lr"

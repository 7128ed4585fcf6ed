"""A stage ends with the dvc that started it, and so do its processes; it logs its time."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 120.0  # seconds; a loaded machine is slow
# Stages of tiny repositories. `pids` names every process of a stage once all of them run.
SLEEPER = """
import multiprocessing, os, time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from genlab.core import runtime
from genlab.core.errors import run_cli

def main():
    pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), runtime.follow_parent)
    child = pool.submit(os.getpid).result()
    Path("pids").write_text(f"{os.getpid()} {child}")
    while True:
        Path("out").write_text(str(time.time()))
        time.sleep(0.05)

if __name__ == "__main__":
    run_cli(main)
"""
WORKER = """
import multiprocessing, sys, time
from pathlib import Path
from genlab.core.errors import run_cli

def burn():
    while time.process_time() < 0.5: pass

def main():
    for method in ("spawn", "forkserver"):  # the latter's processes are its server's children
        process = multiprocessing.get_context(method).Process(target=burn)
        process.start()
        process.join()
    Path("out").write_text("done")
    if "fail" in sys.argv:
        raise OSError("failed")

if __name__ == "__main__":
    run_cli(main)
"""
IMPORTER = """
import os, time
from pathlib import Path
from genlab.core.errors import run_cli

Path("pids").write_text(str(os.getpid()))
while not Path("go").exists():
    time.sleep(0.05)
run_cli(lambda: Path("out").write_text("written"))
"""


def make_repository(folder: Path, stage: str) -> dict[str, str]:
    """Write a repository with one stage `work@a b`, and return the environment to run dvc in."""
    (folder / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts/python", folder / "scripts/python")
    (folder / "stage.py").write_text(stage)
    (folder / "dvc.yaml").write_text(
        "stages:\n  work:\n    matrix: {dataset: [grids]}\n"
        "    cmd: sh scripts/python stage.py ${item.dataset}\n    outs: [out]\n"
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "dvc", "init", "--quiet", "--no-scm"]
    subprocess.run(command, cwd=folder, env=environment, check=True)
    return environment


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_running(process: int) -> bool:
    """Whether a process exists and is not a zombie."""
    status = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=False
    ).stdout.strip()
    return bool(status) and not status.startswith("Z")


def read_processes(folder: Path) -> list[int]:
    file = folder / "pids"
    return [int(word) for word in file.read_text().split()] if file.exists() else []


def start_dvc(folder: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "dvc", "repro"],
        cwd=folder, env=environment, stdout=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


@pytest.fixture(params=[False, True], ids=["shell-becomes-command", "shell-waits"])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a shell for dvc that becomes its command, as bash does, or waits for it, as dash."""
    file = tmp_path / "shell"
    file.write_text(
        '#!/bin/sh\n/bin/sh "$@"\nexit $?\n' if request.param else "#!/bin/sh\nshift\nexec $*\n"
    )
    file.chmod(0o755)
    return str(file)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_stage_and_its_processes_end_with_dvc(
    tmp_path: Path, number: signal.Signals, shell: str
) -> None:
    folder = tmp_path / "a b"
    environment = {**make_repository(folder, SLEEPER), "SHELL": shell}
    dvc = start_dvc(folder, environment)
    wait_until(lambda: len(read_processes(folder)) == 2)
    stage, child = read_processes(folder)
    assert is_running(stage)
    assert is_running(child)
    dvc.send_signal(number)
    dvc.wait(TIMEOUT)
    wait_until(lambda: not is_running(stage) and not is_running(child))
    assert not (folder / "runs").exists()


@pytest.mark.slow
def test_a_stage_that_dvc_leaves_during_its_imports_does_nothing(
    tmp_path: Path, shell: str
) -> None:
    folder = tmp_path / "repository"
    dvc = start_dvc(folder, {**make_repository(folder, IMPORTER), "SHELL": shell})
    wait_until(lambda: read_processes(folder))
    dvc.kill()
    dvc.wait(TIMEOUT)
    (folder / "go").touch()
    wait_until(lambda: not is_running(read_processes(folder)[0]))
    assert not (folder / "out").exists()


@pytest.mark.slow
def test_a_stage_outlives_the_shell_of_somebody_who_started_it(tmp_path: Path) -> None:
    (tmp_path / "stage.py").write_text(SLEEPER)
    command = f"'{ROOT}/scripts/python' stage.py & "
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, env={**environment, "PATH": path}, check=True
    )
    wait_until(lambda: len(read_processes(tmp_path)) == 2)
    stage, child = read_processes(tmp_path)
    try:
        time.sleep(2)  # several checks of the parent
        assert is_running(stage)
    finally:
        os.kill(stage, signal.SIGKILL)
    wait_until(lambda: not is_running(child))


def test_a_stage_records_what_it_took(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    environment = make_repository(folder, WORKER)
    began = time.time()
    subprocess.run([sys.executable, "-m", "dvc", "repro"], cwd=folder, env=environment, check=True)
    (line,) = map(json.loads, (folder / "runs/stages.jsonl").read_text().splitlines())
    assert (line["stage"], line["dataset"]) == ("work", "grids")
    assert began - 1 < line["started"] < time.time()
    assert line["cpu_seconds"] >= 1.0
    assert 0.5 <= line["seconds"] <= time.time() - began + 1


def test_a_stage_that_fails_or_that_dvc_did_not_start_records_nothing(tmp_path: Path) -> None:
    (tmp_path / "stage.py").write_text(WORKER)
    command = ["sh", str(ROOT / "scripts/python"), "stage.py"]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    environment["DVC_STAGE"] = "work@grids"
    failed = subprocess.run([*command, "fail"], cwd=tmp_path, env=environment, check=False)
    assert failed.returncode == 2
    assert not (tmp_path / "runs").exists()

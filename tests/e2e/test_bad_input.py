"""Bad input, full disks and Ctrl-C: one line with the fix, and no half file."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import tiny

from genlab.core.io import sha256
from genlab.vae.models.vae import save_checkpoint
from genlab.vae.training.run import write_history

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]
CHECKPOINT = Path("data/checkpoints/arc_grids/model.safetensors")
DATA = Path("data/arc_grids")
DATA_FILE = DATA / "simplified_dataset_400.npz"
TIMEOUT = 300


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder to run stages in: tiny params and tiny data, nothing trained."""
    folder = tmp_path / "place"
    (folder / DATA).mkdir(parents=True)
    tiny.write_params(folder)
    tiny.write_dataset(folder / DATA)
    return folder


def _command(stage: str, *arguments: str) -> list[str]:
    return [sys.executable, str(ROOT / "stages" / f"{stage}.py"), *arguments]


def _environment(place: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "OMP_NUM_THREADS": "1",
        "GIT_CEILING_DIRECTORIES": str(place.parent),
    }


def _run(
    place: Path, stage: str, *arguments: str, prepare: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _command(stage, *arguments),
        cwd=place,
        env=_environment(place),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        preexec_fn=prepare,
    )


def _line(stderr: str) -> str:
    """What is on stderr beside the progress bar, which must be one line of ours."""
    assert "Traceback" not in stderr
    lines = [line for line in re.split(r"[\r\n]+", stderr) if line.strip()]
    said = [line for line in lines if "item/s" not in line and "?item" not in line]
    assert len(said) == 1, stderr
    assert said[0].startswith("genlab: ")
    return said[0]


def _leftovers(place: Path) -> list[Path]:
    return list(place.rglob("*.part*"))


def _refused(place: Path, stage: str, *arguments: str) -> str:
    """The one line with which a stage refuses, exit 2 and nothing half done."""
    done = _run(place, stage, *arguments)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert _leftovers(place) == []
    assert not (place / CHECKPOINT).exists()
    return _line(done.stderr)


def _write_params(place: Path, change: Callable[[str], str]) -> None:
    file = place / "params.yaml"
    file.write_text(change(file.read_text()))


# -- params


PARAMS_FAULTS: dict[str, tuple[Callable[[str], str], list[str]]] = {
    "a value out of range": (
        lambda text: re.sub(r"beta_max: .*", "beta_max: -1.0", text),
        ["beta_max", ">= 0", "-1"],
    ),
    "a misspelt key": (
        lambda text: text.replace("beta_max:", "beta_maks:"),
        ["beta_maks", "did you mean beta_max"],
    ),
    "a missing key": (
        lambda text: re.sub(r"^epochs: .*\n", "", text, flags=re.M),
        ["epochs", "missing"],
    ),
    "latents that no patch can hold": (
        lambda text: re.sub(r"latent_dim: .*", "latent_dim: 4", text),
        ["latent_dim", "16 patches", "got 4"],
    ),
    "convolutions deeper than the grid": (
        lambda text: re.sub(
            r"^depth: .*",
            "depth: 4",
            text.replace("network: mixer", "network: conv").replace(
                "prior: autoregressive", "prior: standard"
            ),
            flags=re.M,
        ),
        ["depth", "got 4"],
    ),
}


@pytest.mark.parametrize("fault", PARAMS_FAULTS)
def test_bad_params_are_one_line(place: Path, fault: str) -> None:
    change, words = PARAMS_FAULTS[fault]
    _write_params(place, change)
    line = _refused(place, "train")
    assert all(word in line for word in words), line
    assert "params.yaml" in line


def test_no_params_at_all_is_one_line(place: Path) -> None:
    (place / "params.yaml").unlink()
    assert "params.yaml is missing" in _refused(place, "train")


@pytest.mark.parametrize("stage", ["train", "evaluate", "failure_gallery", "split", "generate"])
def test_an_unknown_dataset_is_one_line(place: Path, stage: str) -> None:
    line = _refused(place, stage, "--dataset", "arc_grid")
    assert "arc_grid" in line
    assert "arc_grids" in line


def test_an_option_out_of_range_is_one_line(place: Path) -> None:
    line = _refused(place, "train", "--beta-max", "-1")
    assert "beta_max must be >= 0" in line


def test_an_absent_device_is_one_line(place: Path) -> None:
    line = _refused(place, "train", "--device", "tpu")
    assert "device must be one of" in line


# -- data


def _truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _foreign(file: Path) -> None:
    with file.open("wb") as target:
        np.savez(target, images=np.zeros(3))


def _pickled(file: Path) -> None:
    with file.open("wb") as target:
        np.savez(target, train=np.array([{}], dtype=object), val=np.zeros(1), test=np.zeros(1))


def _grids(file: Path, grids: np.ndarray) -> None:
    with file.open("wb") as target:
        np.savez(target, train=grids, val=grids, test=grids)


def _coloured(file: Path) -> None:
    grids = np.zeros((20, 8, 8), np.uint8)
    grids[3, 4, 5] = 11
    _grids(file, grids)


DATA_FAULTS: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "truncated": (_truncated, ["truncated"]),
    "foreign": (_foreign, ["no key 'train'"]),
    "pickled": (_pickled, ["truncated or no .npz of plain arrays"]),
    "colour 11": (_coloured, ["grid 3 has colour 11 at row 4, column 5"]),
    "another size": (lambda file: _grids(file, np.zeros((20, 6, 6), np.uint8)), ["8 x 8", "6, 6"]),
    "absent": (Path.unlink, ["found none"]),
}


@pytest.mark.parametrize("fault", DATA_FAULTS)
def test_bad_data_is_one_line_that_names_file_and_command(place: Path, fault: str) -> None:
    spoil, words = DATA_FAULTS[fault]
    spoil(place / DATA_FILE)
    line = _refused(place, "train")
    assert all(word in line for word in words), line
    assert str(DATA) in line
    assert "stages/split.py" in line


# -- checkpoints


def _save_model(place: Path, **shapes: object) -> Path:
    file = place / CHECKPOINT
    file.parent.mkdir(parents=True)
    facts = {
        "dataset": "arc_grids",
        "training": {"beta_max": 1.0, "samples_per_epoch": 64, "batch_size": 16},
    }
    save_checkpoint(file, tiny.model(**shapes), facts)
    return file


def _evaluate_refused(place: Path) -> str:
    done = _run(place, "evaluate")
    assert done.returncode == 2, done.stderr
    assert not (place / "metrics").exists()
    return _line(done.stderr)


def test_no_checkpoint_is_one_line(place: Path) -> None:
    line = _evaluate_refused(place)
    assert str(CHECKPOINT) in line
    assert "dvc repro train" in line


def test_a_truncated_checkpoint_is_one_line(place: Path) -> None:
    file = _save_model(place)
    file.write_bytes(file.read_bytes()[:1000])
    line = _evaluate_refused(place)
    assert str(CHECKPOINT) in line
    assert "truncated" in line
    assert "dvc repro train" in line


def test_a_checkpoint_of_another_architecture_is_one_line(place: Path) -> None:
    file, wide = _save_model(place), place / "wide"
    wide.mkdir()
    other = _save_model(wide, width=16)
    content, foreign = file.read_bytes(), other.read_bytes()
    length, foreign_length = (int.from_bytes(data[:8], "little") for data in (content, foreign))
    # the header of one over the weights of the other, and as many bytes as it asks for
    file.write_bytes(foreign[: 8 + foreign_length] + content[8 + length :])
    line = _evaluate_refused(place)
    assert str(CHECKPOINT) in line
    assert "dvc repro train" in line


def test_a_checkpoint_for_grids_of_another_size_is_one_line(place: Path) -> None:
    _save_model(place, size=16, latent_dim=64)
    write_history((place / CHECKPOINT).parent, [{"loss": 1.0}])
    (place / "results/arc_grids").mkdir(parents=True)
    (place / "results/arc_grids/data.json").write_text('{"data_entropy_bound_nats": 20.0}')
    done = _run(place, "evaluate")
    assert done.returncode == 2, done.stderr
    line = _line(done.stderr)
    assert "8x8" in line
    assert "16x16" in line


def test_no_evaluation_is_one_line_for_the_gallery(place: Path) -> None:
    line = _refused(place, "failure_gallery")
    assert "evidence.npz is missing" in line
    assert "dvc repro evaluate" in line


# -- places that cannot be written


def test_a_file_in_the_folders_place_is_one_line(place: Path) -> None:
    (place / "data/checkpoints").write_text("in the way")
    line = _refused(place, "train")
    assert "data/checkpoints" in line
    assert "choose another path" in line


def test_an_unwritable_folder_is_one_line(place: Path) -> None:
    locked = place / "locked"
    locked.mkdir(mode=0o500)
    if os.access(locked, os.W_OK):  # root writes everywhere, but not on a read-only mount
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", str(locked)], capture_output=True
        )
        if mounted.returncode:
            pytest.skip("this user writes everywhere and may not mount anything")
    try:
        line = _refused(place, "train", "--output", "locked/checkpoint")
    finally:
        subprocess.run(["umount", str(locked)], capture_output=True)
    assert "locked" in line
    assert "writ" in line


@pytest.fixture(params=["data/checkpoints", "data/.making"])
def full_disk(place: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A disk too small for what training writes there: its results, or its state."""
    disk = place / request.param
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("only root can mount a small disk; the file size limit is tested beside this")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_is_one_line_and_leaves_no_half_file(place: Path, full_disk: Path) -> None:
    line = _refused(place, "train", "--prior-components", "2000")
    assert str(full_disk.relative_to(place)) in line
    assert "space" in line
    assert [path.name for path in full_disk.rglob("*.part*")] == []


def test_a_file_size_limit_is_one_line_and_leaves_no_half_file(place: Path) -> None:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    done = _run(place, "train", prepare=limit)
    assert done.returncode == 2, done.stderr
    assert "too large" in _line(done.stderr).lower()
    assert _leftovers(place) == []
    assert not (place / CHECKPOINT).exists()


# -- Ctrl-C and kill -9


def _start(place: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        _command("train"),
        cwd=place,
        env=_environment(place),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _wait_for_epochs(place: Path, process: subprocess.Popen[str], epochs: int) -> None:
    """Until that many states were saved: the process is then in the epoch after them."""
    seen: set[int] = set()
    deadline = time.monotonic() + TIMEOUT
    while len(seen) < epochs and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1]
        for state in (place / "data/.making").glob("*/state.pt"):
            seen.add(state.stat().st_mtime_ns)
        time.sleep(0.005)
    assert len(seen) >= epochs
    time.sleep(0.1)


LONG = {"epochs": 12, "samples_per_epoch": 640, "beta_max": 0.5}


def _results(place: Path) -> dict[str, str]:
    folders = [place / "plots", place / "metrics", place / CHECKPOINT]
    files = [path for folder in folders for path in ([folder] if folder.is_file() else [])]
    files += [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(place)): sha256(path) for path in files}


def test_ctrl_c_in_training_is_one_line_and_the_same_command_goes_on(
    place: Path, tmp_path: Path
) -> None:
    tiny.write_params(place, **LONG)
    process = _start(place)
    _wait_for_epochs(place, process, 2)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130, stderr
    assert "interrupted" in _line(stderr)
    assert _leftovers(place) == []
    assert not (place / CHECKPOINT).exists()
    (state,) = (place / "data/.making").glob("*/state.pt")
    assert state.stat().st_size > 0
    done = _run(place, "train")
    assert done.returncode == 0, done.stderr
    assert "best epoch" in done.stdout


def test_a_run_killed_in_an_epoch_ends_where_an_uninterrupted_one_ends(
    place: Path, tmp_path: Path
) -> None:
    straight = tmp_path / "straight"
    (straight / DATA).mkdir(parents=True)
    tiny.write_dataset(straight / DATA)
    for folder in (place, straight):
        tiny.write_params(folder, **LONG)
    assert _run(straight, "train").returncode == 0
    process = _start(place)
    _wait_for_epochs(place, process, 3)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (place / CHECKPOINT).exists()
    done = _run(place, "train")
    assert done.returncode == 0, done.stderr
    expected = _results(straight)
    assert str(CHECKPOINT) in expected
    assert "results/arc_grids/training.json" in expected
    assert _results(place) == expected


def test_a_spoilt_state_is_one_line_with_the_cure(place: Path) -> None:
    tiny.write_params(place, **LONG)
    process = _start(place)
    _wait_for_epochs(place, process, 1)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    (state,) = (place / "data/.making").glob("*/state.pt")
    state.write_bytes(state.read_bytes()[:1000])
    line = _refused(place, "train")
    assert f"start afresh with: rm -r {state.parent.relative_to(place)}" in line

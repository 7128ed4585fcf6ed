"""Files are read again as soon as they change, and each reader names its faulty or missing file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from genlab.core.errors import GenlabError
from genlab.web import bars, browse, curves, evidence, explorer, galleries, steps
from genlab.web.components.files import Missing, json_at
from genlab.web.pipeline import read_pipeline
from genlab.web.results import read_results

NAME = "arc_grids"
GRIDS = np.zeros((4, 8, 8), np.uint8)


def explore(root: Path) -> object:
    folder = root / "data/checkpoints" / NAME
    return explorer.open_explorer(folder, GRIDS, folder)


def plan(root: Path) -> object:
    done = read_pipeline(root, [NAME], {})
    found = read_results(root, NAME)
    passed = {**found.verdict, "passed": True}
    return steps.next_step(root, done, [type(found)(NAME, found.metrics, passed, {})], [])


READERS: dict[str, Callable[[Path], object]] = {
    "dvc.yaml": lambda root: read_pipeline(root, [NAME], None),
    "experiments.yaml": plan,
    f"results/{NAME}/metrics.json": lambda root: read_results(root, NAME),
    f"results/{NAME}/verdict.json": lambda root: read_results(root, NAME),
    f"results/{NAME}/failures.json": lambda root: galleries.gallery(root, NAME, "samples"),
    "results/benchmarks.json": lambda root: bars.targets(root, NAME),
    f"plots/{NAME}/training/plots/metrics/loss.tsv": lambda root: curves.runs(root, NAME),
    f"data/{NAME}/objects.npz": lambda root: browse.grids_of(root / "data" / NAME, "train"),
    f"data/evaluated/{NAME}/evidence.npz": lambda root: evidence.evidence(root, NAME),
    f"data/checkpoints/{NAME}/model.safetensors": explore,
}


@pytest.fixture(params=READERS)
def file(request: pytest.FixtureRequest, project: Path) -> Iterator[Path]:
    """A file of the project, put back after the test."""
    path = project / str(request.param)
    whole = path.read_bytes()
    yield path
    path.write_bytes(whole)


@pytest.mark.parametrize("content", [b"[\n1]", b"\xff\xfe{", b"a: {\nb", None])
def test_a_faulty_file_is_one_line_that_names_it(
    project: Path, file: Path, content: bytes | None
) -> None:
    read = READERS[file.relative_to(project).as_posix()]
    read(project)
    file.write_bytes(file.read_bytes()[:99] if content is None else content)
    for _ in range(2):  # an error is not remembered, nor is what was read before
        with pytest.raises(GenlabError) as error:
            read(project)
        assert not isinstance(error.value, Missing)
        assert file.name in str(error.value)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", [name for name in READERS if name != "experiments.yaml"])
def test_a_missing_file_says_which_command_makes_it(tmp_path: Path, name: str) -> None:
    with pytest.raises(GenlabError, match=r"dvc repro|make repro|make bench|git checkout"):
        READERS[name](tmp_path)


def test_another_file_of_the_same_size_and_time_is_read_again(tmp_path: Path) -> None:
    """What a checkout of an older version may look like."""
    file, other = tmp_path / "a.json", tmp_path / "b.json"
    file.write_text("[1]")
    other.write_text("[2]")
    assert json_at(file, producer_command="x") == [1]
    before = file.stat()
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(file)
    assert json_at(file, producer_command="x") == [2]

"""Files are read again as soon as they change, and each reader names its faulty or missing file."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from genlab.core.errors import GenlabError
from genlab.web import explorer, items
from genlab.web.files import open_json
from genlab.web.pages import evaluation, failures, training

NAME = "arc_grids"
CHECKPOINT = f"data/checkpoints/{NAME}/model.safetensors"
COMMANDS = "dvc repro|make repro|make bench|git checkout"
FOREIGN = (b"[\n1]", b"{}", b'{"rows": 3, "tests": [{}]}', b"\xff\xfe{", b"a: {\nb", None)


READERS: dict[str, Callable[[Path], object]] = {
    f"results/{NAME}/metrics.json": lambda root: evaluation.read_key_numbers(root, NAME),
    f"results/{NAME}/verdict.json": lambda root: evaluation.read_verdict(root, NAME),
    f"results/{NAME}/diagnosis.json": lambda root: evaluation.read_verdict(root, NAME),
    f"results/{NAME}/failures.json": lambda root: failures.read_failures(root, NAME, "samples"),
    "results/benchmarks.json": lambda root: evaluation.compare_targets(root, NAME),
    f"plots/{NAME}/training/plots/metrics/loss.tsv": lambda root: training.read_runs(root, NAME),
    f"data/{NAME}/objects.npz": lambda root: items.load_items(root / "data" / NAME, "train"),
    f"data/evaluated/{NAME}/evidence.npz": lambda root: items.read_evidence(root, NAME),
    CHECKPOINT: lambda root: explorer.open_explorer(root / CHECKPOINT, root / "data" / NAME),
}


@pytest.fixture(params=READERS)
def file(request: pytest.FixtureRequest, project: Path) -> Iterator[Path]:
    """A file of the project, put back after the test."""
    path = project / str(request.param)
    content = path.read_bytes()
    yield path
    path.write_bytes(content)


@pytest.mark.parametrize("content", FOREIGN)
def test_a_faulty_file_is_named(project: Path, file: Path, content: bytes | None) -> None:
    if content in FOREIGN[1:3] and file.name == "benchmarks.json":
        pytest.skip("valid: nothing was measured")
    read = READERS[file.relative_to(project).as_posix()]
    read(project)
    file.write_bytes(file.read_bytes()[:99] if content is None else content)
    for _ in range(2):  # an error is not remembered, nor is what was read before
        with pytest.raises(GenlabError) as error:
            read(project)
        line = str(error.value)
        assert file.name in line
        assert re.search(COMMANDS, line) or file.suffix not in (".json", ".tsv"), line
        assert "not there" not in line
        assert "\n" not in line


@pytest.mark.parametrize("name", READERS)
def test_a_missing_file_says_which_command_makes_it(tmp_path: Path, name: str) -> None:
    with pytest.raises(GenlabError, match=COMMANDS):
        READERS[name](tmp_path)


def test_another_file_of_the_same_size_and_time_is_read_again(tmp_path: Path) -> None:
    """A checkout of an older version may leave such a file."""
    file = tmp_path / "a.json"
    replacement = tmp_path / "b.json"
    file.write_text("[1]")
    replacement.write_text("[2]")
    with open_json(file) as content:
        assert content == [1]
    before = file.stat()
    os.utime(replacement, ns=(before.st_atime_ns, before.st_mtime_ns))
    replacement.replace(file)
    with open_json(file) as content:
        assert content == [2]

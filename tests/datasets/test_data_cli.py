"""The command `genlab data`."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tiny
from PIL import Image
from typer.main import get_command
from typer.testing import CliRunner

from genlab.core.params import load_params
from genlab.core.params.sections import SourceParams
from genlab.data_cli import app


def write(folder: Path, count: int = 60) -> Path:
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


def test_check_says_what_was_understood_and_draws_a_sheet(tmp_path: Path) -> None:
    folder = write(tmp_path / "pets")
    arguments = ["check", str(folder), "--sheet", str(tmp_path / "sheet.png")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "120 pictures" in done.output
    assert "cat (60), dog (60)" in done.output
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.size == (12 * 66 + 2, 2 * 66 + 2)


def test_check_prints_json_alone_for_programs(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(write(tmp_path / "pets")), "--json"])
    facts = json.loads(done.stdout)
    assert facts["classes"] == {"cat": 60, "dog": 60}
    assert (facts["size"], facts["channels"], facts["count"]) == (16, 3, 120)


def test_what_is_in_doubt_can_be_stated(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 4096, (120, 16, 16)).astype(np.uint16)
    np.savez(tmp_path / "scans.npz", a=rows, b=np.arange(120) % 3)
    stated = ["--range", "0", "4095", "--arrays", "a", "b", "--json"]
    done = CliRunner().invoke(app, ["check", str(tmp_path), *stated])
    facts = json.loads(done.stdout)
    assert (facts["values"], len(facts["classes"])) == ("0 to 4095, as stated", 3)
    done = CliRunner().invoke(app, ["check", str(tmp_path), *stated[3:]])
    assert getattr(done.exception, "key", None) == "source.range"


def test_each_key_of_a_source_is_an_option(project: Path) -> None:
    (command,) = (c for c in get_command(app).commands.values() if c.name == "add")  # type: ignore[attr-defined]
    options = {name for option in command.params for name in option.opts}
    keys = SourceParams.model_fields.keys() - {"path", "table"}
    assert {f"--{key.replace('_', '-')}" for key in keys} <= options
    folder = write(project / "pets")
    names = sorted(str(file.relative_to(folder)) for file in folder.rglob("*.png"))
    rows = [f"{name};{number % 3}" for number, name in enumerate(names)]
    (folder / "kinds.txt").write_text("\n".join(["file;kind", *rows]))
    table = ["--table-file", "kinds.txt", "--table-separator", ";"]
    stated = [*table, "--table-columns", "file", "kind", "--val-share", "0.2"]
    done = CliRunner().invoke(app, ["add", "pets", str(folder), *stated])
    assert "0 (40), 1 (40), 2 (40)" in done.output, done.exception
    source = load_params().dataset("pets").source
    assert source
    assert source.val_share == 0.2
    assert source.table
    assert source.table.columns == ("file", "kind")


def test_a_wrong_option_names_it(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(tmp_path), "--fit", "squash"])
    assert getattr(done.exception, "key", None) == "fit"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the committed params.yaml."""
    shutil.copy(tiny.PARAMS_FILE, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_add_writes_a_section_and_keeps_every_comment(project: Path) -> None:
    before = Path("params.yaml").read_text()
    arguments = ["add", "my_pets", str(write(project / "pets")), "--fit", "pad"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    for words in ("120 pictures", "minutes here", "next: dvc repro"):
        assert words in done.output
    after = Path("params.yaml").read_text()
    changed = [line for line in before.splitlines() if line not in after.splitlines()]
    assert len(changed) == 1
    assert changed[0].startswith("datasets: [")
    params = load_params()
    assert params.datasets == ["my_pets"]
    dataset = params.dataset("my_pets")
    assert (dataset.side, dataset.source and dataset.source.fit) == (16, "pad")
    assert params.for_dataset("my_pets").latent_dim == 8 * (16 // 2) ** 2
    assert json.loads(Path("results/own.json").read_text()) == {"own": ["my_pets"]}
    assert CliRunner().invoke(app, arguments).exit_code == 0  # again, with other options perhaps


@pytest.mark.parametrize(
    ("name", "key"), [("mnist", "mnist"), ("lr", "lr"), ("My-Pets", "My-Pets")]
)
def test_a_name_that_is_taken_or_not_allowed_changes_nothing(
    project: Path, name: str, key: str
) -> None:
    before = Path("params.yaml").read_text()
    done = CliRunner().invoke(app, ["add", name, str(write(project / "pets"))])
    assert getattr(done.exception, "key", None) == key
    assert Path("params.yaml").read_text() == before
    assert not Path("results/own.json").exists()


def test_too_few_pictures_are_described_before_they_are_refused(project: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(write(project / "pets", 5))])
    assert "10 pictures" in done.output
    assert "at least 100" in str(done.exception)

"""The command `genlab data`."""

import json
from pathlib import Path

import numpy as np
from PIL import Image
from typer.testing import CliRunner

from genlab.datasets.cli import app


def write(folder: Path, count: int = 3) -> Path:
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
    assert "6 pictures" in done.output
    assert "cat (3), dog (3)" in done.output
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.size == (3 * 66 + 2, 2 * 66 + 2)


def test_check_prints_json_alone_for_programs(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(write(tmp_path / "pets")), "--json"])
    facts = json.loads(done.stdout)
    assert facts["classes"] == {"cat": 3, "dog": 3}
    assert (facts["size"], facts["channels"], facts["count"]) == (16, 3, 6)


def test_what_is_in_doubt_can_be_stated(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 4096, (9, 16, 16)).astype(np.uint16)
    np.savez(tmp_path / "scans.npz", a=rows, b=np.arange(9) % 3)
    stated = ["--range", "0", "4095", "--arrays", "a", "b", "--json"]
    done = CliRunner().invoke(app, ["check", str(tmp_path), *stated])
    facts = json.loads(done.stdout)
    assert (facts["values"], len(facts["classes"])) == ("0 to 4095, as stated", 3)
    done = CliRunner().invoke(app, ["check", str(tmp_path), *stated[3:]])
    assert getattr(done.exception, "key", None) == "source.range"


def test_a_wrong_option_names_it(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(tmp_path), "--fit", "squash"])
    assert getattr(done.exception, "key", None) == "fit"

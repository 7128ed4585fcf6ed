"""The comparison of two clones: what is equal, what is an exception, and what is refused."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from clones import run_in
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from genlab.core.errors import GenlabError
from scripts import verify_repro

PROVENANCE = "data/checkpoints/grids/provenance.json"
TIMING = "data/checkpoints/grids/timing/plots/metrics/samples_per_second.tsv"
PAGE = "data/benchmark/report.html"
FACTS = {"commit": "0a" * 20, "params": "b1" * 32, "cores": 2, "training_seconds": 29.2}
REPORT = "run 2026-01-02, started 2026-01-02 03:04 UTC<tr><td>0.53</td><td>1.5</td></tr>"
Pair = tuple[Path, Path]


def _write(clone: Path, name: str, content: str) -> None:
    (clone / name).parent.mkdir(parents=True, exist_ok=True)
    (clone / name).write_text(content)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A committed result that no stage wrote, one that stages removed, and written files."""
    first = tmp_path_factory.mktemp("clone")
    _write(first, ".gitignore", "/data/\n")
    _write(first, "results/committed.json", "1")
    _write(first, "results/grids.json", "committed")
    _write(first, "results/removed.json", "committed")
    for command in (["init", "-q", "--template="], ["add", "-A"], ["commit", "-q", "-m", "one"]):
        run_in(first, "git", *command)
    (first / "results/removed.json").unlink()
    _write(first, "results/grids.json", "written")
    _write(first, "data/grids/grids.npz", "grids")  # git ignores it
    _write(first, PROVENANCE, json.dumps(FACTS))
    _write(first, TIMING, "step\tsamples_per_second\n1\t968.4798\n")
    _write(first, PAGE, REPORT)
    return first


@pytest.fixture
def pair(clone: Path, tmp_path: Path) -> Pair:
    """Two equal copies of the clone."""
    first = shutil.copytree(clone, tmp_path / "first")
    second = shutil.copytree(clone, tmp_path / "deeper" / "second")
    return first, second


def test_equal_clones_pass_and_only_written_files_count(
    pair: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify_repro.compare_clones(*pair)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["files", "compared", "5"],
        ["equal", "5"],
        ["exception", "0"],
        ["different", "0"],
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (PROVENANCE, json.dumps(FACTS | {"commit": "2c" * 20, "training_seconds": 0.125})),
        (TIMING, "step\tsamples_per_second\n1\t1012.5\n"),
        (PAGE, REPORT.replace("03:04", "15:26").replace("1.5", "0.1")),
    ],
)
def test_what_an_exception_names_may_differ(
    pair: Pair, capsys: pytest.CaptureFixture[str], name: str, content: str
) -> None:
    _write(pair[1], name, content)
    assert verify_repro.compare_clones(*pair)
    out = capsys.readouterr().out
    assert f"exception: {name}: " in out
    assert out.split()[-6:] == ["equal", "4", "exception", "1", "different", "0"]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("data/grids/grids.npz", "other", "content"),
        ("results/grids.json", "other", "content"),
        ("results/committed.json", "2", "content"),
        (PROVENANCE, json.dumps(FACTS | {"cores": 4}), "beyond its exception: commit"),
        (PROVENANCE, json.dumps(FACTS | {"training_seconds": None}), "beyond its exception: "),
        (TIMING, "step\tsamples_per_second\n2\t968.4798\n", "beyond its exception: items"),
        (TIMING, "step\tsamples_per_second\n", "beyond its exception: items"),
        (PAGE, REPORT.replace("0.53", "0.54"), "beyond its exception: date"),
    ],
)
def test_any_other_difference_is_listed_by_path(
    pair: Pair, capsys: pytest.CaptureFixture[str], name: str, content: str, why: str
) -> None:
    _write(pair[1], name, content)
    assert not verify_repro.compare_clones(*pair)
    out = capsys.readouterr().out
    assert f"different: {name}: {why}" in out
    assert out.split()[-2:] == ["different", "1"]


def test_figures_may_differ_in_metadata_and_not_in_pixels(pair: Pair) -> None:
    name = "plots/figure.png"
    figure = Image.new("RGB", (3, 2), "white")
    text = PngInfo()
    text.add_text("Source", "python stages/evaluate.py")
    for clone in pair:
        (clone / "plots").mkdir()
    figure.save(pair[0] / name, pnginfo=text)
    figure.save(pair[1] / name)
    same = verify_repro.compare_file(*pair, name)
    assert same == ("exception", "metadata of the figure")
    figure.putpixel((2, 1), (255, 255, 254))
    figure.save(pair[1] / name)
    assert verify_repro.compare_file(*pair, name) == ("different", "content")
    (pair[1] / name).write_bytes((pair[0] / name).read_bytes()[:50])  # truncated
    assert verify_repro.compare_file(*pair, name) == ("different", "content")


@pytest.mark.parametrize("missing", [0, 1])
@pytest.mark.parametrize("name", ["data/grids/grids.npz", "results/committed.json"])
def test_a_file_of_one_clone_alone_is_missing_in_the_other(
    pair: Pair, capsys: pytest.CaptureFixture[str], name: str, missing: int
) -> None:
    (pair[missing] / name).unlink()
    assert not verify_repro.compare_clones(*pair)
    assert f"different: {name}: missing in {pair[missing]}\n" in capsys.readouterr().out


@pytest.mark.parametrize("prepare", [Path.mkdir, lambda _: None], ids=["empty", "absent"])
def test_a_folder_without_written_files_is_refused(
    pair: Pair, tmp_path: Path, prepare: Callable[[Path], None]
) -> None:
    prepare(tmp_path / "other")
    with pytest.raises(GenlabError, match="other: no stage has written a file there; run: make"):
        verify_repro.compare_clones(pair[0], tmp_path / "other")


def test_the_exit_code_is_1_where_a_file_differs(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["verify_repro", "--compare", *map(str, pair)])
    with pytest.raises(SystemExit) as stop:
        verify_repro.main()
    assert stop.value.code == 0
    _write(pair[1], "results/grids.json", "other")
    with pytest.raises(SystemExit) as stop:
        verify_repro.main()
    assert stop.value.code == 1

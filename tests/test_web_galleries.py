"""Failures with their evidence; opinions that are kept, whoever writes at the same time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from genlab.core.artifacts import write_json
from genlab.core.console import GenlabError
from genlab.web import galleries, opinions
from genlab.web.files import Missing

WORD = {"dataset": "d", "sort": "samples", "subject": "s", "hypothesis": "h"}


@pytest.mark.parametrize("sort", galleries.SORTS)
def test_the_committed_gallery_is_shown(root: Path, sort: str) -> None:
    found = galleries.gallery(root, "arc_grids", sort)
    assert len(found.failures) >= 10
    assert sum(found.hypotheses.values()) == len(found.failures)
    assert len({failure.subject for failure in found.failures}) == len(found.failures)
    for name, count in found.hypotheses.items():
        assert len(found.of([name])) == count
    assert found.of([]) == found.failures
    table = galleries.tests_table(found, "tests")
    assert table.count("<tr>") == 1 + len(found.tests)
    assert galleries.card(found.failures[0]).count("<img") == len(found.failures[0].shown)


def test_without_the_stage_it_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(Missing, match="failure_gallery"):
        galleries.gallery(tmp_path, "arc_grids", "samples")
    write_json(tmp_path / "metrics/arc_grids/failures.json", {"items": [{}], "tests": []})
    with pytest.raises(GenlabError, match="make it again"):
        galleries.gallery(tmp_path, "arc_grids", "reconstructions")


def test_the_last_word_of_each_person_holds(tmp_path: Path) -> None:
    file = tmp_path / "runs/opinions.jsonl"
    assert opinions.tally(file, "s", "h") == (0, 0)
    opinions.give(file, **WORD, rater="Ada", agrees=True)
    opinions.give(file, **WORD, rater="Bob", agrees=True)
    opinions.give(file, **WORD, rater="Ada", agrees=False)
    assert opinions.tally(file, "s", "h") == (1, 1)
    assert opinions.tally(file, "other", "h") == (0, 0)
    opinions.give(file, **WORD, rater="Ada", agrees=None)
    assert opinions.tally(file, "s", "h") == (1, 0)
    assert len(file.read_text().splitlines()) == 4


def test_a_torn_line_costs_nothing_but_itself(tmp_path: Path) -> None:
    file = tmp_path / "opinions.jsonl"
    opinions.give(file, **WORD, rater="Ada", agrees=True)
    with file.open("a") as out:
        out.write('{"dataset": "d", "sor')
    opinions.give(file, **WORD, rater="Bob", agrees=False)
    assert opinions.tally(file, "s", "h") == (1, 1)


def test_a_name_is_one_clean_line() -> None:
    assert opinions.clean("  Ada \n Lovelace\x00\u202e ") == "Ada Lovelace"
    assert opinions.clean("\x07") == opinions.ANONYMOUS
    assert len(opinions.clean("x" * 10_000)) == opinions.LONGEST_NAME
    assert opinions.clean("<script>") == "<script>"  # escaped where it is shown


def test_writers_in_several_processes_lose_nothing(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "opinions.jsonl"
    code = (
        "import sys; from pathlib import Path; from genlab.web import opinions\n"
        "for i in range(20):\n"
        "    opinions.give(Path(sys.argv[1]), dataset='d', sort='samples', subject=str(i),"
        " hypothesis='h', rater=sys.argv[2], agrees=True)\n"
    )
    environment = {"PYTHONPATH": str(root / "src"), "PATH": "/usr/bin:/bin"}
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(file), name], env=environment)
        for name in ("Ada", "Bob")
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(lines) == 40
    assert len(opinions.standing(file)) == 40


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(GenlabError, match="not stored"):
        opinions.give(tmp_path / "runs/opinions.jsonl", **WORD, rater="Ada", agrees=True)

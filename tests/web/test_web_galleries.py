"""Failures with their evidence, and what people say to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from genlab.benchmark.store.repository import Store
from genlab.core.errors import GenlabError
from genlab.core.io import write_json
from genlab.web import galleries, opinions
from genlab.web.files import Missing


def test_without_the_stage_it_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(Missing, match="failure_gallery"):
        galleries.gallery(tmp_path, "arc_grids", "samples")
    write_json(tmp_path / "results/arc_grids/failures.json", {"items": [{}], "tests": []})
    with pytest.raises(GenlabError, match="make it again"):
        galleries.gallery(tmp_path, "arc_grids", "reconstructions")


def test_peoples_words_are_counted_by_subject_and_hypothesis(tmp_path: Path) -> None:
    subject = "ab" * 32
    with Store(tmp_path / "genlab.sqlite3") as store:
        for rater, agrees in (("Ada", True), ("Bob", False), ("Eve", True)):
            store.opine("d", "vae_sample", subject, "h", rater, agrees)
        said = opinions.read(store, "d")
        assert opinions.read(store, "other").agrees == {}
    assert said.tally(subject, "h") == (2, 1)
    assert said.tally(subject, "other") == (0, 0)
    assert said.of(subject, "h", "Bob") is False
    assert said.of(subject, "h", "Joe") is None

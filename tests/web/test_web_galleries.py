"""What people say of a failure's explanation, counted."""

from __future__ import annotations

from pathlib import Path

from genlab.benchmark.store.repository import Store
from genlab.web import opinions


def test_opinions_are_counted_by_subject_and_hypothesis(tmp_path: Path) -> None:
    subject = "ab" * 32
    with Store(tmp_path / "genlab.sqlite3") as store:
        for rater, agrees in (("Ada", True), ("Bob", False), ("Eve", True)):
            store.opine("d", "vae_sample", subject, "h", rater, agrees)
        found = opinions.read(store, "d")
        assert opinions.read(store, "other").agrees == {}
    assert found.tally(subject, "h") == (2, 1)
    assert found.tally(subject, "other") == (0, 0)
    assert found.of(subject, "h", "Bob") is False
    assert found.of(subject, "h", "Joe") is None

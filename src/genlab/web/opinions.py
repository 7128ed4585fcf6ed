"""What people say to the explanations of failures, as the page shows and takes it."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import MAX_RATER

ANONYMOUS = "anonymous"
KINDS = {"reconstructions": "reconstruction", "samples": "vae_sample"}
"""Sorts of failures, and what the store calls a subject of each."""


@dataclass(frozen=True)
class Opinions:
    """Who agrees, by subject, hypothesis and rater."""

    agrees: Mapping[tuple[str, str, str], bool]

    def of(self, subject: str, hypothesis: str, rater: str) -> bool | None:
        """One person's word; None where nothing was said."""
        return self.agrees.get((subject, hypothesis, rater))

    def tally(self, subject: str, hypothesis: str) -> tuple[int, int]:
        """How many people agree, and how many don't."""
        said = [word for key, word in self.agrees.items() if key[:2] == (subject, hypothesis)]
        return said.count(True), said.count(False)


def read(store: Store, dataset: str) -> Opinions:
    """All that was said about failures of a dataset."""
    return Opinions(
        {
            (one.subject_hash, one.hypothesis, one.rater): one.agrees
            for one in store.opinions(dataset)
        }
    )


def clean(name: str) -> str:
    """A name as it is stored: one line, no control characters, not too long, never empty."""
    kept = "".join(c for c in name if unicodedata.category(c)[0] != "C" or c == " ")
    return " ".join(kept.split())[:MAX_RATER] or ANONYMOUS

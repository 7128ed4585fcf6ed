"""Export and import preferences between two images as CSV, in the columns of arena-rank.

A row names the two contenders (`model_a`, `model_b`) and the `winner`: `model_a`, `model_b`, `tie`
or `both_bad`. arena-rank takes every other word for a tie; here it is refused. The import also
needs the other columns: who voted, on which images (by their SHA-256), and when.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from genlab.benchmark.exchange.rows import Row, parse_time, read_rows
from genlab.benchmark.store.answers import SWAPPED, order_pair
from genlab.benchmark.store.items import ItemResult
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Outcome, Preference
from genlab.core.errors import GenlabError
from genlab.core.io import write_text

WINNERS: dict[str, Outcome] = {
    "model_a": "first",
    "model_b": "second",
    "tie": "tie",
    "both_bad": "both_bad",
}
COLUMNS = (
    *("model_a", "model_b", "winner", "rater", "case_id", "image_a", "image_b", "session", "rated"),
)
EXPORT = """
    SELECT a.contender AS model_a, b.contender AS model_b, outcome AS winner, rater, a.case_id,
        a.image_sha256 AS image_a, b.image_sha256 AS image_b, session, rated
    FROM preferences
    JOIN run_items a ON a.item_id = first_item
    JOIN run_items b ON b.item_id = second_item
    WHERE image_a <> '' AND image_b <> ''
"""


def export_votes(store: Store, path: Path) -> int:
    """Write all preferences as CSV; returns their number.

    The two contenders of a row are sorted, so that every store writes the same rows.
    """
    votes = store.table(EXPORT)
    swapped = votes.model_a + votes.image_a > votes.model_b + votes.image_b
    for name in ("model", "image"):
        pair = [f"{name}_a", f"{name}_b"]
        votes.loc[swapped, pair] = votes.loc[swapped, pair[::-1]].to_numpy()
    votes.loc[swapped, "winner"] = votes.winner[swapped].replace(dict(SWAPPED))
    votes["winner"] = votes.winner.replace({outcome: word for word, outcome in WINNERS.items()})
    votes = votes[[*COLUMNS]].sort_values([*COLUMNS[3:], *COLUMNS[:3]], kind="stable")
    write_text(path, votes.to_csv(index=False, lineterminator="\n"))
    return len(votes)


def import_votes(store: Store, path: Path) -> tuple[int, int]:
    """Add the preferences of a CSV file, all or none. Newer preferences of this store stay.

    Returns how many changed anything, and how many are left out because no run of this store has
    their images. Raises a `GenlabError` that names the line of the first fault.
    """
    votes = _Votes(store, path)
    changed = store.add(Preference, votes.read(), path)
    return changed, votes.left_out


class _Votes:
    """Reader of the votes of a file, which finds their items in a store."""

    def __init__(self, store: Store, path: Path) -> None:
        self.path = path
        self.left_out = 0
        self.items: dict[tuple[str, str], list[ItemResult]] = {}
        for item in store.items():
            self.items.setdefault((item.contender, item.image_sha256), []).append(item)
        votes = store.find(Preference)
        self.answered = {(vote.rater, vote.first_item, vote.second_item) for vote in votes}

    def read(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the place of each vote in the file, and its columns."""
        for place, row in read_rows(self.path, COLUMNS):
            if row["winner"] not in WINNERS:
                words = ", ".join(WINNERS)
                fault = f"winner must be one of {words}, got {row['winner']!r}"
                raise GenlabError(f"{place}: {fault}", key="winner", path=self.path)
            rated = parse_time(place, row["rated"], self.path)
            values = {"rater": row["rater"], "session": row["session"], "rated": rated}
            pair = self._find_pair(row)
            if pair is None:
                self.left_out += 1
            else:
                yield place, {**values, **pair}

    def _find_pair(self, row: Row) -> dict[str, Any] | None:
        """Find two items of a case that have these images.

        A pair that the rater has answered before is preferred, then one of the same run, then the
        oldest.
        """
        outcome = WINNERS[row["winner"]]
        first_items = self.items.get((row["model_a"], row["image_a"]), ())
        second_items = self.items.get((row["model_b"], row["image_b"]), ())
        pairs = []
        for first, second in product(first_items, second_items):
            if first.case_id != second.case_id or first.item_id == second.item_id:
                continue
            pair = order_pair(first.item_id, second.item_id, outcome)
            numbers = (pair["first_item"], pair["second_item"])
            is_new = (row["rater"], *numbers) not in self.answered
            pairs.append((is_new, first.run_id != second.run_id, numbers, pair))
        if not pairs:
            return None
        *_, pair = min(pairs, key=lambda entry: entry[:3])
        return pair

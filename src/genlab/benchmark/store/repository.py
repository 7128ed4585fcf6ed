"""The store of runs, their items, and people's answers. Every call is one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from sqlalchemy import update
from sqlmodel import col

from genlab.benchmark.store.answers import Answers
from genlab.benchmark.store.items import ItemResult
from genlab.benchmark.store.schema import Contender, Run, now
from genlab.core.errors import GenlabError

STORE = "genlab.sqlite3"  # file of the store in the runs' folder

_ITEMS = ItemResult.metadata.tables["run_items"]
_FIXED = ("item_id", "run_id", "case_id", "tool_id", "contender", "repeat")
_CHANGING = [column.name for column in _ITEMS.columns if column.name not in _FIXED]


class Store(Answers):
    """Runs, their items, and people's answers. Close it, or use it as a context."""

    # runs

    def create_run(
        self,
        run_id: str,
        created: str,
        cases: Sequence[Mapping[str, Any]],
        contenders: Sequence[Contender],
        *,
        repeats: int = 1,
        max_cost: float = 0.0,
        server: bool = False,
    ) -> Run:
        """Add a run with a queued item for each case (`case_id`), contender and repeat.

        Raises a `GenlabError` if the run exists.
        """
        tools = [contender.model_dump() for contender in contenders]
        run = Run(
            run_id=run_id, created=created, cases=[*cases], tools=tools, repeats=repeats,
            max_cost=max_cost, server=server,
        )  # fmt: skip
        items = [
            ItemResult(
                run_id=run_id, case_id=case["case_id"], tool_id=contender.tool_id,
                contender=contender.contender_id, repeat=repeat, updated=created,
            )
            for case, contender, repeat in product(cases, contenders, range(1, repeats + 1))
        ]  # fmt: skip
        with self._session(write=True) as session:
            session.add(run)
            session.flush()
            session.add_all(items)
        return run

    def runs(self) -> list[Run]:
        """Return all runs, the newest first."""
        return sorted(self.find(Run), key=lambda run: (run.created, run.run_id), reverse=True)

    def run(self, run_id: str) -> Run:
        """Return a run. Raises a `GenlabError` that names the newest runs if there is none."""
        for run in self.find(Run, run_id=run_id):
            return run
        newest = ", ".join(run.run_id for run in self.runs()[:5]) or "none yet"
        raise GenlabError(
            f"{self.path}: no run is called {run_id!r}; the last ones: {newest}", key="run_id"
        )

    def case_folder(self, facts: Mapping[str, Any]) -> Path:
        """Return the folder of a run's case. facts: a case of `Run.cases`.

        A relative folder is relative to the project, which may be moved.
        """
        if "folder" not in facts:  # runs before version 0.2 have none
            raise GenlabError(f"the folder of case {facts['case_id']} is not on record")
        return self.path.resolve().parent.parent / str(facts["folder"])

    def set_run(self, run_id: str, **values: Any) -> None:
        """Update columns of a run, such as `ending`, `ended` and `max_cost`."""
        with self._session(write=True) as session:
            session.execute(update(Run).where(col(Run.run_id) == run_id).values(**values))

    # items

    def items(self, run_id: str | None = None) -> list[ItemResult]:
        """Return the items of a run (None: of all runs) in the order in which they were queued."""
        return self.find(ItemResult, run_id=run_id)

    def item(self, item_id: int) -> ItemResult:
        """Return an item. Raises a `GenlabError` if there is none."""
        fits_in_sqlite = abs(item_id) < 1 << 63
        for item in self.find(ItemResult, item_id=item_id) if fits_in_sqlite else ():
            return item
        raise GenlabError(f"{self.path}: no item has the number {item_id}", key="item_id")

    def save_items(self, items: Iterable[ItemResult]) -> None:
        """Save the current values of items in one transaction: all of them or none."""
        moment = now()
        with self._session(write=True) as session:
            for item in items:
                item.updated = moment
                values = {name: getattr(item, name) for name in _CHANGING}
                query = _ITEMS.update().where(_ITEMS.c.item_id == item.item_id).values(values)
                if session.connection().execute(query).rowcount != 1:
                    raise GenlabError(f"{self.path}: no item has the number {item.item_id}")

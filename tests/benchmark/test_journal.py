"""The journal: few transactions for many notes, and whoever notes receives the fault."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from genlab.benchmark.journal import Journal
from genlab.benchmark.store.repository import Store

PATIENCE = 10.0  # seconds


class Slow(Store):
    """A store whose disk lets a transaction through when its gate is open."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = threading.Event()

    def set_items(self, notes: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        self.batches.append(sorted(item_id for item_id, _ in notes))
        assert self.gate.wait(PATIENCE)
        if any(changes.get("fault") for _, changes in notes):
            raise OSError("disk full")


def test_notes_of_a_busy_time_go_together_and_a_fault_reaches_its_note() -> None:
    async def story() -> None:
        journal = Journal(store)
        failing = asyncio.create_task(journal.note(1, fault=True))
        while not store.batches:
            await asyncio.sleep(0.01)
        more = [asyncio.create_task(journal.note(number, status="b")) for number in (2, 3)]
        journal.mention(4, status="c")
        await asyncio.sleep(0)
        store.gate.set()
        await asyncio.wait_for(journal.settled(), PATIENCE)
        with pytest.raises(OSError, match="disk full"):
            await failing
        await asyncio.gather(*more)
        await journal.close()

    store = Slow()
    asyncio.run(asyncio.wait_for(story(), PATIENCE))
    assert store.batches == [[1], [2, 3, 4]]

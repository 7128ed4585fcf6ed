"""The journal: few transactions for many notes, and nobody waits for more than was asked."""

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
    """A store whose disk lets a transaction through when it is reported to."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gates = [threading.Event() for _ in range(4)]

    def set_items(self, notes: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        self.batches.append([item_id for item_id, _ in notes])
        assert self.gates[len(self.batches) - 1].wait(PATIENCE)
        if any(changes.get("fault") for _, changes in notes):
            raise OSError("disk full")


async def _begun(store: Slow, batches: int) -> None:
    for _ in range(int(PATIENCE * 100)):
        if len(store.batches) == batches:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{len(store.batches)} transactions, {batches} expected")


def test_notes_of_a_busy_time_go_together() -> None:
    async def story() -> None:
        journal = Journal(store)
        first = asyncio.create_task(journal.note(1, status="a"))
        await _begun(store, 1)
        more = [asyncio.create_task(journal.note(number, status="b")) for number in (2, 3)]
        journal.mention(4, status="c")
        await asyncio.sleep(0)
        store.gates[0].set()
        store.gates[1].set()
        await asyncio.gather(first, *more)
        await journal.close()

    store = Slow()
    asyncio.run(story())
    assert [sorted(batch) for batch in store.batches] == [[1], [2, 3, 4]]


def test_who_notes_hears_of_a_fault_and_who_only_waits_goes_on() -> None:
    async def story() -> None:
        journal = Journal(store)
        store.gates[0].set()
        store.gates[1].set()
        failing = asyncio.create_task(journal.note(1, fault=True))
        await asyncio.sleep(0)
        await asyncio.wait_for(journal.settled(), PATIENCE)
        with pytest.raises(OSError, match="disk full"):
            await failing
        await journal.note(2)
        await journal.close()

    store = Slow()
    asyncio.run(story())
    assert store.batches == [[1], [2]]

"""The event log of a run, which pages, WebSockets and the terminal follow at their own pace."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from genlab.benchmark.store.items import ItemResult

Event = dict[str, Any]
COLUMNS = {
    *("run_id", "case_id", "tool_id", "contender", "repeat", "status", "attempts", "seconds"),
    *("score", "score_reference", "components", "failure_kind", "failure", "cost"),
}


def describe(item: ItemResult) -> Event:
    """Return the event that describes an item's state."""
    return {
        "type": "update",
        "run_item_id": item.item_id,
        "image_url": "/runs/" + quote(item.image) if item.image else "",
        **item.model_dump(include=COLUMNS),
    }


class EventLog:
    """Events of one run, numbered by `sequence` from 1. Any thread may publish or follow.

    All listeners read one list, each from its position: no event is lost, and a slow listener costs
    no memory.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.end: Event | None = None
        self.counts: Counter[str] = Counter()  # items by status
        self._events: list[Event] = []
        self._states: dict[int, Event] = {}
        self._items: dict[int, ItemResult] = {}
        self._lock = threading.Lock()
        self._listeners: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    @property
    def items(self) -> list[ItemResult]:
        """Copies of the items, each as of its last change, in the run's order."""
        with self._lock:
            return list(self._items.values())

    def item(self, item_id: int) -> ItemResult:
        """Return a copy of an item as of its last change."""
        return self._items[item_id]

    def update(self, item: ItemResult) -> None:
        """Publish an item's state if it differs from the last one published."""
        event = describe(item)
        with self._lock:
            last = self._states.get(item.item_id, {})
            if {**last, **event} == last:
                return
            if last:
                self.counts[last["status"]] -= 1
            self.counts[item.status] += 1
            self._items[item.item_id] = ItemResult(**dict(item))
            self._states[item.item_id] = self._append(event)
        self._wake()

    def close(self, status: str, reason: str = "") -> None:
        """Publish how the run ended; listeners read the remaining events and stop."""
        end = {"type": "run", "run_id": self.run_id, "status": status, "reason": reason}
        with self._lock:
            if self.end is None:
                self.end = self._append(end)
        self._wake()

    def state(self) -> Event:
        """Return the state of every item, for a listener that joins late."""
        with self._lock:
            state = {"type": "state", "run_id": self.run_id, "sequence": len(self._events)}
            return {**state, "items": list(self._states.values()), "end": self.end}

    async def follow(self) -> AsyncIterator[Event]:
        """Yield the state of every item, then each event until the run has ended."""
        changed = asyncio.Event()
        listener = (asyncio.get_running_loop(), changed)
        self._listeners.add(listener)
        try:
            state = self.state()
            yield state
            position = state["sequence"]
            while True:
                changed.clear()
                ended = self.end is not None
                while position < len(self._events):
                    yield self._events[position]
                    position += 1
                if ended:
                    return
                await changed.wait()
        finally:
            self._listeners.discard(listener)

    def _append(self, event: Mapping[str, Any]) -> Event:
        numbered = {**event, "sequence": len(self._events) + 1}
        self._events.append(numbered)
        return numbered

    def _wake(self) -> None:
        for loop, changed in tuple(self._listeners):
            with suppress(RuntimeError):  # the listener's loop has ended
                loop.call_soon_threadsafe(changed.set)

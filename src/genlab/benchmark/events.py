"""The log of a run's events, which any number of listeners follow at their own pace."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

from genlab.benchmark.store.schema import Item

Event = dict[str, Any]
HIDDEN = {"item_id", "image", "image_sha256", "details", "updated"}


def update(item: Item) -> Event:
    """The event that describes an item's state."""
    return {
        "type": "update",
        "run_item_id": item.item_id,
        "image_url": "/runs/" + quote(item.image) if item.image else "",
        **item.model_dump(exclude=HIDDEN),
    }


class EventLog:
    """Events of one run, numbered by `sequence`; used from one event loop.

    Sequences begin at the clock's microseconds, so that those of two servers do not overlap. A
    listener holds its position in one list: none is lost, and a slow one costs no memory.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.end: Event | None = None
        self._first = time.time_ns() // 1000
        self._events: list[Event] = []
        self._items: dict[int, Event] = {}
        self._changed = asyncio.Event()

    @property
    def last(self) -> int:
        """Sequence of the last event; one less than the first where there is none."""
        return self._first + len(self._events) - 1

    def publish(self, event: Mapping[str, Any]) -> None:
        """Append an event and wake all listeners; never waits. A repeated update is dropped."""
        numbered = {**event, "sequence": self.last + 1}
        if event["type"] == "update":
            known = self._items.get(event["run_item_id"])
            if known is not None and {**known, **event} == known:
                return
            self._items[event["run_item_id"]] = numbered
        else:
            self.end = numbered
        self._events.append(numbered)
        self._changed.set()
        self._changed = asyncio.Event()

    def close(self, status: str, reason: str = "") -> None:
        """Publish how the run ended; listeners read what is left and stop."""
        if self.end is None:
            self.publish({"type": "run", "run_id": self.run_id, "status": status, "reason": reason})

    def state(self) -> Event:
        """The state of every item: for a listener that comes late."""
        state = {"type": "state", "run_id": self.run_id, "sequence": self.last}
        return {**state, "items": list(self._items.values()), "end": self.end}

    async def follow(self, after: int | None = None) -> AsyncIterator[Event]:
        """Events until the run has ended.

        With `after`, the sequence of an event of this log, those behind it; otherwise the state
        first, then each event.
        """
        if after is None or not self._first - 1 <= after <= self.last:
            state = self.state()
            after = int(state["sequence"])
            yield state
        position = after - self._first + 1
        while True:
            changed = self._changed
            while position < len(self._events):
                yield self._events[position]
                position += 1
            if self.end is not None:
                return
            await changed.wait()

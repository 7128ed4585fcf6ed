"""The log of a run's events, which any number of listeners follow at their own pace."""

import asyncio
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
    """Events of one run, numbered by `sequence` from 1; used from one event loop.

    A listener holds its position in one list: none is lost, and a slow one costs no memory.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.end: Event | None = None
        self._events: list[Event] = []
        self._items: dict[int, Event] = {}
        self._changed = asyncio.Event()

    def publish(self, event: Mapping[str, Any]) -> None:
        """Append an event and wake all listeners; never waits. A repeated update is dropped."""
        numbered = {**event, "sequence": len(self._events) + 1}
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
        state = {"type": "state", "run_id": self.run_id, "sequence": len(self._events)}
        return {**state, "items": list(self._items.values()), "end": self.end}

    async def follow(self) -> AsyncIterator[Event]:
        """The state, then each event until the run has ended."""
        position = len(self._events)
        yield self.state()
        while True:
            changed = self._changed
            while position < len(self._events):
                yield self._events[position]
                position += 1
            if self.end is not None:
                return
            await changed.wait()

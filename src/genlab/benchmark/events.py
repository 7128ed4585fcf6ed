"""What happens in a run, told to any number of listeners, none of whom can hold it up."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

from genlab.benchmark.store.repository import Item

Event = dict[str, Any]
BACKLOG = 256  # events that a listener may lag behind before it gets the state again


def update(item: Item) -> Event:
    """The event that says where an item stands."""
    return {
        "type": "update",
        "run_id": item.run_id,
        "case_id": item.case_id,
        "tool_id": item.tool_id,
        "run_item_id": item.item_id,
        "status": item.status,
        "image_url": "/runs/" + quote(item.image) if item.image else "",
        "score": item.score,
        "components": item.components,
        "failure_kind": item.failure_kind,
        "failure": item.failure,
        "cost": item.cost,
        "seconds": item.seconds,
        "attempts": item.attempts,
    }


class _Listener:
    def __init__(self) -> None:
        self.waiting: deque[Event] = deque()
        self.stale = True  # at first, and whenever it lags too far behind: send the state
        self.woken = asyncio.Event()


class Channel:
    """The events of one run: the last of each item is kept, for those who come late.

    All calls come from the loop that the run is in.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.sequence = 0
        self.closed = False
        self._state: dict[int, Event] = {}
        self._end: Event | None = None
        self._listeners: set[_Listener] = set()

    def publish(self, event: Event) -> None:
        """Tell all listeners; never waits."""
        self.sequence += 1
        event = {**event, "sequence": self.sequence}
        if event["type"] == "update":
            self._state[event["run_item_id"]] = event
        else:
            self._end = event
        for listener in self._listeners:
            if len(listener.waiting) >= BACKLOG:
                listener.waiting.clear()
                listener.stale = True
            if not listener.stale:
                listener.waiting.append(event)
            listener.woken.set()

    def close(self, status: str, reason: str = "") -> None:
        """Say how the run ended; listeners get what is left, then end."""
        self.publish({"type": "run", "run_id": self.run_id, "status": status, "reason": reason})
        self.closed = True

    async def listen(self) -> AsyncIterator[Event]:
        """The state so far, an event an item, then what happens, until the run ends."""
        listener = _Listener()
        self._listeners.add(listener)
        try:
            while True:
                if listener.stale:
                    listener.stale = False
                    listener.waiting.clear()
                    pending = list(self._state.values())
                    if self._end is not None:
                        pending.append(self._end)
                else:
                    pending = list(listener.waiting)
                    listener.waiting.clear()
                for event in pending:
                    yield event
                if listener.stale or listener.waiting:
                    continue
                if self.closed:
                    return
                listener.woken.clear()
                await listener.woken.wait()
        finally:
            self._listeners.discard(listener)

"""What happened in a run, kept in order, so that any number of clients can follow at their pace.

The runner tells a feed in one thread; clients follow in the server's loop. Each client holds no
more than its place in the one list of events, so none is lost, none overtakes another, and a slow
client costs no memory.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

Event = dict[str, Any]
BATCH = 64  # events handed on before the loop's other tasks have their turn


class Feed:
    """The events of one run.

    Each event gets a `sequence`, one more than the last one's. They begin at the clock's
    microseconds, so that a number of an earlier server can't be taken for one of this feed.
    """

    def __init__(self, run_id: str, *, batch: int = BATCH) -> None:
        self.run_id = run_id
        self.ended = False
        self._batch = batch
        self._first = time.time_ns() // 1000
        self._texts: list[str] = []
        self._items: dict[int, Event] = {}
        self._end: Event | None = None
        self._lock = threading.Lock()
        self._waiting: dict[asyncio.AbstractEventLoop, set[asyncio.Event]] = {}
        self._waking: set[asyncio.AbstractEventLoop] = set()

    @property
    def last(self) -> int:
        """The sequence of the last event; one less than the first where there is none."""
        return self._first + len(self._texts) - 1

    def add(self, event: Mapping[str, Any]) -> None:
        """Keep an event of the runner and wake all who follow; never waits. From any thread.

        An update that says what is known already is dropped.
        """
        with self._lock:
            known = self._items.get(event.get("run_item_id", 0))
            if known and all(event[key] == known[key] for key in event if key != "sequence"):
                return
            kept = {**event, "sequence": self._first + len(self._texts)}
            self._texts.append(as_text(kept))
            if kept["type"] == "update":
                self._items[kept["run_item_id"]] = kept
            else:
                self._end, self.ended = kept, True
            loops = [loop for loop in self._waiting if loop not in self._waking]
            self._waking.update(loops)
        for loop in loops:
            try:
                loop.call_soon_threadsafe(self._wake, loop)
            except RuntimeError:  # that loop has been closed, its clients with it
                self._waiting.pop(loop, None)

    def state(self) -> Event:
        """Where each item stands: for a client that comes late, or comes back to a new server."""
        with self._lock:
            items = list(self._items.values())
            state = {"type": "state", "run_id": self.run_id, "sequence": self.last}
            return {**state, "items": items, "end": self._end}

    async def follow(self, after: int | None = None) -> AsyncIterator[str]:
        """Events as JSON, until the run has ended.

        After the event with sequence `after`, each one; where `after` is None or none of this
        feed's numbers, the state so far first, then each one.
        """
        if after is None or not self._first - 1 <= after <= self.last:
            state = self.state()
            after = int(state["sequence"])
            yield as_text(state)
        place = after - self._first + 1
        woken = asyncio.Event()
        loop = asyncio.get_running_loop()
        with self._lock:
            self._waiting.setdefault(loop, set()).add(woken)
        try:
            while True:
                woken.clear()
                ended = self.ended  # asked before the list: what is added in between is seen next
                while place < len(self._texts):
                    yield self._texts[place]
                    place += 1
                    if place % self._batch == 0:
                        await asyncio.sleep(0)
                if ended:
                    return
                await woken.wait()
        finally:
            with self._lock:
                waiting = self._waiting.get(loop, set())
                waiting.discard(woken)
                if not waiting:
                    self._waiting.pop(loop, None)

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            self._waking.discard(loop)
            waiting = list(self._waiting.get(loop, ()))
        for woken in waiting:
            woken.set()


def as_text(event: Mapping[str, Any]) -> str:
    """An event as JSON; NaN and infinity are refused, since JSON has neither."""
    return json.dumps(event, allow_nan=False, ensure_ascii=False, separators=(",", ":"))

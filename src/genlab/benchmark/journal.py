"""One writer to the store for a whole run: what many tasks note becomes few transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from genlab.benchmark.store.repository import Store


class Journal:
    """Notes changes of items; a note that was awaited is on the disk.

    Notes that come in while a transaction is being synced go into the next one together, so that
    the disk's slowness is paid once a batch and not once a note.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, "journal")
        self._notes: list[tuple[int, Mapping[str, Any]]] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._writer: asyncio.Task[None] | None = None
        self._last: asyncio.Future[None] | None = None  # of what was noted last

    async def note(self, item_id: int, **changes: Any) -> None:
        """Keep changes of an item; returns when they are on the disk."""
        done = asyncio.get_running_loop().create_future()
        self._notes.append((item_id, changes))
        self._waiting.append(done)
        self._last = done
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())
        await asyncio.shield(done)

    def mention(self, item_id: int, **changes: Any) -> None:
        """Keep changes together with the next note; what happens before that may be lost."""
        self._notes.append((item_id, changes))

    async def settled(self) -> None:
        """Wait until what has been noted so far is on the disk, or could not be put there."""
        if self._last is not None:
            await asyncio.wait([self._last])

    async def close(self) -> None:
        """Wait for what was noted, then let go of the thread."""
        if self._writer is not None:
            await self._writer
        self._thread.shutdown()

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._notes:
            notes, waiting = self._notes, self._waiting
            self._notes, self._waiting = [], []
            try:
                await loop.run_in_executor(self._thread, self._store.set_items, notes)
            except Exception as error:  # whoever awaits the note has to know
                for future in waiting:
                    future.set_exception(error)
                    future.exception()  # seen, also where nobody awaits it any more
            else:
                for future in waiting:
                    future.set_result(None)

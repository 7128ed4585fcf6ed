"""Dollars of a run: reserved before a request is sent, so that the ceiling is never passed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from genlab.benchmark.plugins import ToolFailure

# Told the ceiling and what is wanted; returns the new ceiling, or None to leave it.
Ask = Callable[[float, float], "float | None"]


class Budget:
    """What a run has spent and may spend."""

    def __init__(self, ceiling: float, spent: float, ask: Ask | None = None) -> None:
        self.ceiling = ceiling
        self.spent = spent
        self._ask = ask
        self._asking = asyncio.Lock()

    async def reserve(self, cost: float) -> None:
        """Count `cost` as spent. Raises `ToolFailure` (`over_budget`) where it passes the ceiling.

        Somebody who can be asked is asked first, once at a time; after a no, never again.
        """
        async with self._asking:
            if cost > 0 and self.spent + cost > self.ceiling + 1e-9:
                await self._raise(cost)
            self.spent += cost

    def correct(self, by: float) -> None:
        """Count `by` dollars more (or less) than were reserved: what it took is known now."""
        self.spent += by

    async def _raise(self, cost: float) -> None:
        wanted = self.spent + cost
        if self._ask is not None:
            raised = await _answered(partial(self._ask, self.ceiling, wanted))
            if raised is not None and raised + 1e-9 >= wanted:
                self.ceiling = raised
                return
            self._ask = None
        raise ToolFailure(
            "over_budget",
            f"{self.spent:.2f} dollars of {self.ceiling:.2f} are spent and this image would take"
            f" about {cost:.3f} more; raise max_cost",
        )


async def _answered(ask: Callable[[], float | None]) -> float | None:
    """What `ask` returns, which may wait for a person for ever.

    In a daemon thread: the process may end while nobody has answered, which a thread of the
    loop's own executor would hold up.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[float | None] = loop.create_future()

    def give(raised: float | None, fault: BaseException | None) -> None:
        if answer.done():  # cancelled
            return
        if fault is None:
            answer.set_result(raised)
        else:
            answer.set_exception(fault)

    def wait() -> None:
        raised, fault = None, None
        try:
            raised = ask()
        except BaseException as error:  # an end of input is one, too
            fault = error
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(give, raised, fault)

    threading.Thread(target=wait, name="ask", daemon=True).start()
    return await answer

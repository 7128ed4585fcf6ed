"""Cases through tools: queue, generate, keep, score, record; cancelled, killed and gone on with.

An item is queued; its request is journaled, with its cost, before it is sent; the image is on the
disk before the store says `generated`; a score or a reason ends it. So a run that was killed knows
on its return which images arrived (they are never asked for again) and which requests were under
way (they count as paid and are sent again). Not protected: an image that was under way in the
moment of the kill, which only the service could tell us of; the runs' folder deleted by hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from genlab.benchmark.budget import Ask, Budget
from genlab.benchmark.cases import Case, load_case, require_consent
from genlab.benchmark.events import Channel, Event, update
from genlab.benchmark.gate import Limits, Sleep
from genlab.benchmark.inheritance import take_over
from genlab.benchmark.judging import spent
from genlab.benchmark.plugins import ImageTool, checked_options, chosen, load_tools, one_line
from genlab.benchmark.scoring import Scorer
from genlab.benchmark.store.repository import Item, Run, Store, now
from genlab.benchmark.work import Work
from genlab.core.errors import GenlabError

if TYPE_CHECKING:
    from genlab.benchmark.judge import Judge


class Runner:
    """Runs cases through tools. One object serves one event loop."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        *,
        concurrency: int = 4,
        scorers: int = 2,
        timeout: float = 300.0,
        retries: int = 4,
        max_cost: float = 0.0,
        ask: Ask | None = None,
        scorer: Scorer | None = None,
        sleep: Sleep = asyncio.sleep,
        tools: Mapping[str, ImageTool] | None = None,
        judge: Judge | None = None,
    ) -> None:
        """Images go to `folder`/<date>/<tool>/<case>.png.

        concurrency: images in the making at a time; scorers: processes that score; timeout:
        seconds that a tool may take; retries: tries more after a passing fault; max_cost: dollars
        a run, 0 = free tools alone; ask: is asked before the ceiling is passed (given the ceiling
        and the sum wanted, it returns a new ceiling or None); sleep: waits between tries; tools:
        where runs begun by another process find their tools, `load_tools()` if None; judge: who
        gives each scored picture stars of its own, within the same ceiling.
        """
        self.store, self.folder = store, folder
        self.max_cost, self.ask = max_cost, ask
        self.limits = Limits(concurrency, scorers, timeout, retries, sleep)
        self._scorer = scorer
        self._known = tools
        self._judge = judge
        self._cases: dict[str, list[Case]] = {}
        self._tools: dict[str, list[ImageTool]] = {}
        self._channels: dict[str, Channel] = {}
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}
        self._cancelled: set[str] = set()

    def start(
        self,
        cases: Sequence[Case],
        tools: Sequence[ImageTool],
        options: Mapping[str, Mapping[str, Any]] | None = None,
        earlier: Iterable[Item] = (),
    ) -> str:
        """Queue every case for every tool; returns the run's id, the name of its folder.

        options: what each tool is told, by tool_id; earlier: items of other runs, of these tools
        and cases, which the new ones take over from (`inheritance`). Raises a `GenlabError` where a
        case has no consent, or a tool no such option. Nothing is sent before `run`.
        """
        for case in cases:
            require_consent(case)
        for tool in tools:
            checked_options(tool, (options or {}).get(tool.tool_id, {}))
        run_id = self._new_folder()
        self.store.create_run(
            run_id,
            now(),
            {name: dict(values) for name, values in (options or {}).items()},
            [_described(case) for case in cases],
            [{"tool_id": tool.tool_id, "title": tool.title} for tool in tools],
        )
        take_over(self.store, self.folder, run_id, cases, earlier)
        self._cases[run_id], self._tools[run_id] = list(cases), list(tools)
        self._open(run_id)
        return run_id

    async def run(self, run_id: str, *, again: bool = False) -> Run:
        """Do all that is unfinished in a run, whoever began it; returns its record.

        Skipped items are tried again (a key may be there now, or more dollars); failed ones with
        `again`. Raises a `GenlabError` where another process is at it, or where a case has changed
        since the run began.
        """
        run = self.store.run(run_id)
        lock = FileLock(self.folder / run_id / ".lock")
        (self.folder / run_id).mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise GenlabError(
                f"run {run_id} is in the hands of another process; wait for it, or end it"
            ) from error
        try:
            return await self._run(run, again)
        finally:
            lock.release()

    def cancel(self, run_id: str) -> None:
        """End a run of this process: what has arrived is kept, nothing more is asked for."""
        self._cancelled.add(run_id)
        for task in self._tasks.get(run_id, ()):
            task.cancel()

    async def subscribe(self, run_id: str) -> AsyncIterator[Event]:
        """The state so far, an event an item, then what happens, until the run ends.

        Of a run that this process doesn't do, the state that the store has, and an end.
        """
        channel = self._channels.get(run_id)
        if channel is None:
            run = self.store.run(run_id)
            channel = Channel(run_id)
            self._fill(channel)
            channel.close(run.ending or "unfinished")
        async for event in channel.listen():
            yield event

    async def _run(self, run: Run, again: bool) -> Run:
        cases, tools = self._cast(run)
        channel = self._open(run.run_id)
        self.store.end_run(run.run_id, "")
        items = self.store.items(run.run_id)
        before = sum(item.cost for item in items) + spent(items)
        budget = Budget(self.max_cost, before, self.ask)
        place = self.folder / run.run_id
        scorer = self._scorer or _scorer()
        work = Work(
            self.store, place, run, cases, tools, scorer, self.limits, budget, channel, self._judge
        )
        ending, reason = "unfinished", ""
        try:
            items = await work.unfinished(self.store.items(run.run_id), again)
            if items:
                work.warm()
            tasks = [asyncio.create_task(work.item(item)) for item in items]
            self._tasks[run.run_id] = tasks
            if run.run_id in self._cancelled:  # before it began
                self.cancel(run.run_id)
            await _all(tasks)
            if run.run_id in self._cancelled:
                await work.skip_rest()
            ending = "cancelled" if run.run_id in self._cancelled else "finished"
            self.store.end_run(run.run_id, ending)
        except Exception as error:
            reason = one_line(str(error))
            raise
        finally:
            await work.close()
            self._cancelled.discard(run.run_id)
            self._tasks.pop(run.run_id, None)
            self._channels.pop(run.run_id, None)
            channel.close(ending, reason)
        return self.store.run(run.run_id)

    def _cast(self, run: Run) -> tuple[dict[str, Case], dict[str, ImageTool]]:
        """The cases and tools of a run: those given to `start`, or read again."""
        cases = self._cases.get(run.run_id)
        if cases is None:
            cases = [load_case(Path(known["folder"])) for known in run.cases]
            for case, known in zip(cases, run.cases, strict=True):
                require_consent(case)
                if case.digest != known["digest"]:
                    raise GenlabError(
                        f"{case.folder} has changed since run {run.run_id} began, so that its"
                        " images would not compare; put it back, or begin a new run"
                    )
        tools = self._tools.get(run.run_id)
        if tools is None:
            known_tools = load_tools() if self._known is None else self._known
            tools = chosen(known_tools, [known["tool_id"] for known in run.tools])
        return {case.case_id: case for case in cases}, {tool.tool_id: tool for tool in tools}

    def _open(self, run_id: str) -> Channel:
        if run_id not in self._channels:
            self._channels[run_id] = Channel(run_id)
            self._fill(self._channels[run_id])
        return self._channels[run_id]

    def _fill(self, channel: Channel) -> None:
        for item in self.store.items(channel.run_id):
            channel.publish(update(item))

    def _new_folder(self) -> str:
        """Make the folder of a new run: today's date, with -2, -3, ... where that is taken."""
        today = date.today().isoformat()
        taken = {run.run_id for run in self.store.runs()}
        number = 1
        while True:
            run_id = today if number == 1 else f"{today}-{number}"
            if run_id not in taken:
                try:
                    (self.folder / run_id).mkdir(parents=True)
                    return run_id
                except FileExistsError:
                    pass
            number += 1


def _scorer() -> Scorer:
    from genlab.benchmark.scorer import score

    return score


def _described(case: Case) -> dict[str, Any]:
    return {
        "case_id": case.case_id,
        "title": case.title,
        "folder": str(case.folder.resolve()),
        "digest": case.digest,
    }


async def _all(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for all tasks; a bug or a full disk in one ends the others and comes out here."""
    if not tasks:
        return
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            if not task.cancelled():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

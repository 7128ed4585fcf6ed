"""The person-swap benchmark's runner: how near to ideal, what a kill costs, what a server can do.

`swap.runner_over_ideal`: 100 items of 256 × 256 pixels through a simulated tool of 200 ms, 16 at a
time, each kept, scored in 2 processes and recorded; the wall time of the run over that of the tool
alone (7 rounds of 200 ms).

`swap.kill_lost`: a run against an image server is killed (SIGKILL) at a random moment and gone on
with by another process; counted are items that end without their score, images that were asked for
again although they lay on the disk when the run was killed or had been sent whole a quarter of a
second before, and stores that don't open.

`swap.hostile_server`: a server that misbehaves in every way of `tests/image_server.py`; counted are
items that end otherwise than they must, and runs that don't end.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from genlab.core.errors import run_cli
from record import record

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

# The scorers' processes import this file again: what takes long is imported where it is used.
if TYPE_CHECKING:
    from image_server import Reply, Request

    from genlab.benchmark.cases import Case

ITEMS, SECONDS, AT_A_TIME = 100, 0.2, 16
KILL_CASES = 12
GRACE = 0.25  # seconds in which an answer that was sent may still be on its way to the disk
DEADLINE = 120.0  # seconds after which a run counts as hung


def over_ideal(repeats: int) -> list[float]:
    """Wall time of a run over that of its tool, once a repeat."""
    from small_benchmark import Prepared, make_cases, small_score

    from genlab.benchmark.runner import Runner
    from genlab.benchmark.store.repository import Store

    ratios = []
    ideal = math.ceil(ITEMS / AT_A_TIME) * SECONDS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases = make_cases(folder / "cases", ITEMS, side=256)
        tool = Prepared(cases, SECONDS, concurrency=AT_A_TIME)
        with Store(folder / "runs" / "genlab.sqlite3") as store:
            for _ in range(repeats):
                runner = Runner(
                    store,
                    folder / "runs",
                    concurrency=AT_A_TIME,
                    scorers=2,
                    scorer=small_score,
                )
                run_id = runner.start(cases, [tool])
                begin = time.perf_counter()
                asyncio.run(runner.run(run_id))
                ratios.append((time.perf_counter() - begin) / ideal)
                if store.progress(run_id)["scored"] != ITEMS:
                    raise AssertionError("a run without faults left items without a score")
    return ratios


def kills(count: int, seed: int) -> Counter[str]:
    """What `count` kills at random moments cost."""
    generator = random.Random(seed)
    costs: Counter[str] = Counter()
    span = 2.0
    for number in range(count + 1):  # the first one is not killed: how long does it take?
        with tempfile.TemporaryDirectory() as name:
            delay = generator.uniform(0, span) if number else None
            took, found = _killed(Path(name), delay)
        costs += found
        span = span if number else took
        print(f"kill {number}: after {delay or took:.2f} s, {dict(found) or 'nothing lost'}")
    return costs


def _killed(folder: Path, delay: float | None) -> tuple[float, Counter[str]]:
    """A run that is killed `delay` seconds after it began, and gone on with; what that cost."""
    from image_server import ImageServer, turned
    from small_benchmark import make_cases

    cases = make_cases(folder / "cases", KILL_CASES)
    costs: Counter[str] = Counter()
    with ImageServer(lambda _: turned(0.05)) as server:
        begin, process = _begun(folder, server.url)
        if delay is not None:
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            killed = time.time()
            process.wait()
            kept = {path.stem.strip(".") for path in (folder / "runs").rglob("*case-*")}
            asked = len(server.requests)
            arrived = {
                _of(request, cases) for moment, request in server.sent if moment < killed - GRACE
            }
            _, process = _begun(folder, server.url)
            if process.wait(DEADLINE) != 0:
                costs["crashed"] += 1
            again = Counter(_of(request, cases) for request in server.requests[asked:])
            costs["paid twice"] += sum(again[case] for case in kept | arrived)
        elif process.wait(DEADLINE) != 0:
            costs["crashed"] += 1
        took = time.time() - begin
    costs["lost"] += _lost(folder)
    return took, +costs


def _begun(folder: Path, url: str) -> tuple[float, subprocess.Popen[str]]:
    """A worker that has begun to run, and when that was."""
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "benchmarks" / "swap_worker.py"), str(folder), url],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return time.time(), process


def _of(request: Request, cases: list[Case]) -> str:
    """The case that a request is about."""
    wanted = hashlib.sha256(request.template().tobytes()).digest()
    return next(
        case.case_id
        for case in cases
        if hashlib.sha256(case.open_template().tobytes()).digest() == wanted
    )


def _lost(folder: Path) -> int:
    """Items without the score and the image that they should have."""
    from genlab.benchmark.store.repository import Store
    from genlab.core.errors import GenlabError
    from genlab.core.io import sha256

    try:
        with Store(folder / "runs" / "genlab.sqlite3") as store:
            items = store.items()
    except GenlabError as error:
        print(f"the store is broken: {error}")
        return KILL_CASES
    sound = 0
    for item in items:
        path = folder / "runs" / item.image
        sound += item.score == 1.0 and path.is_file() and sha256(path) == item.image_sha256
    return KILL_CASES - sound


def hostilities() -> Iterator[tuple[str, list[Reply], tuple[str, str]]]:
    """Name, what the server replies (the last for ever), and how the item must end."""
    import image_server as s
    from PIL import Image

    plain = Image.new("RGB", (64, 64), "navy")
    good, scored = s.turned(), ("scored", "")
    yield "429, then well", [s.status(429, {"Retry-After": "0.2"}), good], scored
    yield "429 for ever", [s.status(429, {"Retry-After": "0.1"})], ("failed", "rate_limited")
    yield "500, then well", [s.status(500), s.status(502), good], scored
    yield "500 for ever", [s.status(500)], ("failed", "unavailable")
    yield "hangs", [s.Reply(hang=True)], ("failed", "timeout")
    yield "hangs, then well", [s.Reply(hang=True), good], scored
    yield "cut off, then well", [s.answer(bytes(200_000), tear=True), good], scored
    yield "cut off for ever", [s.answer(bytes(200_000), tear=True)], ("failed", "unavailable")
    yield "HTML", [s.html()], ("failed", "no_image")
    yield "packed", [s.packed()], ("failed", "no_image")
    yield "100 megapixels", [s.answer(s.bomb())], ("failed", "wrong_size")
    yield "half a JPEG", [s.answer(s.encoded(plain, "JPEG")[:-200])], ("failed", "no_image")
    yield "on its side", [s.answer(s.rotated(plain))], scored
    yield (
        "another shape",
        [s.answer(s.encoded(plain.crop((0, 0, 64, 30))))],
        (
            "failed",
            "wrong_size",
        ),
    )
    yield "a refusal", [s.refused()], ("failed", "refused")
    yield "no such model", [s.status(404, code="model_not_found")], ("failed", "retired")
    yield "a bad key", [s.status(401)], ("failed", "no_key")
    yield "no image", [s.payload({"created": 0, "data": []})], ("failed", "no_image")
    yield "no base64", [s.payload({"data": [{"b64_json": "%"}]})], ("failed", "no_image")
    yield (
        "another's file",
        [s.payload({"data": [{"url": "file:///etc/passwd"}]})],
        (
            "failed",
            "no_image",
        ),
    )
    yield "well", [good], scored


def hostile() -> tuple[int, int]:
    """How many items ended otherwise than they must, and how many there were."""
    from image_server import ImageServer
    from small_benchmark import make_cases, small_score

    from genlab.benchmark.runner import Runner
    from genlab.benchmark.store.repository import Store
    from genlab.benchmark.tools.endpoint import EndpointTool, Entry

    script = list(hostilities())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases = make_cases(folder / "cases", len(script))
        with (
            ImageServer(_by_case(cases, [replies for _, replies, _ in script])) as server,
            Store(folder / "runs" / "genlab.sqlite3") as store,
        ):
            entry = Entry(id="t", base_url=server.url, model="m", concurrency=8)
            runner = Runner(
                store,
                folder / "runs",
                concurrency=8,
                timeout=3.0,
                retries=2,
                scorer=small_score,
                sleep=lambda seconds: asyncio.sleep(min(seconds, 0.3)),
            )
            run_id = runner.start(cases, [EndpointTool(entry)])
            asyncio.run(asyncio.wait_for(runner.run(run_id), DEADLINE))
            items = store.items(run_id)
    wrong = 0
    for item, (what, _, wanted) in zip(items, script, strict=True):
        ended = (item.status, item.failure_kind)
        fair = (item.score is not None) == (item.status == "scored")
        wrong += ended != wanted or not fair
        note = "" if ended == wanted and fair else f"   must be {wanted}"
        print(f"{what:<20}{item.status:<8}{item.failure_kind:<14}{item.failure[:70]}{note}")
    return wrong, len(items)


def _by_case(cases: list[Case], replies: list[list[Reply]]) -> Callable[[Request], Reply]:
    order = [case.case_id for case in cases]
    asked: Counter[str] = Counter()

    def reply(request: Request) -> Reply:
        case = _of(request, cases)
        asked[case] += 1
        said = replies[order.index(case)]
        return said[min(asked[case], len(said)) - 1]

    return reply


def bench(
    repeats: Annotated[int, typer.Option(min=3, help="Runs of 100 items.")] = 21,
    kill_points: Annotated[int, typer.Option(min=1, help="Runs that are killed.")] = 20,
    seed: Annotated[int, typer.Option(help="Seed of the moments of the kills.")] = 0,
    output: Annotated[Path, typer.Option(help="File the results go to.")] = Path(
        "results/benchmarks.json"
    ),
) -> None:
    """Measure the runner: swap.runner_over_ideal, swap.kill_lost, swap.hostile_server."""
    from spread import median, shown

    command = "python benchmarks/swap_runner.py"
    value, interval = median(over_ideal(repeats), seed)
    print(f"wall time over ideal {value:.3f}, 95 % interval {shown(interval, '.3f')}")
    record(
        "swap.runner_over_ideal",
        value,
        interval=interval,
        n=repeats,
        seeds=[seed],
        command=command,
        path=output,
    )
    wrong, count = hostile()
    print(f"hostile server: {wrong} of {count} items ended otherwise than they must")
    record(
        "swap.hostile_server",
        wrong,
        interval=None,
        n=count,
        seeds=[],
        command=command,
        path=output,
    )
    costs = kills(kill_points, seed)
    print(f"{kill_points} kills cost: {dict(costs) or 'nothing'}")
    record(
        "swap.kill_lost",
        sum(costs.values()),
        interval=None,
        n=kill_points,
        seeds=[seed],
        command=command,
        path=output,
    )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    run_cli(lambda: typer.run(bench))

"""The benchmark's runner against a hostile image server, and killed at random moments.

A kill may cost nothing: no item without its score, no image that is requested again although it was
on the disk or had been sent completely `GRACE` seconds before, and no store that does not open.
"""

import asyncio
import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from loopback import Reply, Request, Server, html, status
from replies import bomb, image, moderated, packed, turned
from small_benchmark import Bench, make_cases

from genlab.benchmark.cases import Case
from genlab.benchmark.plugins.openai_images import OpenAITool
from genlab.benchmark.store.repository import Store
from genlab.core.io import sha256

KILLS = 20
KILL_CASES = 12
GRACE = 0.25  # seconds in which an answer that was sent may still be on its way to the disk
DEADLINE = 120.0  # seconds after which a run counts as hung

GOOD = turned()
SCORED = ("scored", "")
CUT_OFF = image(bytes(200_000), tear=True)
# by case: what the server replies to its requests (the last for ever), and how the item ends
HOSTILITIES: dict[str, tuple[list[Reply], tuple[str, str]]] = {
    "429, then good": ([status(429, {"Retry-After": "0.2"}), GOOD], SCORED),
    "429 forever": ([status(429, {"Retry-After": "0.1"})], ("failed", "rate_limited")),
    "500, then good": ([status(500), status(502), GOOD], SCORED),
    "hangs": ([Reply(hang=True)], ("failed", "timeout")),
    "hangs, then good": ([Reply(hang=True), GOOD], SCORED),
    "cut off, then good": ([CUT_OFF, GOOD], SCORED),
    "cut off forever": ([CUT_OFF], ("failed", "unavailable")),
    "HTML": ([html()], ("failed", "no_image")),
    "packed": ([packed()], ("failed", "no_image")),
    "100 megapixels": ([image(bomb())], ("failed", "wrong_size")),
    "a refusal": ([moderated()], ("failed", "refused")),
    "good": ([GOOD], SCORED),
}


def case_of(request: Request, cases: list[Case]) -> str:
    """The case that a request is about."""
    wanted = hashlib.sha256(request.template().tobytes()).digest()
    return next(
        case.case_id
        for case in cases
        if hashlib.sha256(case.open_template().tobytes()).digest() == wanted
    )


def test_hostile_image_server(tmp_path: Path, record: Callable[..., None]) -> None:
    bench = Bench(tmp_path)
    cases = bench.cases(len(HOSTILITIES))
    scripts = dict(zip((case.case_id for case in cases), HOSTILITIES.values(), strict=True))
    requests: Counter[str] = Counter()

    def reply(request: Request) -> Reply:
        case = case_of(request, cases)
        requests[case] += 1
        replies, _ = scripts[case]
        return replies[min(requests[case], len(replies)) - 1]

    with Server(reply) as server:
        tool = OpenAITool(id="t", base_url=server.url, model="m", concurrency=8, cost=0.0)
        short = {"sleep": lambda seconds: asyncio.sleep(min(seconds, 0.3)), "timeout": 3.0}
        items = bench.run(cases, tool, concurrency=8, retries=2, **short)
    outcomes = {
        name: (item.status, item.failure_kind)
        for name, item in zip(HOSTILITIES, items, strict=True)
    }
    expected = {name: outcome for name, (_, outcome) in HOSTILITIES.items()}
    faults = [name for name in expected if outcomes[name] != expected[name]]
    faults += [item.case_id for item in items if (item.score is None) == (item.status == "scored")]
    record("swap.hostile_server", len(faults), n=len(items))
    assert outcomes == expected
    assert faults == []


# A run in FOLDER/runs of the cases in FOLDER/cases, begun or resumed, with the endpoint at URL.
WORKER = """
import sys
from pathlib import Path
from small_benchmark import Bench
from genlab.benchmark.cases import load_cases
from genlab.benchmark.plugins.openai_images import OpenAITool
bench = Bench(Path(sys.argv[1]))
tool = OpenAITool(id="turned", base_url=sys.argv[2], model="m", cost=0.01, concurrency=4)
options = {"concurrency": 4, "max_cost": 99.0}
print("running", flush=True)
if runs := bench.store.runs():
    bench.resume(runs[0].run_id, tool, **options)
else:
    bench.run(load_cases(bench.folder / "cases"), tool, **options)
"""


def start(folder: Path, url: str) -> subprocess.Popen[str]:
    """A worker that has begun to run."""
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(folder), url],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def lost(folder: Path) -> int:
    """Items without the score and the image that they should have."""
    with Store(folder / "runs" / "genlab.sqlite3") as store:
        items = store.items()
    complete = 0
    for item in items:
        path = folder / "runs" / item.image
        complete += item.score == 1.0 and path.is_file() and sha256(path) == item.image_sha256
    return KILL_CASES - complete


def kill_once(folder: Path, delay: float) -> Counter[str]:
    """Kill a run `delay` seconds after it began and resume it; returns what that cost."""
    cases = make_cases(folder / "cases", KILL_CASES)
    costs: Counter[str] = Counter()
    with Server(lambda _: turned(0.05)) as server:
        process = start(folder, server.url)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        killed = time.time()
        process.wait()
        on_disk = {path.stem.strip(".") for path in (folder / "runs").rglob("*case-*")}
        requests = len(server.requests)
        arrived = {
            case_of(request, cases) for moment, request in server.sent if moment < killed - GRACE
        }
        costs["crashed"] += start(folder, server.url).wait(DEADLINE) != 0
        again = Counter(case_of(request, cases) for request in server.requests[requests:])
        costs["paid twice"] += sum(again[case] for case in on_disk | arrived)
    costs["lost"] += lost(folder)
    return +costs


@pytest.mark.slow
@pytest.mark.usefixtures("only_full_size")
def test_killed_runs_of_the_benchmark(tmp_path: Path, record: Callable[..., None]) -> None:
    rng = random.Random(0)
    costs: Counter[str] = Counter()
    calm = tmp_path / "calm"
    make_cases(calm / "cases", KILL_CASES)
    with Server(lambda _: turned(0.05)) as server:
        begin = time.time()
        assert start(calm, server.url).wait(DEADLINE) == 0
        longest = time.time() - begin
    assert lost(calm) == 0
    for number in range(KILLS):
        costs += kill_once(tmp_path / f"kill{number}", rng.uniform(0, longest))
    record("swap.kill_lost", costs.total(), n=KILLS)
    assert costs == Counter()

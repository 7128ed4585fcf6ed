"""The pages read by an accessibility checker, and the events that many clients receive."""

import asyncio
import itertools
import json
from collections.abc import Callable
from pathlib import Path

import app_room
import httpx
import pytest
from app_room import READY, ROOT, chromium, make_project, make_run, serving

from genlab.benchmark.store.repository import Store

RUN = "2026-01-01"
FRESH = "!document.querySelector('[data-stale=true]')"  # what a rerun replaces fades for a moment
TIMEOUT = 120_000  # milliseconds
CLIENTS = 200
CASES = 500  # two events per case: generating and failed

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_full_size")]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a finished run."""
    folder = make_project(tmp_path, cases=3)
    with Store(folder / "runs" / "genlab.sqlite3") as store:
        make_run(store, folder, run_id=RUN, cases=3)
    return folder


def test_accessibility(project: Path, record: Callable[..., None]) -> None:
    """Serious and critical findings of axe-core within the pages' part of the window."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    findings: list[str] = []
    visited = 0
    with serving(ROOT) as ours, serving(project) as served, chromium() as browser:
        files = (ROOT / "src/genlab/web/pages").glob("[a-z]*.py")
        names = sorted(path.stem for path in files if path.stem != "main")
        pages = [f"{ours.base}/{name}".replace("/overview", "/") for name in names]
        pages += [f"{served.base}/benchmark?run={RUN}&view={v}" for v in ("Grid", "Leaderboard")]
        pages += [f"{served.base}/rate?of={RUN}&rater=axe"]
        for address, scheme in itertools.product(pages, ("light", "dark")):
            page = browser.new_page(color_scheme=scheme)
            page.goto(address, timeout=TIMEOUT)
            page.locator("h1").first.wait_for(timeout=TIMEOUT)
            page.wait_for_function(READY, timeout=TIMEOUT)
            page.wait_for_timeout(500)
            page.wait_for_function(FRESH, timeout=TIMEOUT)
            for fault in axe.run(page, context="[data-testid=stMain]").response["violations"]:
                if fault["impact"] in ("serious", "critical"):
                    findings += [f"{address} ({scheme}): {fault['id']}"] * len(fault["nodes"])
            visited += 1
            page.close()
    record("app.axe", len(findings), n=visited)
    assert findings == []


def test_no_event_is_lost_or_reordered(tmp_path: Path, record: Callable[..., None]) -> None:
    folder = make_project(tmp_path, cases=CASES)
    settings = folder / "params.yaml"
    settings.write_text(settings.read_text().replace("concurrency: 4 ", "concurrency: 16 "))
    with serving(folder) as server:
        sequences = asyncio.run(follow_run(server))
    last = max(events[-1] for _, events in sequences)
    lost = sum(len(set(range(first + 1, last + 1)) - set(events)) for first, events in sequences)
    reordered = sum(
        later <= earlier for _, events in sequences for earlier, later in itertools.pairwise(events)
    )
    received = sum(len(events) for _, events in sequences)
    record("app.ws_lost", lost + reordered, n=received)
    assert (lost, reordered) == (0, 0)


async def follow_run(server: app_room.Server) -> list[tuple[int, list[int]]]:
    """The first sequence number of every client and those of the events that it received."""
    from websockets.asyncio.client import connect

    async def follow(run_id: str, ready: asyncio.Event) -> tuple[int, list[int]]:
        async with connect(f"{server.socket}/api/run/{run_id}", max_size=None) as socket:
            start = json.loads(await socket.recv())
            ready.set()
            return start["sequence"], [json.loads(event)["sequence"] async for event in socket]

    async with httpx.AsyncClient(base_url=server.base, timeout=300) as client:

        async def post(cases: int, tool: str, **options: object) -> str:
            case_ids = [f"case-{n:03d}" for n in range(1, cases + 1)]
            body = {"case_ids": case_ids, "tool_ids": [tool], "options": {tool: options}}
            return str((await client.post("/api/run", json=body)).json()["run_id"])

        # Two runs that wait take the slots until every client is connected.
        held = [await post(1, "sim_stamp", seconds=1000) for _ in range(2)]
        run_id = await post(CASES, "sim_fail")
        ready = [asyncio.Event() for _ in range(CLIENTS)]
        tasks = [asyncio.create_task(follow(run_id, event)) for event in ready]
        await asyncio.gather(*(event.wait() for event in ready))
        items = (await client.get(f"/api/run/{run_id}")).json()["items"]
        assert {item["status"] for item in items} == {"queued"}, (
            "the run began before every client was connected"
        )
        for waiting_run in held:
            await client.post(f"/api/run/{waiting_run}/cancel")
        return await asyncio.gather(*tasks)

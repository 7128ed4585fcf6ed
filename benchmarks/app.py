"""What the server and its pages do, measured from outside: a real process, a real browser.

`python benchmarks/app.py` measures all of it; `--only ws_lost --only rate_ms` some of it. Times are
of this machine as it is: run it when nothing else runs. What is open to judgement:

- start_s: from the start of the process to the first page in the browser, its script at an end
  and nothing left to draw; over this project as it is checked out, as page_ms is.
- page_ms: from the click on a page's name to its heading, its script at an end; warm; the median
  over pages of each page's median.
- event_ms: from the moment a tool gives up, by its clock, to its words on the page: the store's
  write, which comes before the event, is within.
- rate_ms: from the key to the next picture, decoded.
- ws_lost: events that a client did not get, or got out of order, over all clients.
- axe: findings of axe-core that are serious or critical, within the pages' own part of the window.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import httpx
import typer

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from app_room import ROOT, Server, chromium, make_project, make_run, serving

from genlab.benchmark.store.repository import Store
from genlab.core.errors import GenlabError, run_cli
from genlab.core.io import write_text
from record import record
from spread import median

RUN = "2026-01-01"
SEED = 0
READY = "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"

# Placeholders are gone: what the page had to say stands there.
DRAWN = f"{READY} && !document.querySelector('[data-testid=stSkeleton]')"


def project(cases: int = 12, *, rated: int = 0) -> Path:
    """A project in a temporary folder; rated: cases of a finished run."""
    folder = make_project(Path(tempfile.mkdtemp(prefix="genlab-app-")), cases=cases)
    if rated:
        with Store(folder / "runs" / "genlab.sqlite3") as store:
            make_run(store, folder, run_id=RUN, cases=rated)
    return folder


def start_s(times: int) -> list[float]:
    """Seconds from the start of the server to its first page."""
    taken = []
    print(f"  start_s and page_ms: over {ROOT.name}, this project", flush=True)
    with chromium() as browser:
        for _ in range(times):
            page = browser.new_page()
            begun = time.monotonic()
            with serving(ROOT) as server:
                page.goto(server.base, timeout=120_000)
                page.locator("h1").first.wait_for(timeout=120_000)
                page.wait_for_function(DRAWN, timeout=120_000)
                taken.append(time.monotonic() - begun)
            page.close()
    return taken


def page_ms(rounds: int) -> list[float]:
    """Milliseconds of a change to each page, the median of each."""
    click = """async (link) => {
        const name = link.textContent.trim();
        const begun = performance.now();
        link.click();
        while (true) {
            await new Promise(requestAnimationFrame);
            const heading = document.querySelector('h1')?.textContent.trim();
            if (heading === name && READY) return performance.now() - begun;
            if (performance.now() - begun > 60000) throw new Error('the page did not come');
        }
    }""".replace("READY", READY)
    taken: dict[str, list[float]] = {}
    with serving(ROOT) as server, chromium() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(server.base, timeout=120_000)
        links = page.locator("[data-testid=stTopNavLink], [data-testid=stSidebarNavLink]")
        links.first.wait_for(timeout=120_000)
        page.wait_for_function(READY, timeout=120_000)
        names = [name.strip() for name in links.all_inner_texts()]
        for turn in range(rounds + 1):  # the first is the warming up
            for name in [*names[1:], names[0]]:
                link = links.filter(has_text=name).first
                spent = link.evaluate(click)
                if turn:
                    taken.setdefault(name, []).append(spent)
                page.wait_for_timeout(300)
    for name, values in taken.items():
        print(f"  {name}: {statistics.median(values):.0f} ms")
    return [statistics.median(values) for values in taken.values()]


def event_ms(runs: int) -> list[float]:
    """Milliseconds from an event to the page."""
    watch = """() => {
        window.seen = {};
        const look = () => {
            for (const one of document.querySelectorAll('.b-wait')) {
                const stamp = one.textContent.match(/^at (\\d+)$/);
                const item = one.closest('[data-item]')?.dataset.item;
                if (stamp && !(item in window.seen)) window.seen[item] = Date.now() - stamp[1];
            }
            requestAnimationFrame(look);
        };
        look();
    }"""
    taken: list[float] = []
    with serving(project(cases=12)) as server, chromium() as browser:
        for _ in range(runs):
            asked = {
                "case_ids": [f"case-{n:03d}" for n in range(1, 13)],
                "tool_ids": ["sim_stamp"],
                "options": {"sim_stamp": {"seconds": 4}},
            }
            run_id = httpx.post(f"{server.base}/api/run", json=asked, timeout=60).json()["run_id"]
            page = browser.new_page()
            page.goto(f"{server.base}/benchmark?run={run_id}", timeout=120_000)
            page.locator("[data-status=generating]").first.wait_for(timeout=120_000)
            # What had been there before anybody looked is no measure.
            page.evaluate(watch)
            first = set(page.evaluate("window.seen"))
            page.get_by_role("button", name="Export report").wait_for(timeout=120_000)
            seen = page.evaluate("window.seen")
            taken += [float(spent) for item, spent in seen.items() if item not in first]
            page.close()
    return taken


def rate_ms(pictures: int) -> list[float]:
    """Milliseconds from a key to the next picture."""
    arm = """() => {
        const source = () => document.querySelector('.b-main img');
        const before = source().getAttribute('src');
        window.spent = null;
        addEventListener('keydown', () => {
            const begun = performance.now();
            const look = () => {
                const shown = source();
                const next = shown && shown.getAttribute('src') !== before;
                if (next && shown.complete && shown.naturalWidth) {
                    window.spent = performance.now() - begun;
                } else requestAnimationFrame(look);
            };
            look();
        }, {once: true, capture: true});
    }"""
    taken = []
    folder = project(cases=pictures + 1, rated=pictures + 1)
    with serving(folder) as server, chromium() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"{server.base}/rate?of={RUN}&rater=bench", timeout=120_000)
        page.locator(".b-main img").wait_for(timeout=120_000)
        page.wait_for_function(READY, timeout=120_000)
        for number in range(pictures):
            page.wait_for_timeout(400)  # a person looks, the next ones are fetched
            page.evaluate(arm)
            page.keyboard.press(str(number % 5 + 1))
            page.wait_for_function("window.spent !== null", timeout=60_000)
            taken.append(float(page.evaluate("window.spent")))
    return taken


def ws_lost(clients: int, events: int) -> tuple[int, int]:
    """(events lost or out of order over all clients, events told in all)."""
    from websockets.asyncio.client import connect

    cases = -(-events // 2)  # each item gives two: generating, failed
    folder = project(cases=cases)
    settings = folder / "params.yaml"
    text = settings.read_text(encoding="utf-8")
    write_text(settings, text.replace("concurrency: 4 ", "concurrency: 16 "))

    async def follow(server: Server, run_id: str, ready: asyncio.Event) -> tuple[int, list[int]]:
        async with connect(f"{server.socket}/api/run/{run_id}", max_size=None) as socket:
            start = json.loads(await socket.recv())
            ready.set()
            told = [json.loads(message)["sequence"] async for message in socket]
        return start["sequence"], told

    async def all_of_them(server: Server) -> tuple[int, int]:
        async with httpx.AsyncClient(base_url=server.base, timeout=300) as client:
            # The slots are taken by two runs that wait, until all have come.
            hold = {
                "case_ids": ["case-001"],
                "tool_ids": ["sim_stamp"],
                "options": {"sim_stamp": {"seconds": 1000}},
            }
            held = [(await client.post("/api/run", json=hold)).json()["run_id"] for _ in range(2)]
            asked = {
                "case_ids": [f"case-{n:03d}" for n in range(1, cases + 1)],
                "tool_ids": ["sim_fail"],
            }
            run_id = (await client.post("/api/run", json=asked)).json()["run_id"]
            ready = [asyncio.Event() for _ in range(clients)]
            tasks = [asyncio.create_task(follow(server, run_id, one)) for one in ready]
            await asyncio.gather(*(one.wait() for one in ready))
            waiting = (await client.get(f"/api/run/{run_id}")).json()["progress"]["queued"]
            if waiting != cases:
                raise GenlabError(f"the run began before all had come: {waiting} of {cases} wait")
            for one in held:
                await client.post(f"/api/run/{one}/cancel")
            found = await asyncio.gather(*tasks)
        last = max(told[-1] for _, told in found)
        wrong = 0
        for first, told in found:
            expected = list(range(first + 1, last + 1))
            wrong += len(set(expected) - set(told))
            wrong += sum(later <= earlier for earlier, later in itertools.pairwise(told))
        return wrong, sum(len(told) for _, told in found)

    with serving(folder) as server:
        return asyncio.run(all_of_them(server))


def axe() -> tuple[int, int]:
    """(serious findings within the pages, pages looked at)."""
    from axe_playwright_python.sync_playwright import Axe

    found, looked = 0, 0
    folder = project(cases=3, rated=3)
    with serving(ROOT) as ours, serving(folder) as served, chromium() as browser:
        pages = [f"{ours.base}/{one.stem}" for one in sorted((ROOT / "ui").glob("*.py"))]
        pages = [page.replace("/overview", "/") for page in pages if not page.endswith("/main")]
        pages += [
            f"{served.base}/benchmark?run={RUN}&view={view}" for view in ("Grid", "Leaderboard")
        ]
        pages += [f"{served.base}/rate?of={RUN}&rater=axe", f"{ours.base}/api/docs"]
        for address in pages:
            for scheme in ("light", "dark"):
                page = browser.new_page(color_scheme=scheme)
                page.goto(address, timeout=120_000)
                page.locator("h1").first.wait_for(timeout=120_000)
                of_streamlit = "/api/" not in address
                if of_streamlit:
                    page.wait_for_function(READY, timeout=120_000)
                page.wait_for_timeout(500)
                if of_streamlit:  # what a rerun is about to replace is faded for a moment
                    page.wait_for_function(
                        "!document.querySelector('[data-stale=true]')", timeout=120_000
                    )
                context = "[data-testid=stMain]" if of_streamlit else None
                answer = Axe().run(page, context=context).response
                looked += 1
                for fault in answer["violations"]:
                    if fault["impact"] in ("serious", "critical"):
                        found += len(fault["nodes"])
                        print(f"  {address} ({scheme}): {fault['id']} × {len(fault['nodes'])}")
                        print(f"    {fault['nodes'][0]['html'][:200]}")
                page.close()
    return found, looked


def main(
    only: Annotated[list[str] | None, typer.Option(help="This key alone; may be repeated.")] = None,
    times: Annotated[int, typer.Option(min=1, help="Repetitions of start, pages, runs.")] = 5,
    pictures: Annotated[int, typer.Option(min=1, help="Pictures that are rated.")] = 40,
    clients: Annotated[int, typer.Option(min=1, help="WebSocket clients.")] = 200,
    events: Annotated[int, typer.Option(min=2, max=1000, help="Events of the run.")] = 1000,
    into: Annotated[Path | None, typer.Option(help="File of the results.")] = None,
) -> None:
    """Measure the app and record it."""
    destination = {"path": into} if into else {}

    def keep(key: str, value: float, spread: tuple[float, float] | None, n: int) -> None:
        command = f"python benchmarks/app.py --only {key}"
        print(f"app.{key} {value:.4g} (n = {n})", flush=True)
        record(
            f"app.{key}", value, interval=spread, n=n, seeds=[SEED], command=command, **destination
        )

    timed: dict[str, Callable[[], list[float]]] = {
        "start_s": lambda: start_s(times),
        "page_ms": lambda: page_ms(times),
        "event_ms": lambda: event_ms(max(1, times // 2)),
        "rate_ms": lambda: rate_ms(pictures),
    }
    counted: dict[str, Callable[[], tuple[int, int]]] = {
        "ws_lost": lambda: ws_lost(clients, events),
        "axe": axe,
    }
    for key in only or [*timed, *counted]:
        if key in timed:
            taken = timed[key]()
            keep(key, *median(taken, SEED), len(taken))
        elif key in counted:
            count, n = counted[key]()
            keep(key, float(count), None, n)
        else:
            raise typer.BadParameter(f"{key}: one of {', '.join([*timed, *counted])}")


if __name__ == "__main__":
    run_cli(lambda: typer.run(main))

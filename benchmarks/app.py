"""Response times of the server and its pages, measured from outside with a real browser.

- `app.start_s`: from the start of the process to the first page, its script ended and everything
  drawn; over this project, as `app.page_ms` is.
- `app.page_ms`: from the click on a page's name to its heading, its script ended; warm; the median
  over pages of each page's median.
- `app.event_ms`: from the moment a tool gives up to its words on the page. The store's write comes
  before the event and is included.
- `app.rate_ms`: from the key to the next image, decoded.
- `app.case_from_browser`: from two photographs to a case, its run, a rating and the report.
"""

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from app_room import READY, chromium, make_project, make_run, serving, take_photographs_to_report

from benchmarks.harness import ROOT, Repeats, Result, benchmark
from genlab.benchmark.store.repository import Store

RUN = "2026-01-01"
# Placeholders are gone: the page's content is there.
DRAWN = f"{READY} && !document.querySelector('[data-testid=stSkeleton]')"
VIEW = {"width": 1440, "height": 900}
TIMEOUT = 120_000  # milliseconds

CLICK = """async (link) => {
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
WATCH = """() => {
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
ARM = """() => {
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


@contextmanager
def open_page(viewport: Any = None) -> Iterator[Any]:
    """Open a page in a new browser."""
    with chromium() as browser:
        page = browser.new_page(viewport=viewport)
        page.set_default_timeout(TIMEOUT)
        yield page


@benchmark("app.start_s")
def app_start(repeats: Repeats = 5) -> Iterator[Result]:
    """Time the server from its start to its first page."""
    taken = []
    for _ in range(repeats):
        with open_page() as page:
            begin = time.monotonic()
            with serving(ROOT) as server:
                page.goto(server.base)
                page.locator("h1").first.wait_for()
                page.wait_for_function(DRAWN)
                taken.append(time.monotonic() - begin)
    yield Result.median("app.start_s", taken)


@benchmark("app.page_ms")
def app_page(repeats: Repeats = 5) -> Iterator[Result]:
    """Time a change to each page."""
    taken: dict[str, list[float]] = {}
    with serving(ROOT) as server, open_page(VIEW) as page:
        page.goto(server.base)
        links = page.locator("[data-testid=stTopNavLink], [data-testid=stSidebarNavLink]")
        links.first.wait_for()
        page.wait_for_function(READY)
        names = [name.strip() for name in links.all_inner_texts()]
        for turn in range(repeats + 1):  # the first is the warm-up
            for name in [*names[1:], names[0]]:
                spent = links.filter(has_text=name).first.evaluate(CLICK)
                if turn:
                    taken.setdefault(name, []).append(spent)
                page.wait_for_timeout(300)
    medians = {name: statistics.median(values) for name, values in taken.items()}
    print(medians)
    yield Result.median("app.page_ms", list(medians.values()))


@benchmark("app.event_ms")
def app_event(repeats: Repeats = 2) -> Iterator[Result]:
    """Time an event from the runner to the page."""
    taken: list[float] = []
    request = {
        "case_ids": [f"case-{n:03d}" for n in range(1, 13)],
        "tool_ids": ["sim_stamp"],
        "options": {"sim_stamp": {"seconds": 4}},
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(make_project(Path(folder), cases=12)) as server,
        open_page() as page,
    ):
        for _ in range(repeats):
            run_id = httpx.post(f"{server.base}/api/run", json=request, timeout=60).json()["run_id"]
            page.goto(f"{server.base}/benchmark?run={run_id}")
            page.locator("[data-status=generating]").first.wait_for()
            page.evaluate(WATCH)
            earlier = set(page.evaluate("window.seen"))  # shown before the page was watched
            page.get_by_role("link", name="Export report").wait_for()
            delays = page.evaluate("window.seen")
            taken += [float(spent) for item, spent in delays.items() if item not in earlier]
    yield Result.median("app.event_ms", taken)


@benchmark("app.rate_ms")
def app_rate(repeats: Repeats = 40) -> Iterator[Result]:
    """Time the next picture after a key press."""
    taken = []
    with tempfile.TemporaryDirectory() as name:
        folder = make_project(Path(name), cases=repeats + 1)
        with Store(folder / "runs" / "genlab.sqlite3") as store:
            make_run(store, folder, run_id=RUN, cases=repeats + 1)
        with serving(folder) as server, open_page(VIEW) as page:
            page.goto(f"{server.base}/rate?of={RUN}&rater=bench")
            page.locator(".b-main img").wait_for()
            page.wait_for_function(READY)
            for number in range(repeats):
                page.wait_for_timeout(400)  # a person looks, the next ones are fetched
                page.evaluate(ARM)
                page.keyboard.press(str(number % 5 + 1))
                page.wait_for_function("window.spent !== null")
                taken.append(float(page.evaluate("window.spent")))
    yield Result.median("app.rate_ms", taken)


@benchmark("app.case_from_browser")
def app_case(repeats: Repeats = 3) -> Iterator[Result]:
    """Time a case from its photographs to the report."""
    taken = []
    for _ in range(repeats):
        with (
            tempfile.TemporaryDirectory() as folder,
            serving(make_project(Path(folder), cases=1)) as server,
            open_page(VIEW) as page,
        ):
            begin = time.monotonic()
            take_photographs_to_report(server, page, ROOT / "cases")
            taken.append(time.monotonic() - begin)
    yield Result.median("app.case_from_browser", taken)

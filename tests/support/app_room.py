"""A project folder with simulated image tools, a real server over it, and a headless browser.

The tools are in a package that is found by its entry points, as any user's tool is.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from small_benchmark import make_case, write_package
from swap_runs import add_run

from genlab.benchmark.cases import load_cases
from genlab.benchmark.store.repository import Store

READY = "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ROOT = Path(__file__).resolve().parents[2]

# One fails, one reports the time at which it ended, one has a hostile name, one has no key.
TOOLS = """
import random
import time
from small_benchmark import Turned
from genlab.benchmark.plugins.base import Needs, ToolFailure

class Paint(Turned):
    tool_id = "sim_paint"
    title = "Simulated painter"
    def __init__(self):
        super().__init__(0.2, concurrency=64)

class Fail(Paint):
    tool_id = "sim_fail"
    title = "Simulated refusal"
    async def swap(self, case, options):
        raise ToolFailure("refused", "the picture of <script>alert(1)</script> was refused")

class Stamp(Paint):
    tool_id = "sim_stamp"
    title = "Simulated, says when"
    async def swap(self, case, options):
        seconds = options.get("seconds", self.seconds) * random.uniform(0.5, 1.5)
        await super().swap(case, {"seconds": seconds})
        raise ToolFailure("refused", f"at {1000 * time.time():.0f}")

class Hostile(Paint):
    tool_id = "sim_hostile"
    title = "<script>document.title='owned'</script><img src=x onerror=alert(1)> ../ \\u202egnp"

class Closed(Paint):
    tool_id = "sim_closed"
    title = "Simulated, without a key"
    def unavailable(self):
        return "SIM_KEY is not set"
"""


def make_project(folder: Path, *, cases: int = 3, hostile: bool = False) -> Path:
    """A project in `folder`: parameters, cases of noise, and a package of simulated tools.

    hostile: a further case whose title is markup, and one whose title has 10,000 characters.
    """
    titles = [f"Case {n}" for n in range(1, cases + 1)]
    if hostile:
        titles += ["<script>document.title='owned'</script> ../../ \u202eelttil", "x" * 10_000]
    for number, title in enumerate(titles, 1):
        make_case(folder / "cases", number, side=256, title=title)
    shutil.copy(ROOT / "params.yaml", folder / "params.yaml")
    kinds = ("Paint", "Fail", "Stamp", "Hostile", "Closed")
    points = [f"sim_{kind.lower()} = genlab_sim:{kind}" for kind in kinds]
    write_package(folder / "package", "genlab_sim", TOOLS, *points)
    return folder


def make_run(store: Store, folder: Path, *, run_id: str, cases: int = 3) -> None:
    """A finished run in the store: `sim_paint` with scores, `sim_fail` refused throughout."""
    run_cases = load_cases(folder / "cases")[:cases]
    scores = {"sim_paint": 0.6, "sim_fail": None}
    add_run(store, run_id, run_cases, scores, "refused by <b>policy</b>")


@dataclass(frozen=True)
class Server:
    """A running server. base: its address; folder: its project; log: file of what it prints."""

    base: str
    folder: Path
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def socket(self) -> str:
        """The address of its WebSockets."""
        return "ws" + self.base.removeprefix("http")


@contextmanager
def serving(
    folder: Path, *, with_uvicorn: bool = False, environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Serve a project on a free port, as `make app` does, until the block ends."""
    port = free_port()
    options = ["--server.port", str(port), "--server.fileWatcherType", "none"]
    command = [sys.executable, "-m", "streamlit", "run", str(ROOT / "app.py"), *options]
    if with_uvicorn:
        command = [sys.executable, "-m", "uvicorn", "app:app", "--port", str(port)]
    paths = [ROOT / "src", ROOT, ROOT / "tests/support", folder / "package"]
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "OMP_NUM_THREADS": "1",
        "STREAMLIT_BROWSER_GATHER_USAGE_STATS": "false",
        "STREAMLIT_SERVER_HEADLESS": "true",
        **(environment or {}),
    }
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=variables, stdout=log, stderr=log, start_new_session=True
        )
        base = f"http://127.0.0.1:{port}"
        try:
            _wait_until_up(base, process, Path(log.name))
            yield Server(base, folder, process, Path(log.name))
        finally:
            stop(process)


@contextmanager
def chromium(*arguments: str) -> Iterator[Any]:
    """This machine's Chromium, headless, with a fresh profile; arguments: options for it."""
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, BROWSERS)))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=program, args=["--disable-gpu", *arguments]
        )
        try:
            yield browser
        finally:
            browser.close()


def is_fault(message: Any) -> bool:
    """Whether a message of the browser's console is an error of ours.

    A page that is opened by its own address requests Streamlit's endpoints below that address
    twice before it requests them at the root. These two answers 404 are no fault of ours.
    """
    address = (message.location or {}).get("url", "")
    return bool(message.type == "error" and "/_stcore/" not in address)


def stop(process: subprocess.Popen[bytes], *, kill: bool = False) -> None:
    """End a server and all processes that it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL if kill else signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(5)


def free_port() -> int:
    """Return a free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_up(base: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            # With a token it answers 401: it is up all the same.
            if httpx.get(f"{base}/_stcore/health", timeout=5).status_code in (200, 401):
                return
        except httpx.TransportError:
            time.sleep(0.05)
    printed = log.read_text(encoding="utf-8", errors="replace")
    raise RuntimeError(f"the server did not come up:\n{printed[-3000:]}")


def take_photographs_to_report(server: Server, page: Any, cases: Path) -> str:
    """Make a case of two photographs, run the local tool, rate the image; return the report."""
    photographs = cases / "astronaut-officer"
    page.goto(f"{server.base}/cases")
    field = page.locator("input[type=file]")
    field.first.set_input_files(photographs / "template.jpg")
    page.get_by_text("Faces, numbered").wait_for()
    field.nth(1).set_input_files(photographs / "avatar_officer.jpg")
    page.get_by_text("replaces person 1", exact=True).wait_for()
    for label, value in (("Name", "My case"), ("Licence, or what allows use", "mine")):
        page.get_by_label(label, exact=True).last.fill(value)
        page.keyboard.press("Tab")
    page.get_by_text("All persons shown agree").last.click()
    page.get_by_role("button", name="Save case").click()
    page.get_by_text("is saved").wait_for()
    listed = httpx.get(f"{server.base}/api/test-cases", timeout=60).json()
    [case] = [case for case in listed if case["private"]]
    request = {"case_ids": [case["case_id"]], "tool_ids": ["baseline_local"]}
    run_id = httpx.post(f"{server.base}/api/run", json=request, timeout=60).json()["run_id"]
    page.goto(f"{server.base}/benchmark?run={run_id}")
    page.locator("[data-status=scored]").wait_for()
    page.goto(f"{server.base}/rate?of={run_id}&rater=ann")
    page.get_by_text("0 of 1 rated").wait_for()
    page.keyboard.press("4")
    page.get_by_text("1 of 1 rated").wait_for()
    page.goto(f"{server.base}/benchmark?run={run_id}")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export report").click()
    return Path(download.value.path()).read_text(encoding="utf-8")

"""A project folder with simulated image tools, a real server over it, and a headless browser.

The tools are in a package that is found by its entry points, as any user's tool is.
"""

from __future__ import annotations

import json
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
import numpy as np
from PIL import Image

from genlab.benchmark.cases import load_cases
from genlab.benchmark.store.repository import Store
from genlab.core.io import sha256, write_text

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
ROOT = Path(__file__).resolve().parents[2]
SIDE = 256

CASE = """\
version: 1
title: {title}
consent: {consent}
template: template.jpg
avatars:
  anna: avatar_anna.jpg
swaps:
  - region: {{left: 80, top: 60, width: 96, height: 96}}
    avatar: anna
sources:
  template: {{title: noise, author: this test, licence: CC0-1.0, url: ""}}
  anna: {{title: noise, author: this test, licence: CC0-1.0, url: ""}}
"""
# One takes its time, one fails, one reports when it ended, one has a hostile name, one has no key.
TOOLS = """
import asyncio
import random
import time
from genlab.benchmark.plugins import Needs, ToolFailure

class Paint:
    tool_id = "sim_paint"
    title = "Simulated painter"
    needs = Needs(concurrency=64)
    def unavailable(self):
        return ""
    async def swap(self, case, options):
        await asyncio.sleep(float(options.get("seconds", 0.2)))
        image = case.open_template()
        image.paste(case.open_avatar("anna").resize((96, 96)), (80, 60))
        return image

class Fail(Paint):
    tool_id = "sim_fail"
    title = "Simulated refusal"
    async def swap(self, case, options):
        raise ToolFailure("refused", "the picture of <script>alert(1)</script> was refused")

class Stamp(Paint):
    tool_id = "sim_stamp"
    title = "Simulated, says when"
    async def swap(self, case, options):
        await asyncio.sleep(float(options.get("seconds", 0.2)) * random.uniform(0.5, 1.5))
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
    random = np.random.default_rng(0)
    for number, title in enumerate(titles, 1):
        place = folder / "cases" / f"case-{number:03d}"
        place.mkdir(parents=True)
        for name in ("template", "avatar_anna"):
            low = random.integers(40, 215, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(low).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(
                place / f"{name}.jpg", quality=90
            )
        write_text(place / "case.yaml", CASE.format(title=json.dumps(title), consent="true"))
    shutil.copy(ROOT / "params.yaml", folder / "params.yaml")
    package = folder / "package"
    write_text(package / "genlab_sim.py", TOOLS)
    points = "".join(
        f"{name} = genlab_sim:{kind}\n"
        for name, kind in (
            ("sim_paint", "Paint"),
            ("sim_fail", "Fail"),
            ("sim_stamp", "Stamp"),
            ("sim_hostile", "Hostile"),
            ("sim_closed", "Closed"),
        )
    )
    info = package / "genlab_sim-1.0.dist-info"
    write_text(info / "METADATA", "Metadata-Version: 2.1\nName: genlab-sim\nVersion: 1.0\n")
    write_text(info / "entry_points.txt", "[genlab.image_tools]\n" + points)
    return folder


def make_run(store: Store, folder: Path, *, run_id: str, cases: int = 3) -> None:
    """A finished run in the store: `sim_paint` with scores, `sim_fail` refused throughout."""
    known = load_cases(folder / "cases")[:cases]
    tools = [{"tool_id": "sim_paint", "title": "Simulated painter"}]
    tools.append({"tool_id": "sim_fail", "title": "Simulated refusal"})
    store.create_run(
        run_id,
        f"{run_id}T00:00:00.000000+00:00",
        {},
        [
            {
                "case_id": case.case_id,
                "title": case.title,
                "folder": str(case.folder.resolve()),
                "digest": case.digest,
            }
            for case in known
        ],
        tools,
    )
    random = np.random.default_rng(1)
    for item in store.items(run_id):
        if item.tool_id == "sim_fail":
            failure = {"failure_kind": "refused", "failure": "refused by <b>policy</b>"}
            store.set_items([(item.item_id, {"status": "failed", "attempts": 1, **failure})])
            continue
        path = store.path.parent / run_id / item.tool_id / f"{item.case_id}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        low = random.integers(40, 215, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(low).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(path)
        changes = {
            "status": "scored",
            "score": float(random.uniform(0.2, 0.95)),
            "components": {"identity": 0.8, "background": 0.9, "realism": None},
            "image": path.relative_to(store.path.parent).as_posix(),
            "image_sha256": sha256(path),
            "attempts": 1,
            "seconds": 0.2,
        }
        store.set_items([(item.item_id, changes)])
    store.end_run(run_id, "finished")


@dataclass(frozen=True)
class Server:
    """A server under way. base: its address; folder: its project; log: what it prints."""

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
    paths = [str(ROOT / "src"), str(ROOT), str(folder / "package")]
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
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
            _until_up(base, process, Path(log.name))
            yield Server(base, folder, process, Path(log.name))
        finally:
            stop(process)


@contextmanager
def chromium() -> Iterator[Any]:
    """A headless Chromium of this machine, with a fresh profile."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def is_fault(said: Any) -> bool:
    """Whether a message of the browser's console is an error of ours.

    A page that is opened by its own address asks Streamlit's server twice beside it before it asks
    at the root: two answers 404 that are Streamlit's own.
    """
    address = (said.location or {}).get("url", "")
    return bool(said.type == "error" and "/_stcore/" not in address)


def stop(process: subprocess.Popen[bytes], *, kill: bool = False) -> None:
    """End a server and all it began."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL if kill else signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(5)


def free_port() -> int:
    """A port of loopback that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _until_up(base: str, process: subprocess.Popen[bytes], log: Path) -> None:
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
    said = log.read_text(encoding="utf-8", errors="replace")
    raise RuntimeError(f"the server did not come up:\n{said[-3000:]}")

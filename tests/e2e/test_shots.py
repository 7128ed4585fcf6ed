"""The pictures of the app and of a report, of the committed results; run by `make pictures`."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import app_room
import pytest

from genlab.benchmark.report import render_report
from genlab.benchmark.snapshot import find_run
from genlab.benchmark.store.repository import Store
from genlab.benchmark.terminal import choose
from genlab.core.params import load_params
from genlab.vae.training.checkpoint import CHECKPOINTS, RELEASED, find_checkpoint

TARGET = os.environ.get("GENLAB_SHOTS", "")
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not TARGET, reason="for the README; run: make pictures"),
]
STORE = app_room.ROOT / "runs" / "genlab.sqlite3"
PAGES = {
    "overview": "",
    "training": "training",
    "evaluation": "evaluation?dataset=fashion_mnist&show=Samplers",
    "cases": "cases",
    "benchmark": "benchmark?run={run}",
    "rate": "rate?of={run}&rater=ada",
}
SHOWN_FILES = ("results", "metrics", "plots", RELEASED.name)
MOST_BYTES = 200_000


def require_committed() -> None:
    """Fail where the pages would show another run than the committed one."""
    status = ["git", "status", "--porcelain", "--", *SHOWN_FILES]
    done = subprocess.run(status, cwd=app_room.ROOT, capture_output=True, text=True, check=True)
    assert not done.stdout, f"commit or restore first:\n{done.stdout}"
    for released in sorted((app_room.ROOT / RELEASED).glob("*.safetensors")):
        name = released.stem
        shown = find_checkpoint(name, app_room.ROOT / CHECKPOINTS / name)
        assert shown.read_bytes() == released.read_bytes(), f"{shown} is not {released}"


@pytest.fixture(scope="module")
def run_id() -> str:
    """The run of the benchmark that stage benchmark wrote results/benchmark.json from."""
    require_committed()
    if not STORE.exists():
        pytest.skip(f"{STORE} is missing; run: make repro")
    params = load_params(app_room.ROOT / "params.yaml").benchmark
    cases, contenders, _ = choose(params)
    with Store(STORE) as store:
        committed = find_run(
            store, [case for case in cases if not case.is_private], contenders, params.repeats
        )
    assert committed is not None, "the store has no run of params.yaml; run: dvc repro benchmark"
    return committed


@pytest.fixture(scope="module")
def own_server(run_id: str) -> Iterator[app_room.Server]:
    """A server over this repository's committed results, `run_id` among them."""
    with app_room.serving(app_room.ROOT) as served:
        yield served


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_pictured(
    own_server: app_room.Server, run_id: str, browser: Any, name: str
) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(120_000)
    page.goto(f"{own_server.base}/{PAGES[name].format(run=run_id)}")
    page.locator("h1").first.wait_for()
    page.wait_for_function(app_room.READY)
    if name == "overview":
        page.get_by_text("up to date").first.wait_for()  # dvc has answered
    page.wait_for_function("!document.querySelector('[data-testid=stSkeleton]')")
    page.wait_for_timeout(2500)  # charts draw themselves
    save_picture(page, f"app_{name}")


def test_the_report_is_pictured(run_id: str, tmp_path: Path, browser: Any) -> None:
    report = tmp_path / "report.html"
    with Store(STORE) as store:
        report.write_text(render_report(store, run_id), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1440, "height": 1150})
    page.goto(report.as_uri())
    page.wait_for_load_state("networkidle")
    save_picture(page, "benchmark_report")


def save_picture(page: Any, name: str) -> None:
    """Save a page as a JPEG file in TARGET, and close it."""
    file = app_room.ROOT / TARGET / f"{name}.jpg"
    page.screenshot(path=file, type="jpeg", quality=82)
    page.close()
    assert file.stat().st_size < MOST_BYTES

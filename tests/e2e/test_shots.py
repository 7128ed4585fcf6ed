"""The README's pictures of the app: `make pictures`. Real runs at a small size fill the pages."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import app_room
import pytest
import tiny
from furnished import ROOT
from PIL import Image
from ruamel.yaml import YAML

from genlab.benchmark.store.repository import Store
from genlab.core.io import atomic_write
from genlab.core.params import load_params

TARGET = os.environ.get("GENLAB_SHOTS", "")
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not TARGET, reason="for the README; run: make pictures"),
]
READY = "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"
TOOLS = "baseline_local,control_pasted,control_blurred"
CASES = ("astronaut-officer", "stairs-two-of-four", "window-two-avatars")
GOAL = "stripes on dummy, at least 95 % accuracy"
PAGES = {
    "overview": "",
    "data": "data",
    "training": "training?run=current+run&run=beta0",
    "evaluation": "evaluation?show=Latents",
    "failures": "failures",
    "agent": "agent",
    "benchmark": "benchmark?run={run}",
    "rate": "rate?of={run}&rater=ada",
}
DARK = ("training",)
PHONE = ("overview", "rate")
PHOTOGRAPHS = ("benchmark", "rate")
MOST_BYTES = 200_000


def build(folder: Path) -> None:
    """A clone with small data, a model, an agent's run and a run of the benchmark."""
    subprocess.run(
        ["git", "clone", "-q", "--depth", "1", f"file://{ROOT}", str(folder)], check=True
    )
    asked = load_params(folder / "params.yaml")
    tiny.write_dataset(folder / "data" / "arc_grids", 2000, asked=asked)
    scratch = folder / "runs" / "scratch"  # what git holds of the training stays as it is
    run(folder, "stages/train.py", "--dataset", "arc_grids", "--epochs", "20",
        "--epoch-size", "1600", "--metrics-path", str(scratch / "training.json"),
        "--plots-path", str(scratch / "training"))  # fmt: skip
    run(folder, "-m", "genlab.agent", "run", "--backend", "search", "--max-iterations", "5",
        "--no-compare", "--dataset", "dummy", GOAL)  # fmt: skip
    chosen = [option for case in CASES for option in ("--case", case)]
    run(folder, "-m", "genlab.benchmark", "run", "--tools", TOOLS, *chosen)
    settle(folder)


def settle(folder: Path) -> None:
    """Have dvc take the small data for the run's: the pictures show a pipeline at rest."""
    stages = YAML(typ="safe").load((folder / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    datasets = load_params(folder / "params.yaml").datasets
    for stage in stages.values():
        for entry in [*stage["deps"], *stage.get("outs", [])]:
            path = entry if isinstance(entry, str) else next(iter(entry))
            for name in datasets:
                place = folder / path.replace("${item.dataset}", name)
                if not place.exists():
                    file = place if place.suffix else place / "README"
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text("left out\n", encoding="utf-8")
    run(folder, "-m", "dvc", "commit", "--force", "--quiet")


def run(folder: Path, *command: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, *command], cwd=folder, env=environment, check=True)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[app_room.Server]:
    folder = tmp_path_factory.mktemp("shots") / "genlab"
    build(folder)
    with app_room.serving(folder) as served:
        yield served


def take(server: app_room.Server, browser: Any, name: str, width: int, target: Path) -> Path:
    """One page as a picture of `width`, a JPEG where it shows photographs."""
    with Store(server.folder / "runs" / "genlab.sqlite3") as store:
        run_id = store.runs()[0].run_id
    scheme = "dark" if name in DARK else "light"
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(f"{server.base}/{PAGES[name].format(run=run_id)}")
    page.locator("h1").first.wait_for()
    page.wait_for_function(READY)
    if name == "overview":
        page.get_by_text("up to date").first.wait_for()  # dvc has answered
    page.wait_for_function("!document.querySelector('[data-testid=stSkeleton]')")
    page.wait_for_timeout(2500)  # charts draw themselves
    raw = target / f".{name}.png"
    page.screenshot(path=raw)
    context.close()
    kind = "jpg" if name in PHOTOGRAPHS else "png"
    made = target / f"app_{name}{'' if width > 640 else '_phone'}.{kind}"
    with Image.open(raw) as picture, atomic_write(made) as temporary:
        if kind == "jpg":
            picture.convert("RGB").save(temporary, "JPEG", quality=82, optimize=True)
        else:
            picture.convert("RGB").quantize(128).save(temporary, "PNG", optimize=True)
    raw.unlink()
    return made


@pytest.mark.parametrize(
    ("name", "width"), [*((name, 1440) for name in PAGES), *((name, 390) for name in PHONE)]
)
def test_a_page_is_pictured(shown: app_room.Server, browser: Any, name: str, width: int) -> None:
    made = take(shown, browser, name, width, ROOT / TARGET)
    assert made.stat().st_size < MOST_BYTES

"""Files of ratings, votes and results, out and in again, with the programs that they are for.

label-studio-sdk checks and converts our tasks as Label Studio's export does; arena-rank ranks our
votes. Each is installed into a separate folder on first use.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.harness import ROOT, Result, benchmark
from genlab.benchmark.exchange import label_studio, results, stars, votes
from genlab.benchmark.leaderboard.preferences import fit_bradley_terry
from genlab.benchmark.leaderboard.standings import read_tables, split_votes
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import OUTCOMES, Contender

PEERS = ROOT / "build" / "formats"
RUN = "2026-01-01"
CASES = 20
CONVERT = """
import json, sys
from label_studio_sdk.converter import Converter
from label_studio_sdk.label_interface import LabelInterface
source, config, target = sys.argv[1:]
interface = LabelInterface(open(config).read())
interface.validate()
tasks = json.load(open(source))
for number, task in enumerate(tasks, 1):
    assert interface.validate_task({"data": task["data"]})
    task["id"] = number  # from here on what a server adds
    for annotation in task["annotations"]:
        assert interface.validate_annotation(annotation)
        annotation |= {"id": number, "completed_by": {"id": 1}, "was_cancelled": False}
json.dump(tasks, open(source, "w"))
Converter(open(config).read(), target).convert(source, target, "JSON", is_dir=False)
"""
RANK = """
import json, sys
import pandas
from arena_rank.models.bradley_terry import BradleyTerry
from arena_rank.utils.data_utils import PairDataset
data = PairDataset.from_pandas(pandas.read_csv(sys.argv[1]))
model = BradleyTerry(n_competitors=data.n_competitors)
model.fit(data)
print(json.dumps(dict(zip(data.competitors, map(float, model.params["ratings"])))))
"""


def run_peer(package: str, script: str, *arguments: Path) -> str:
    """Run a script with a package, installed where it is not; returns its output."""
    python = PEERS / package / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", PEERS / package], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", package], check=True)
    command = [python, "-c", script, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def fill(path: Path, rate: bool) -> Store:
    """A store with a run of four tools; three people rate it and compare its images."""
    store = Store(path)
    tools = [Contender(tool_id=name) for name in "abcd"]
    store.create_run(RUN, RUN, [{"case_id": f"case-{number}"} for number in range(CASES)], tools)
    items = store.items()
    for item in items:
        item.sqlmodel_update({"image_sha256": f"{item.item_id:064x}", "note": "=1+1"})
    store.save_items(items)
    rng = np.random.default_rng(0)
    for rater in ("ann", "Zoë, bob", '"eve"') if rate else ():
        for first in range(1, len(items), 4):
            first_item, second_item = (
                int(number) for number in first + rng.choice(4, 2, replace=False)
            )
            store.prefer(
                rater, first_item, second_item, OUTCOMES[rng.choice(4, p=(0.4, 0.3, 0.2, 0.1))]
            )
            store.rate("run_item", f"{first_item:064x}", rater, int(rng.integers(1, 6)), "blind")
    return store


@benchmark("swap.formats")
def swap_formats() -> Iterator[Result]:
    """Share of the files that come back equal."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = fill(folder / "1.sqlite3", True)
        second = fill(folder / "2.sqlite3", False)
        third = fill(folder / "3.sqlite3", False)
        out = {kind: folder / f"{kind}.csv" for kind in ("stars", "votes", "results", "again")}
        equal = {}
        stars.export_stars(first, out["stars"])
        stars.import_stars(second, out["stars"])
        stars.export_stars(second, out["again"])
        equal["stars"] = out["stars"].read_bytes() == out["again"].read_bytes()
        votes.export_votes(first, out["votes"])
        votes.import_votes(second, out["votes"])
        votes.export_votes(second, out["again"])
        equal["votes"] = out["votes"].read_bytes() == out["again"].read_bytes()
        theirs = pd.Series(json.loads(run_peer("arena-rank==0.1.1", RANK, out["votes"])))
        estimates = fit_bradley_terry(*split_votes(read_tables(first).preferences), prior=0.0)
        ours = pd.Series({tool: estimates[tool].value for tool in theirs.index})
        equal["arena-rank"] = bool(np.allclose(ours, theirs - theirs.mean(), atol=1e-6))
        tasks = folder / "tasks.json"
        config = tasks.with_suffix(".xml")
        label_studio.export_tasks(first, tasks)
        run_peer("label-studio-sdk==2.1.2", CONVERT, tasks, config, folder / "export")
        label_studio.import_tasks(third, folder / "export" / "result.json")
        stars.export_stars(third, out["again"])
        equal["Label Studio"] = out["stars"].read_bytes() == out["again"].read_bytes()
        results.export_results(first, out["results"])
        table = pd.read_csv(out["results"])
        equal["results"] = list(table.image_sha256) == [item.image_sha256 for item in first.items()]
        yield Result.share("swap.formats", sum(equal.values()), len(equal))
        print({name: ok for name, ok in equal.items() if not ok} or "all equal")

"""Scaling over processes, over the nodes of a cluster, and to a hundred times the data.

The cluster is two Ray nodes on this machine (extra `ray`); a node is killed while it draws shards.
"""

import hashlib
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, Result, benchmark, run_measured
from genlab.core.io import read_yaml, write_json
from genlab.core.params import load_params
from genlab.core.workers import import_ray, parallel_map
from genlab.datasets.arc_grids import make_distribution
from genlab.datasets.shards import SHARD, Shard, draw_shard
from genlab.grids.generator import AtomicImageGenerator, hash_grids

COUNT = 6  # shards to draw
KILLS = 5  # nodes to kill, one per run
KILLED_AFTER = 2  # shards that arrive before the node is killed
EPOCHS = 4
REPEATS = 5  # of short runs


@benchmark("scale.same_bytes", "scale.node_lost")
def cluster() -> Iterator[Result]:
    """Draw shards with 1 and 3 processes and on two Ray nodes, one of which is killed."""
    import_ray()  # its absence is one line
    from ray.cluster_utils import Cluster

    params = load_params()
    distribution = make_distribution(params.grids)
    excluded = hash_grids(AtomicImageGenerator(distribution).generate(SHARD, params.seed).grids)
    shards = [Shard(distribution, SHARD, (0, index), excluded) for index in range(1, COUNT + 1)]

    def digests(**engine: Any) -> Iterator[str]:
        for content in parallel_map(draw_shard, shards, params.with_overrides(**engine)):
            yield hashlib.sha256(content).hexdigest()

    expected = list(digests(workers=1))
    same = list(digests(workers=3)) == expected
    lost = 0
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    for run in range(KILLS + 1):  # nothing is killed in the first run
        second_node = nodes.add_node(num_cpus=1)
        received = []
        for digest in digests(engine="ray", ray_address=nodes.address, workers=2):
            received.append(digest)
            if run and len(received) == KILLED_AFTER:
                nodes.remove_node(second_node, allow_graceful=False)
        if not run:
            same = same and received == expected
            nodes.remove_node(second_node)
        lost += sum(digest not in received for digest in expected)
        print(f"{'node killed' if run else 'two nodes'}: {len(received)} of {COUNT} shards")
    nodes.shutdown()
    yield Result("scale.same_bytes", float(same), n=COUNT)
    yield Result("scale.node_lost", lost, n=KILLS)


@benchmark("scale.time_100x", "scale.memory_100x")
def shards() -> Iterator[Result]:
    """Measure time and memory of one process for 100 shards, relative to one shard.

    The time of ten grids, nearly all of it start-up, is subtracted from both.
    """
    seconds: list[float] = []
    memory: list[int] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size, repeats in (10, REPEATS), (SHARD, REPEATS), (100 * SHARD, 1):
            options = ("--count", size, "--output", folder / str(size))
            runs = [run_stage(folder, "generate", *options, workers=1) for _ in range(repeats)]
            seconds.append(statistics.median(elapsed for elapsed, _ in runs))
            memory.append(max(peak for _, peak in runs))
    facts = {"seconds": seconds, "bytes": memory}
    print(facts)
    start, once, longer = seconds
    yield Result("scale.time_100x", (longer - start) / (100 * (once - start)), details=facts)
    yield Result("scale.memory_100x", memory[2] / memory[1], details=facts)


@benchmark("scale.ddp_loss")
def processes() -> Iterator[Result]:
    """Compare the validation losses of training with one process and with two."""
    losses = []
    with tempfile.TemporaryDirectory() as folder:
        for number in (1, 2):
            torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={number}"]
            output = Path(folder) / str(number)
            data = Path("data/arc_grids").resolve()
            # As many threads in all: sums in another order alone change an early loss by 10 %.
            options = ("--data-path", data, "--epochs", EPOCHS, "--threads", 2 // number)
            run_stage(Path(folder), "train", *options, "--output", output, before=torchrun)
            losses.append(json.loads((output / "training.json").read_text())["series"]["loss"][-1])
    print(f"validation loss {losses[0]:.4f} by one process, {losses[1]:.4f} by two")
    difference = abs(losses[1] - losses[0]) / abs(losses[0])
    yield Result("scale.ddp_loss", difference, details={"losses": losses})


def run_stage(
    folder: Path, stage: str, *options: object, before: Sequence[str] = (), workers: int = 0
) -> tuple[float, int]:
    """Run a stage in `folder` with our params; return seconds and the peak memory in bytes."""
    params = read_yaml(ROOT / "params.yaml") | {"workers": workers}
    write_json(folder / "params.yaml", params)  # JSON is YAML
    return run_measured([sys.executable, *before, ROOT / f"stages/{stage}.py", *options], folder)

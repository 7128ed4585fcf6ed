"""Run the pipeline on a small task in a temporary clone; the user's results stay untouched.

    python -m scripts.smoke [--keep FOLDER]

The clone holds the working tree as it is, uncommitted changes and new files included.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from scripts.summary import describe_next, describe_stages

from genlab.core import git
from genlab.core.errors import run_cli
from genlab.core.io import read_yaml
from genlab.experiments.definitions import apply_changes

ROOT = Path(__file__).resolve().parent.parent
# Learnt in about two minutes on two cores, at the default beta; benchmark smoke_time measures it.
TASK = "grids of 8 x 8 with one or two objects, and 4,000 images of Fashion-MNIST"
SMALL: dict[str, Any] = {
    "grids.count": 3000,
    "grids.size": 8,
    "grids.max_objects": 2,
    "latent_dim": 64,  # four per patch, as by default
    "prior_width": 32,
    "prior_depth": 1,
    "prior_components": 16,
    "epochs": 6,
    "samples_per_epoch": 6144,
    "beta_delay": 0.6,  # most of the run is for reconstructions, which are printed
    "prior_share": 0.25,
    "bootstrap": 100,
    "evaluate.samples": 200,
    "evaluate.iwae_samples": 8,
    "evaluate.iwae_items": 16,
    "evaluate.image_samples": 200,
    "evaluate.extractor_examples": 4000,
    "images.count": 2000,
    "images_model.prior_width": 16,
    "images_model.prior_components": 4,
    "images_model.causal_channels": 8,
    "images_model.epochs": 6,
    "images_model.samples_per_epoch": 4096,
    "images_model.prior_share": 0.2,
    "fashion_mnist.latent_dim": 196,
    "agent.backend": "search",
    "agent.compare_with_search": False,
    "agent.max_iterations": 2,
    "agent.examples": 640,  # a batch of each epoch of the reference
    "agent.subset": 200,
    "agent.validation": 100,
    "agent.seeds": 1,
    "agent.confirmation_seeds": 2,
    "benchmark.tools": ["control_untouched", "control_pasted"],
}
LEARNT = (
    ("arc_grids", "exact_match", "fraction of test grids without a wrong cell"),
    ("fashion_mnist", "ssim", "SSIM of test images"),
)
# Nothing is downloaded: without Fashion-MNIST on this machine, its stages and the agent's, whose
# goal is about it, are left out.
TARGETS: tuple[str, ...] = ()
if not Path("/usr/share/datasets/fashion-mnist").is_dir():
    SMALL["datasets"] = ["arc_grids"]
    TARGETS = ("failure_gallery@arc_grids", "benchmark")
IDENTITY = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "genlab"), ("EMAIL", "genlab@localhost"))
}
# Nor are commits signed, for which git may ask somebody for a passphrase.
IDENTITY |= {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "commit.gpgsign",
    "GIT_CONFIG_VALUE_0": "false",
}


def clone(target: Path, params: Mapping[str, Any], source: Path = ROOT) -> Path:
    """Copy what git tracks or would add in `source` to `target`, with `params`, as one commit.

    `target` gets its own git history and its own dvc cache. `dvc.lock` stays behind, so that every
    stage is run.
    """
    for name in set(git.list_files(source)) - {"dvc.lock"}:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / name, target / name)
    with (target / "params.yaml").open("w", encoding="utf-8") as file:
        YAML().dump(apply_changes(read_yaml(source / "params.yaml"), params, "smoke"), file)
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "The working tree"]):
        subprocess.run(["git", *command], cwd=target, check=True, env={**os.environ, **IDENTITY})
    return target


def run(folder: Path, command: Sequence[str]) -> None:
    """Run `command` in a clone: its own code, this interpreter, its own dvc cache."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # PYTHONPATH comes before the editable install of the original.
    settings = {"PATH": path, "PYTHONPATH": str(folder / "src"), "DVC_NO_ANALYTICS": "1"}
    subprocess.run(command, cwd=folder, check=True, env={**os.environ, **IDENTITY, **settings})


def smoke(folder: Path, params: Mapping[str, Any] = SMALL) -> Path:
    """Run the pipeline in a clone below `folder`; returns the clone."""
    target = clone(folder / "genlab", params)
    run(target, [sys.executable, "-m", "dvc", "repro", *TARGETS])
    return target


def describe_models(folder: Path) -> str:
    """Say in a line how well the models of a clone reconstruct the test split."""
    lines = []
    for name, metric, meaning in LEARNT:
        file = folder / "metrics" / f"{name}.json"
        if file.is_file():
            value = json.loads(file.read_text(encoding="utf-8"))[metric]
            lines.append(f"{name}: {meaning} {value:.3f}")
    return "reconstructed: " + "; ".join(lines)


def main() -> None:
    """Run the pipeline; print its metrics, the time of each stage, and what to do next."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, help="keep the clone in this new folder")
    keep = parser.parse_args().keep
    print(f"smoke: a task that is learnt in minutes: {TASK}")
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="genlab-smoke-") as temporary:
        try:
            target = smoke(keep or Path(temporary))
            run(target, [sys.executable, "-m", "dvc", "metrics", "show"])
        except subprocess.CalledProcessError as error:
            sys.exit(f"smoke: `{' '.join(map(str, error.cmd))}` failed: see above")
        print("", *describe_stages(target), "", describe_models(target), sep="\n")
        if keep:
            print(*describe_next(target), sep="\n")
        else:
            print("next:\n  make smoke ARGS='--keep FOLDER'  the same, and its files stay there")
    ran = " and ".join(TARGETS) or "the whole pipeline"
    print(f"smoke: {ran} ran in {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    run_cli(main)

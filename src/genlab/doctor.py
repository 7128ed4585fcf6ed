"""What this machine has and lacks, and which job each thing affects."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from packaging.requirements import Requirement

GIB = 1 << 30
NEEDED_DISK = 2 * GIB  # data, checkpoints and DVC's cache of one full run
RAW_FOLDERS = {
    "fashion_mnist": "FashionMNIST",
    "mnist": "MNIST",
    "cifar10": "cifar-10-batches-py",
    "celeba": "celeba",
}
EXTRAS = {
    "app": "the app (make app)",
    "faces": "benchmark: scores of faces",
    "embedded": "agent: the small model on this machine",
    "wandb": "Weights & Biases mirror",
    "celeba": "download of CelebA",
    "dev": "tests and checks",
}


PROGRAMS = (
    ("git", ("git",), "the pipeline (DVC)", True),
    (
        "chromium",
        ("chromium", "chromium-browser", "google-chrome"),
        "tests in a browser; pictures of the app",
        False,
    ),
)
ENDPOINT = ("OPENAI_API_KEY", "OPENAI_BASE_URL")


class Check(NamedTuple):
    """Whether something was found; `job`: what cannot be done, or differs, without it."""

    name: str
    found: bool
    detail: str
    job: str
    required: bool = False  # the pipeline cannot run without it


def examine(root: Path) -> Iterator[Check]:
    """All checks of this machine, for the project in `root`. Nothing secret is in them."""
    import torch

    from genlab.sandbox.runner import find_fault

    yield from check_packages()
    for name, names, job, required in PROGRAMS:
        program = next(filter(None, map(shutil.which, names)), None)
        yield Check(name, program is not None, program or "not on PATH", job, required)
    free = shutil.disk_usage(root).free
    detail = f"{free / GIB:.1f} GiB free, a full run needs {NEEDED_DISK / GIB:.0f} GiB"
    yield Check("disk", free >= NEEDED_DISK, detail, "the pipeline", required=True)
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    yield Check("GPU", bool(gpu), gpu or "none", "speed only: everything runs on the CPU")
    for mode in ("bubblewrap", "landlock"):
        fault = find_fault(mode, shutil.which("bwrap"))
        job = "agent: runs generated code in the better of both, and needs one"
        yield Check(mode, not fault, fault or "works", job)
    known = [name for name in ENDPOINT if os.environ.get(name)]
    detail = ", ".join(f"{name} {'' if name in known else 'not '}set" for name in ENDPOINT)
    job = "agent with --backend openai; paid image tools"
    yield Check("LLM endpoint", bool(known), detail, job)
    yield from check_datasets(root)


def check_packages() -> Iterator[Check]:
    """Python, the packages of pyproject.toml, and each of its extras."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("Python", sys.version_info >= (3, 10), version, "everything", required=True)
    requirements = [Requirement(line) for line in metadata.requires("genlab") or ()]
    for extra, job in {"": "everything", **EXTRAS}.items():
        missing = [
            each.name
            for each in requirements
            if (each.marker.evaluate({"extra": extra}) if each.marker else not extra)
            and not _installed(each)
        ]
        detail = f"missing: {', '.join(missing)}" if missing else "installed"
        name = f"packages [{extra}]" if extra else "packages"
        yield Check(name, not missing, detail, job, required=not extra)


def _installed(requirement: Requirement) -> bool:
    try:
        return requirement.specifier.contains(metadata.version(requirement.name), prereleases=True)
    except metadata.PackageNotFoundError:
        return False


def check_datasets(root: Path) -> Iterator[Check]:
    """Published image datasets in data/raw, or a copy of the system."""
    from genlab.datasets.sources import SYSTEM_FOLDERS

    for name, folder in RAW_FOLDERS.items():
        places = [root / "data" / "raw" / folder]
        places += [SYSTEM_FOLDERS[name]] if name in SYSTEM_FOLDERS else []
        found = next((place for place in places if place.is_dir()), None)
        detail = str(found) if found else "not here; downloaded at its first use"
        yield Check(name, found is not None, detail, f"experiments with {name}")


def format_table(checks: list[Check]) -> str:
    """The checks as lines of text, one each, and a last line that sums them up."""
    rows = [
        ("ok" if check.found else "FAIL" if check.required else "-", *check[:1], *check[2:4])
        for check in checks
    ]
    lacking = [check.name for check in checks if check.required and not check.found]
    verdict = f"missing: {', '.join(lacking)}" if lacking else "the pipeline can run here"
    table = pd.DataFrame(rows).to_markdown(index=False, headers=(), tablefmt="plain")
    return f"{table}\n{verdict}"

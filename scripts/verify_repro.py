"""Run the pipeline in two small clones and compare byte for byte what its stages wrote.

    python -m scripts.verify_repro [--compare A B]

It runs two new clones in a temporary folder, or takes two in which the pipeline has run.
The new clones lie in folders of different depth and run with different numbers of workers.
`threads` changes sums, so it is the same. Figures may differ in metadata, not in pixels. The exit
code is 1 if a file is missing or differs beyond what EXCEPTIONS allows; the new clones then stay.
"""

import argparse
import io
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

from PIL import Image
from scripts.smoke import SMALL, run, smoke

from genlab.core import git
from genlab.core.errors import GenlabError, run_cli

PLACES = ("data", "checkpoints", "metrics", "results", "plots", "reports", "README.md")
# Workers share shards of 100,000 grids: three shards, and few grids to measure.
SIZE = SMALL | {"grids.count": 250_000, "grids.val_share": 0.01, "grids.test_share": 0.01}
CLONES = {
    "one": {"workers": 1, "benchmark.concurrency": 1},
    "two/levels/deeper": {"workers": 2, "benchmark.concurrency": 4},
}
# Files that may differ, the bound (only text that matches this pattern may), and the reason.
PROVENANCE = (
    r'"(commit|params|run)": "[0-9a-f]+"|"training_seconds": [0-9.]+',
    "commit of the clone, digests of all params (workers is one) and of code, wall time",
)
EXCEPTIONS = (
    ("data/checkpoints/*/provenance.json", *PROVENANCE),
    ("checkpoints/*.json", *PROVENANCE),
    ("data/evaluated/*/timing.json", r"[0-9]+\.[0-9]+", "seconds of the measurement"),
    (
        "data/agent/report.*",
        r"(took|out in) [0-9.]+ s|data:image/png;base64,[A-Za-z0-9+/=]+",
        "seconds of answers and attempts; the figure, compared as data/agent/progress.png",
    ),
    ("data/agent/transcript.jsonl", r'"seconds": ?[0-9.e-]+', "seconds of the answers"),
    ("data/agent_search/project.json", r'"key": "[0-9a-f]+"', "digest of code among others"),
    ("data/checkpoints/*/timing/*", r"[0-9]+\.[0-9]+", "items per second"),
    (
        "data/benchmark/report.html",
        r"run [0-9-]{10}|started [0-9: -]{16} UTC|<td>[0-9]+\.[0-9]</td></tr>",
        "date and start of the run, seconds per image",
    ),
    ("reports/*.pdf", r"/(Creation|Mod)Date \(D:[^)]*\)", "date of printing"),
)


def written_files(clone: Path) -> set[str]:
    """Files below PLACES that the clone's commit lacks or has otherwise, removed ones included."""
    listed = git.run_git(clone, "ls-files", "-z", "--others", "--modified", "--", *PLACES)
    if not listed:
        raise GenlabError(f"{clone}: no stage has written a file there; run: make verify-repro")
    return set(listed.decode().strip("\0").split("\0"))


def compare_file(first: Path, second: Path, name: str) -> tuple[str, str]:
    """How the file `name` of two clones compares (equal, exception or different), and why."""
    contents = []
    for clone in (first, second):
        if not (clone / name).is_file():
            return "different", f"missing in {clone}"
        contents.append((clone / name).read_bytes())
    if contents[0] == contents[1]:
        return "equal", ""
    if name.endswith(".png") and have_same_pixels(*contents):
        return "exception", "metadata of the figure"
    for files, bound, reason in EXCEPTIONS:
        if fnmatch(name, files):
            rest = [re.subn(bound.encode(), b"", content) for content in contents]
            if rest[0] == rest[1]:
                return "exception", reason
            return "different", f"beyond its exception: {reason}"
    return "different", "content"


def have_same_pixels(first: bytes, second: bytes) -> bool:
    """Return whether two encoded images have the same mode, size and pixels."""
    try:
        images = [Image.open(io.BytesIO(content)) for content in (first, second)]
        pixels = [(image.mode, image.size, image.tobytes()) for image in images]
    except OSError:  # truncated, or no image
        return False
    return pixels[0] == pixels[1]


def compare_clones(first: Path, second: Path) -> bool:
    """Print the comparison of all written files; whether none is different."""
    outcomes = {
        name: compare_file(first, second, name)
        for name in sorted(written_files(first) | written_files(second))
        if (first / name).is_file() or (second / name).is_file()  # else both have removed it
    }
    for name, (kind, why) in outcomes.items():
        if kind != "equal":
            print(f"{kind}: {name}: {why}")
    counts = Counter(kind for kind, _ in outcomes.values())
    print(f"files compared  {len(outcomes):6}")
    for kind in ("equal", "exception", "different"):
        print(f"{kind:16}{counts[kind]:6}")
    return not counts["different"]


def run_clones(folder: Path) -> list[Path]:
    """Run pipeline and reports in each clone below `folder`, one after the other."""
    clones = [smoke(folder / place, SIZE | workers) for place, workers in CLONES.items()]
    for clone in clones:
        run(clone, [sys.executable, "-m", "genlab.cli", "report"])
    return clones


def main() -> None:
    """Run and compare; exit with 1 where a file is different."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("A", "B"), help="clones that ran")
    if chosen := parser.parse_args().compare:
        sys.exit(not compare_clones(*chosen))
    folder = Path(tempfile.mkdtemp(prefix="genlab-verify-"))
    try:
        same = compare_clones(*run_clones(folder))
    except subprocess.CalledProcessError as error:
        sys.exit(f"verify-repro: `{' '.join(map(str, error.cmd))}` failed in {folder}: see above")
    if not same:
        sys.exit(f"verify-repro: the clones stay in {folder}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    run_cli(main)

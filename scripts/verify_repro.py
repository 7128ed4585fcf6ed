"""Run the pipeline in two small clones, and compare the files of its stages byte for byte.

    python -m scripts.verify_repro [--compare A B]

It makes two clones in a temporary folder, or compares two in which the pipeline has run. The new
clones are in folders of different depth and use different numbers of workers, but the same number
of threads, which changes sums. Figures may differ in metadata, not in pixels. The exit code is 1 if
a file is missing or differs beyond what EXCEPTIONS allows; the new clones are kept then.
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
# Files that may differ, the pattern of text that may differ in them, and the reason.
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
        r"(took|out in) [0-9.]+ s|data:image/png;base64,[A-Za-z0-9+/=]+|qe_[0-9_]+"
        r"|seconds of a training( \| |</td>\s*<td>)[0-9.]+"
        r"|[0-9.]+(?=( \| |</td>\s*<td[^>]*>)[A-Z][a-z]+: )",  # a cell before that of a decision
        "seconds and dates of answers and attempts; the figure is compared as progress.png",
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


def list_written_files(clone: Path) -> set[str]:
    """Return the files below PLACES that stages wrote, changed or removed since the commit."""
    listed = git.run_git(clone, "ls-files", "-z", "--others", "--modified", "--", *PLACES)
    if not listed:
        raise GenlabError(f"{clone}: no stage has written a file there; run: make verify-repro")
    return set(listed.decode().strip("\0").split("\0"))


def compare_file(first: Path, second: Path, name: str) -> tuple[str, str]:
    """Compare the file `name` of two clones: `equal`, `exception` or `different`, and why."""
    contents = []
    for clone in (first, second):
        if not (clone / name).is_file():
            return "different", f"missing in {clone}"
        contents.append((clone / name).read_bytes())
    if contents[0] == contents[1]:
        return "equal", ""
    if name.endswith(".png") and have_same_pixels(*contents):
        return "exception", "metadata of the figure"
    for files, pattern, reason in EXCEPTIONS:
        if fnmatch(name, files):
            # The rest of both files, and how many matches were removed, must be equal.
            rests = [re.subn(pattern.encode(), b"", content) for content in contents]
            if rests[0] == rests[1]:
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
    """Print the comparison of all written files; return whether none is different."""
    outcomes = {}
    for name in sorted(list_written_files(first) | list_written_files(second)):
        if (first / name).is_file() or (second / name).is_file():  # else both removed it
            outcomes[name] = compare_file(first, second, name)
    for name, (kind, why) in outcomes.items():
        if kind != "equal":
            print(f"{kind}: {name}: {why}")
    counts = Counter(kind for kind, _ in outcomes.values())
    print(f"files compared  {len(outcomes):6}")
    for kind in ("equal", "exception", "different"):
        print(f"{kind:16}{counts[kind]:6}")
    return not counts["different"]


def run_clones(folder: Path) -> list[Path]:
    """Run pipeline and reports in two clones below `folder`, one after the other."""
    clones = [smoke(folder / path, SIZE | workers) for path, workers in CLONES.items()]
    for clone in clones:
        run(clone, [sys.executable, "-m", "genlab.cli", "report"])
    return clones


def main() -> None:
    """Run and compare; exit with status 1 if a file is different."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("A", "B"), help="clones that ran")
    clones = parser.parse_args().compare
    if clones:
        sys.exit(not compare_clones(*clones))
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

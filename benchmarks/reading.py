"""Reading a user's own pictures: the same through every convention, fast, in constant memory.

Two libraries read the same JPEG files, on all cores, to 64 x 64 arrays on disk: torchvision's
ImageFolder with a DataLoader of as many workers; Hugging Face `datasets` (imagefolder, `map`) with
as many processes, which is installed into build/libraries. Every reader is a separate process,
timed with its imports; readers take turns.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import own_data
import own_fuzz
import own_inputs
import typer
from PIL import Image, ImageFilter

from benchmarks.harness import MEASURE, ROOT, Result, benchmark
from genlab.core.errors import GenlabError
from genlab.core.params.sections import SourceParams
from genlab.core.progress import progress
from genlab.datasets.readers.grids import open_tasks
from genlab.datasets.readers.opening import read_pictures

LIBRARIES = ROOT / "build" / "libraries"
HUGGING_FACE = "datasets==5.2.0"
WIDTH, HEIGHT = 500, 400  # of a JPEG file, in pixels
DIFFERENT = 200  # JPEG files that differ
OURS = """
import sys
from functools import partial
from pathlib import Path
from genlab.core.params import load_params
from genlab.core.params.sections import SourceParams
from genlab.core.workers import parallel_map
from genlab.datasets.readers.opening import read_pictures
if __name__ == "__main__":
    folder, output, workers = sys.argv[1:]
    params = load_params().with_overrides(workers=int(workers))
    source = SourceParams(path=folder, size=64, channels="rgb")
    pictures = read_pictures(source, Path(output), partial(parallel_map, params=params))
    assert pictures.fitted.levels.shape[1:] == (64, 64, 3)
"""
TORCHVISION = """
import sys
import numpy as np
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
if __name__ == "__main__":
    folder, output, workers = sys.argv[1:]
    to_levels = transforms.Compose(
        [transforms.Resize(64), transforms.CenterCrop(64), transforms.PILToTensor()]
    )
    files = datasets.ImageFolder(folder, to_levels)
    levels = np.lib.format.open_memmap(output, "w+", np.uint8, (len(files), 3, 64, 64))
    start = 0
    for batch, _ in DataLoader(files, batch_size=200, num_workers=int(workers)):
        levels[start : start + len(batch)] = batch.numpy()
        start += len(batch)
"""
DATASETS = """
import sys
import numpy as np
from datasets import load_dataset
from PIL import ImageOps
def shrink(row):
    row["levels"] = np.asarray(ImageOps.fit(row["image"].convert("RGB"), (64, 64)))
    return row
if __name__ == "__main__":
    folder, output, workers = sys.argv[1:]
    options = {"split": "train", "num_proc": int(workers), "cache_dir": output + ".cache"}
    rows = load_dataset("imagefolder", data_dir=folder, **options)
    rows.map(shrink, num_proc=int(workers), remove_columns=["image"]).save_to_disk(output)
"""

Count = Annotated[int, typer.Option(min=10, help="Files.")]


@benchmark("data.inputs")
def inputs() -> Iterator[Result]:
    """Count inputs that were misread once, and siblings, that are read rightly or refused."""
    wrong = []
    for name, check in own_inputs.CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            if not check(Path(folder)):
                wrong.append(name)
    count = len(own_inputs.CASES)
    rate = Result.rate("data.inputs", count - len(wrong), count)
    yield replace(rate, details={"wrong": wrong})


@benchmark("data.conventions")
def conventions() -> Iterator[Result]:
    """Count conventions that give the same 200 pictures with labels, or the same 60 tasks."""
    pictures, labels = own_data.draw(200)
    same = []
    for name, write in own_data.CONVENTIONS.items():
        expected = {
            pixels.tobytes(): None if name in own_data.UNLABELLED else own_data.NAMES[label]
            for pixels, label in zip(pictures, labels, strict=True)
        }
        with tempfile.TemporaryDirectory() as folder:
            path = write(Path(folder, "x"), pictures, labels)
            own_pictures = read_pictures(SourceParams(path=str(path)))
        classes = [
            own_pictures.classes[label] if label >= 0 else None for label in own_pictures.labels
        ]
        rows = (levels.tobytes() for levels in own_pictures.fitted.levels)
        same.append(dict(zip(rows, classes, strict=True)) == expected)
    tasks = own_data.draw_tasks(60)
    expected_grids = sorted(map(str, own_data.list_grids(tasks)))
    for write_tasks in own_data.TASK_CONVENTIONS.values():
        with tempfile.TemporaryDirectory() as folder:
            source = open_tasks(SourceParams(path=str(write_tasks(Path(folder, "x"), tasks))))
        same.append(sorted(str(grid.cells.tolist()) for grid in source.grids) == expected_grids)
    yield Result.rate("data.conventions", sum(same), len(same))


@benchmark("data.speed_torchvision", "data.speed_huggingface")
def reading_speed(count: Count = 20_000, repeats: int = 3) -> Iterator[Result]:
    """Time our reader and two libraries on JPEG files of 500 x 400 pixels."""
    install_libraries()
    readers = {"ours": OURS, "torchvision": TORCHVISION, "huggingface": DATASETS}
    seconds: dict[str, list[float]] = {name: [] for name in readers}
    with tempfile.TemporaryDirectory(prefix="genlab-photographs-") as name:
        folder = write_photographs(Path(name, "photographs"), count)
        for _ in range(repeats):
            for reader, script in readers.items():
                started = time.perf_counter()
                run_reader(script, folder)
                seconds[reader].append(time.perf_counter() - started)
    for library in ("torchvision", "huggingface"):
        ratios = [a / b for a, b in zip(seconds["ours"], seconds[library], strict=True)]
        details = {"seconds": {"ours": seconds["ours"], library: seconds[library]}, "files": count}
        yield replace(Result.median(f"data.speed_{library}", ratios), details=details)


@benchmark("data.memory_10x")
def reading_memory(count: Count = 20_000) -> Iterator[Result]:
    """Measure the peak memory of our reader for all files, relative to a tenth of them."""
    peaks: dict[int, int] = {}
    with tempfile.TemporaryDirectory(prefix="genlab-photographs-") as name:
        for files in (count // 10, count):
            folder = write_photographs(Path(name, str(files)), files)
            peak_file = Path(name, "peak")
            command = [sys.executable, "-c", MEASURE, str(peak_file), sys.executable, "-c", OURS]
            subprocess.run([*command, str(folder), f"{name}/x.npy", "1"], check=True, cwd=ROOT)
            peaks[files] = int(peak_file.read_text())
    ratio = peaks[count] / peaks[count // 10]
    yield Result("data.memory_10x", ratio, details={"peak_kib": peaks})


@benchmark("data.fuzz")
def fuzz(cases: Annotated[int, typer.Option(min=1, help="Cases.")] = 20_000) -> Iterator[Result]:
    """Count damaged files that crash a reader, or after which files lie outside the target."""
    faults: list[str] = []
    with tempfile.TemporaryDirectory(prefix="genlab-fuzz-") as name:
        paths = own_fuzz.write_all(Path(name, "data"))
        before = sorted(Path(name).rglob("*"))
        shares = np.array_split(np.arange(cases), max(1, cases // 500))
        for seed, share in enumerate(progress(shares, desc="damaged files", unit="part")):
            for convention, fault in own_fuzz.run_cases(paths, len(share), seed):
                faults.append(f"{convention}: {fault.strip().splitlines()[-1]}")
                print(convention, fault, sep="\n", file=sys.stderr)
        faults += [f"left: {path}" for path in set(Path(name).rglob("*")) - set(before)]
    yield Result("data.fuzz", len(faults), n=cases, details={"faults": faults})


def install_libraries() -> None:
    """Install Hugging Face `datasets` into build/libraries, unless it is there."""
    if not (LIBRARIES / "datasets").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(LIBRARIES)]
        result = subprocess.run([*command, HUGGING_FACE, "--no-warn-conflicts"], check=False)
        if result.returncode:
            raise GenlabError(f"{HUGGING_FACE} cannot be installed; the benchmark needs an index")


def write_photographs(folder: Path, count: int) -> Path:
    """Write JPEG files of about 40 KB in two classes: blurred noise, DIFFERENT distinct images."""
    rng = np.random.default_rng(0)
    contents = []
    for _ in range(min(count, DIFFERENT)):
        noise = rng.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
        image = Image.fromarray(noise).filter(ImageFilter.GaussianBlur(2))
        with tempfile.TemporaryFile() as file:
            image.save(file, "JPEG", quality=90)
            file.seek(0)
            contents.append(file.read())
    for number in range(count):
        file = folder / "ab"[number % 2] / f"{number:06d}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(contents[number % len(contents)])
    return folder


def run_reader(script: str, folder: Path) -> None:
    """Run a reader on all cores, in a new folder, so that it can resume nothing."""
    workers = str(os.cpu_count() or 1)
    with tempfile.TemporaryDirectory() as home:
        file = Path(home, "reader.py")  # its processes import it again
        output = Path(home, "levels.npy")
        file.write_text(script, encoding="utf-8")
        path = f"{LIBRARIES}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": home}
        if script is DATASETS:
            environment["PYTHONPATH"] = path
        command = [sys.executable, str(file), str(folder), str(output), workers]
        subprocess.run(command, check=True, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)

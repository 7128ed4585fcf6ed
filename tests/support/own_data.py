"""The same pictures and grids in every convention in which people exchange them."""

import csv
import gzip
import io
import json
import shutil
import tarfile
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import tifffile
from PIL import Image
from scipy.io import savemat

Pictures = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]
Writer = Callable[[Path, Pictures, Labels], Path]

SIDE = 16
NAMES = ("0", "1", "2")


def draw(count: int = 200, seed: int = 0) -> tuple[Pictures, Labels]:
    """Draw colour pictures of shape (count, SIDE, SIDE, 3), no two of them equal, and classes."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, SIDE, SIDE, 3), dtype=np.uint8), np.arange(count) % 3


def encode(pixels: Pictures) -> bytes:
    """Encode a picture as PNG."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def write_folders(folder: Path, pictures: Pictures, labels: Labels) -> Path:
    for number, (pixels, label) in enumerate(zip(pictures, labels, strict=True)):
        (folder / NAMES[label]).mkdir(parents=True, exist_ok=True)
        (folder / NAMES[label] / f"{number}.png").write_bytes(encode(pixels))
    return folder


def write_archive(kind: str) -> Writer:
    def write(folder: Path, pictures: Pictures, labels: Labels) -> Path:
        write_folders(folder / "set", pictures, labels)
        return Path(shutil.make_archive(str(folder / "set"), kind, folder / "set"))

    return write


def write_table(folder: Path, pictures: Pictures, labels: Labels) -> Path:
    folder.mkdir(parents=True)
    with (folder / "labels.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["file_name", "label"])
        for number, (pixels, label) in enumerate(zip(pictures, labels, strict=True)):
            (folder / f"{number}.png").write_bytes(encode(pixels))
            rows.writerow([f"{number}.png", label])
    return folder


def write_one_hot_table(folder: Path, pictures: Pictures, labels: Labels) -> Path:
    folder.mkdir(parents=True)
    lines = ["image;" + ";".join(NAMES)]
    for number, (pixels, label) in enumerate(zip(pictures, labels, strict=True)):
        (folder / f"scan_{number}.png").write_bytes(encode(pixels))
        lines.append(f"scan_{number};" + ";".join(str(float(label == k)) for k in range(3)))
    (folder / "truth.csv").write_text("\n".join(lines))
    return folder


def write_json_lines(folder: Path, pictures: Pictures, labels: Labels) -> Path:
    (folder / "images").mkdir(parents=True)
    lines = []
    for number, (pixels, label) in enumerate(zip(pictures, labels, strict=True)):
        (folder / f"images/{number}.png").write_bytes(encode(pixels))
        lines.append(json.dumps({"file_name": f"images/{number}.png", "label": int(label)}))
    (folder / "metadata.jsonl").write_text("\n".join(lines))
    return folder


def write_npz(folder: Path, pictures: Pictures, labels: Labels) -> Path:
    folder.mkdir(parents=True)
    np.savez(folder / "set.npz", x=pictures, y=labels)
    return folder / "set.npz"


def write_hdf5(folder: Path, pictures: Pictures, labels: Labels) -> Path:
    folder.mkdir(parents=True)
    with h5py.File(folder / "set.h5", "w") as file:
        file.create_dataset("images", data=pictures, compression="gzip")
        file.create_dataset("labels", data=labels)
    return folder / "set.h5"


def write_matlab(folder: Path, pictures: Pictures, labels: Labels) -> Path:
    folder.mkdir(parents=True)
    savemat(folder / "set.mat", {"X": pictures.transpose(1, 2, 3, 0), "y": labels[:, None]})
    return folder / "set.mat"


def write_matlab_73(folder: Path, pictures: Pictures, labels: Labels) -> Path:
    folder.mkdir(parents=True)
    with h5py.File(folder / "set.mat", "w", userblock_size=512) as file:
        file["X"] = pictures.transpose(0, 3, 2, 1)
        file["y"] = labels[None]
    return folder / "set.mat"


def encode_idx(array: npt.NDArray[Any]) -> bytes:
    """Encode an array of bytes as an IDX file (LeCun 1998)."""
    sizes = np.array(array.shape, dtype=">u4").tobytes()
    return bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


def write_idx(folder: Path, pictures: Pictures, labels: Labels) -> Path:
    folder.mkdir(parents=True)
    for name, array in (("images-idx4", pictures), ("labels-idx1", labels)):
        (folder / f"{name}-ubyte.gz").write_bytes(gzip.compress(encode_idx(array)))
    return folder


def write_parquet(folder: Path, pictures: Pictures, labels: Labels) -> Path:
    folder.mkdir(parents=True)
    rows = [{"bytes": encode(pixels), "path": None} for pixels in pictures]
    table = pa.table({"image": rows, "label": labels})
    features = {"image": {"_type": "Image"}, "label": {"names": NAMES, "_type": "ClassLabel"}}
    facts = json.dumps({"info": {"features": features}})
    table = table.replace_schema_metadata({"huggingface": facts})
    pq.write_table(table, folder / "train-00000-of-00001.parquet", row_group_size=64)
    return folder


def write_webdataset(folder: Path, pictures: Pictures, labels: Labels) -> Path:
    folder.mkdir(parents=True)
    for shard in range(2):
        with tarfile.open(folder / f"shard-{shard:04d}.tar", "w") as archive:
            for number in range(shard, len(pictures), 2):
                for ending, data in (
                    ("png", encode(pictures[number])),
                    ("cls", str(labels[number]).encode()),
                ):
                    member = tarfile.TarInfo(f"{number:05d}.{ending}")
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))
    return folder


def write_tiff(folder: Path, pictures: Pictures, labels: Labels) -> Path:
    folder.mkdir(parents=True)
    tifffile.imwrite(folder / "stack.tif", pictures, photometric="rgb")
    return folder / "stack.tif"


CONVENTIONS: dict[str, Writer] = {
    "folders": write_folders,
    "zip": write_archive("zip"),
    "tar": write_archive("tar"),
    "tar.gz": write_archive("gztar"),
    "labels.csv": write_table,
    "one-hot table": write_one_hot_table,
    "metadata.jsonl": write_json_lines,
    "npz": write_npz,
    "HDF5": write_hdf5,
    "MATLAB": write_matlab,
    "MATLAB 7.3": write_matlab_73,
    "IDX": write_idx,
    "Parquet": write_parquet,
    "WebDataset": write_webdataset,
    "TIFF stack": write_tiff,
}
"""Functions by convention that write pictures into a new folder and return the path to read."""
UNLABELLED = {"TIFF stack"}
"""Conventions that hold no classes."""


Task = dict[str, list[dict[str, list[list[int]]]]]
Tasks = dict[str, Task]


def draw_tasks(count: int = 60, seed: int = 0) -> Tasks:
    """Draw ARC tasks of two training pairs and a test pair, with grids of 3 to 9 cells per side."""
    rng = np.random.default_rng(seed)

    def grid() -> list[list[int]]:
        return rng.integers(0, 10, rng.integers(3, 10, 2)).tolist()

    def pair() -> dict[str, list[list[int]]]:
        return {"input": grid(), "output": grid()}

    return {
        f"{number:08x}": {"train": [pair(), pair()], "test": [pair()]} for number in range(count)
    }


def list_grids(tasks: Tasks) -> list[list[list[int]]]:
    """List all grids of tasks in the tasks' order."""
    grids = []
    for task in tasks.values():
        for pair in chain(*task.values()):
            grids += pair.values()
    return grids


TaskWriter = Callable[[Path, Tasks], Path]


def write_task_files(folder: Path, tasks: Tasks) -> Path:
    folder.mkdir(parents=True)
    for name, task in tasks.items():
        (folder / f"{name}.json").write_text(json.dumps(task))
    return folder


def write_nested_tasks(folder: Path, tasks: Tasks) -> Path:
    for number, (name, task) in enumerate(tasks.items()):
        write_task_files(folder / f"concept{number % 3}" / name, {name: task})
    return folder


def write_zipped_tasks(folder: Path, tasks: Tasks) -> Path:
    write_task_files(folder / "tasks", tasks)
    return Path(shutil.make_archive(str(folder / "tasks"), "zip", folder / "tasks"))


def write_challenges(folder: Path, tasks: Tasks) -> Path:
    """Write Kaggle's two files: the test outputs are in the file of solutions."""
    folder.mkdir(parents=True)
    challenges = {
        name: {"train": task["train"], "test": [{"input": pair["input"]} for pair in task["test"]]}
        for name, task in tasks.items()
    }
    solutions = {name: [pair["output"] for pair in task["test"]] for name, task in tasks.items()}
    (folder / "arc_challenges.json").write_text(json.dumps(challenges))
    (folder / "arc_solutions.json").write_text(json.dumps(solutions))
    return folder


def write_one_file(folder: Path, tasks: Tasks) -> Path:
    folder.mkdir(parents=True)
    (folder / "tasks.json").write_text(json.dumps(tasks))
    return folder / "tasks.json"


def write_pairs(folder: Path, tasks: Tasks) -> Path:
    """Write a file per task that is a plain list of pairs, as RE-ARC has them."""
    folder.mkdir(parents=True)
    for name, task in tasks.items():
        (folder / f"{name}.json").write_text(json.dumps(task["train"] + task["test"]))
    return folder


def write_text(folder: Path, tasks: Tasks) -> Path:
    folder.mkdir(parents=True)
    for name, task in tasks.items():
        grids = ["\n".join("".join(map(str, row)) for row in g) for g in list_grids({name: task})]
        (folder / f"{name}.txt").write_text("\n\n".join(grids))
    return folder


def write_barred_text(folder: Path, tasks: Tasks) -> Path:
    folder.mkdir(parents=True)
    lines = ["|" + "|".join("".join(map(str, r)) for r in g) + "|" for g in list_grids(tasks)]
    (folder / "grids.txt").write_text("\n\n".join(lines))
    return folder / "grids.txt"


TASK_CONVENTIONS: dict[str, TaskWriter] = {
    "task files": write_task_files,
    "nested folders": write_nested_tasks,
    "zip": write_zipped_tasks,
    "challenges and solutions": write_challenges,
    "one file": write_one_file,
    "lists of pairs": write_pairs,
    "text": write_text,
    "text with bars": write_barred_text,
}
"""Functions by convention that write tasks into a new folder and return the path to read."""
WITHOUT_TASKS = {"text", "text with bars"}
"""Conventions in which each grid stands alone, outside of any task."""

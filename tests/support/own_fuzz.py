"""Damaged files of every convention: reading them gives pictures or an error of one line."""

import os
import signal
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import own_data

from genlab.core.errors import GenlabError
from genlab.core.params.sections import SourceParams
from genlab.datasets.own import read_source

PICTURES = 12
SECONDS = 30  # of one case


def write_all(folder: Path) -> dict[str, Path]:
    """Write a small dataset in every convention; return the path to read, by convention."""
    pictures, labels = own_data.draw(PICTURES)
    paths = {
        name: write(folder / str(number), pictures, labels)
        for number, (name, write) in enumerate(own_data.CONVENTIONS.items())
    }
    tasks = own_data.draw_tasks(4)
    return paths | {
        f"tasks: {name}": write(folder / f"tasks{number}", tasks)
        for number, (name, write) in enumerate(own_data.TASK_CONVENTIONS.items())
    }


def damage(data: bytes, rng: np.random.Generator) -> bytes:
    """Change some bytes, cut the end off, repeat a part, or put zeros in the middle."""
    changed = bytearray(data)
    kind = rng.integers(4)
    start = int(rng.integers(len(changed)))
    if kind == 0:
        for position in rng.integers(len(changed), size=int(rng.integers(1, 9))):
            changed[position] = int(rng.integers(256))
    elif kind == 1:
        del changed[start:]
    elif kind == 2:
        changed[start:start] = changed[start : start + int(rng.integers(1, 999))]
    else:
        end = min(len(changed), start + int(rng.integers(1, 99)))
        changed[start:end] = bytes(end - start)
    return bytes(changed)


def run_cases(paths: dict[str, Path], count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Read `count` datasets with one damaged file each; yield convention and fault of failures."""
    rng = np.random.default_rng(seed)
    names = list(paths)
    for _ in range(count):
        name = names[rng.integers(len(names))]
        path = paths[name]
        files = [path] if path.is_file() else [p for p in sorted(path.rglob("*")) if p.is_file()]
        file = files[rng.integers(len(files))]
        original = file.read_bytes()
        file.write_bytes(damage(original, rng))
        fault = read_in_child(path)
        file.write_bytes(original)
        if fault:
            yield name, fault


def read_in_child(path: Path) -> str:
    """Read a dataset in a child process; return its fault, empty if there is none."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.alarm(SECONDS)
        status = 0
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
        try:
            read_source(SourceParams(path=str(path), unreadable="skip"))
        except GenlabError as error:
            status = 2 if "\n" in str(error) else 0
        except BaseException:
            os.write(writing, traceback.format_exc().encode()[-3000:])
            status = 1
        os._exit(status)
    os.close(writing)
    with open(reading, "rb") as pipe:
        output = pipe.read().decode(errors="replace")
    _, ended = os.waitpid(child, 0)
    if os.WIFSIGNALED(ended):
        return f"ended by signal {os.WTERMSIG(ended)}"
    status = os.WEXITSTATUS(ended)
    return {0: "", 2: "an error of several lines"}.get(status, output)

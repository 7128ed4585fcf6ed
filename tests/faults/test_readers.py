"""Damaged files: a reader accepts one or raises a GenlabError, never anything else."""

import io
import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import agent_runs
import numpy as np
import pytest
import tiny
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from ruamel.yaml import YAML

from genlab.agent.evaluator.datasets import load_data
from genlab.agent.goals.parser import parse_goal
from genlab.agent.record import read_run
from genlab.agent.registry import Registry
from genlab.agent.workspace import Workspace, create_project
from genlab.benchmark.cases import load_case
from genlab.benchmark.cases.photographs import read_photograph
from genlab.benchmark.exchange.stars import export_stars, import_stars
from genlab.benchmark.plugins.registry import read_tools, write_sample
from genlab.benchmark.store.repository import Store
from genlab.core.errors import GenlabError
from genlab.core.params import load_params
from genlab.datasets.arc_grids import load_objects, load_split
from genlab.datasets.images import load_images, load_labels
from genlab.experiments.definitions import load_experiments
from genlab.experiments.results import read_results
from genlab.llm.journal import Journal
from genlab.vae.training.checkpoint import (
    Progress,
    load_checkpoint,
    load_state,
    save_checkpoint,
    save_state,
)

ROOT = Path(__file__).resolve().parents[2]
QUICK = 40
"""Damaged files per reader in the ordinary tests."""
SLOW = 2_000
"""Damaged files per slow reader at full size."""
FULL = 17_000
"""Damaged files per fast reader at full size."""
MARK = "0123456789abcdef" * 4


class Reader(NamedTuple):
    """make: writes sound files into a folder. file: the one of them to damage. read: reads it."""

    make: Callable[[Path], object]
    file: str
    read: Callable[[Path], object]
    examples: int = FULL


def copy(name: str) -> Callable[[Path], object]:
    """Makes a copy of a file of the repository."""
    return lambda folder: shutil.copy(ROOT / name, folder)


def make_case(folder: Path) -> None:
    source = min((ROOT / "cases").glob("*/case.yaml")).parent
    shutil.copytree(source, folder / "case")


def make_photographs(folder: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (64, 80, 3), dtype=np.uint8)
    for suffix in ("jpg", "png", "webp"):
        Image.fromarray(pixels).save(folder / f"photograph.{suffix}")


def make_images(folder: Path) -> None:
    tiny.write_image_dataset(folder, (24, 8, 8))


def make_checkpoint(folder: Path) -> None:
    save_checkpoint(folder / "model.safetensors", tiny.model(), {"dataset": "arc_grids"})


def make_state(folder: Path) -> None:
    save_state(folder / "state.pt", Progress(epoch=1), {"model": tiny.model()})


def make_own_data(folder: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    np.savez(folder / "own.npz", x=images, y=np.arange(40) % 4)


def make_run(folder: Path) -> None:
    """Makes the workspace of a finished agent run."""
    workspace = create_project(folder, agent_runs.GOAL)
    agent_runs.write_attempts(workspace, agent_runs.attempt(1, 0.5, 0.6), agent_runs.attempt(2))


def make_ratings(folder: Path) -> None:
    with Store(folder / "made.sqlite3") as store:
        for stars, rater in ((2, "ann"), (5, 'bob "the" rater')):
            store.rate("run_item", MARK, rater, stars, "blind", session="s")
        export_stars(store, folder / "ratings.csv")


def import_ratings(path: Path) -> None:
    copy = path.with_name("kept.sqlite3")
    shutil.copy(path.with_name("made.sqlite3"), copy)
    with Store(copy) as store:
        import_stars(store, path)


def open_store(path: Path) -> None:
    with Store(path) as store:
        store.ratings()


def read_journal(path: Path) -> None:
    with Journal(path) as journal:
        assert journal.entries is not None


def read_attempts(path: Path) -> None:
    Registry(Workspace(path.parents[2])).read_attempts()


READERS = {
    "params": Reader(copy("params.yaml"), "params.yaml", load_params, SLOW),
    "experiments": Reader(
        copy("experiments.yaml"),
        "experiments.yaml",
        lambda path: load_experiments(path, ROOT / "params.yaml"),
        100,
    ),
    "results": Reader(copy("results/experiments.csv"), "experiments.csv", read_results, SLOW),
    "grids": Reader(tiny.write_dataset, "*dataset*.npz", lambda path: load_split(path, "train")),
    "objects": Reader(tiny.write_dataset, "objects.npz", lambda path: load_objects(path, "test")),
    "images": Reader(make_images, "val.npy", lambda path: load_images(path.parent, "val")),
    "manifest": Reader(make_images, "manifest.json", lambda path: load_images(path.parent, "val")),
    "labels": Reader(make_images, "labels.npz", lambda path: load_labels(path.parent, "val")),
    "checkpoint": Reader(
        make_checkpoint,
        "model.safetensors",
        lambda path: load_checkpoint(path, producer_command="x"),
        SLOW,
    ),
    "state": Reader(
        make_state,
        "state.pt",
        lambda path: load_state(path, {"model": tiny.model()}, torch.device("cpu")),
        SLOW,
    ),
    "own data": Reader(
        make_own_data,
        "own.npz",
        lambda path: load_data(f"path:{path}", path.parent, subset=20, validation=4),
    ),
    "attempt": Reader(make_run, "experiments/*/results.json", read_attempts),
    "run": Reader(
        make_run, "experiments/run.json", lambda path: read_run(Workspace(path.parents[1])), SLOW
    ),
    "journal": Reader(copy("examples/agent/expert-loop.jsonl"), "expert-loop.jsonl", read_journal),
    "case": Reader(make_case, "case/case.yaml", lambda path: load_case(path.parent), SLOW),
    "jpeg": Reader(make_photographs, "photograph.jpg", read_photograph),
    "png": Reader(make_photographs, "photograph.png", read_photograph),
    "webp": Reader(make_photographs, "photograph.webp", read_photograph),
    "tools": Reader(
        lambda folder: write_sample(folder / "tools.yaml"), "tools.yaml", read_tools, SLOW
    ),
    "ratings": Reader(make_ratings, "ratings.csv", import_ratings, SLOW),
    "store": Reader(make_ratings, "made.sqlite3", open_store, SLOW),
}

VALUES = st.sampled_from(
    [
        None, True, 0, -1, 10, 2**70, 0.5, -1e308, float("nan"), "", "x", "\0",
        [], [1], [[]], {}, {"a": 1},
    ]
)  # fmt: skip
ARRAYS = st.sampled_from(
    [
        np.array(5),
        np.array(["x"]),
        np.array([np.nan, np.inf]),
        np.array([2**63], np.uint64),
        np.zeros(0),
        np.zeros((2, 1)),
        np.zeros((0, 8, 8), np.uint8),
        np.full((3, 8, 8), 200, np.uint8),
    ]
)
BYTES = st.tuples(
    st.sampled_from(["cut", "flip", "insert", "repeat", "delete"]),
    st.floats(0, 1),
    st.binary(min_size=1, max_size=8),
)
TREES = (".yaml", ".json", ".jsonl")
ARRAY_FILES = (".npy", ".npz")


def damages(suffix: str) -> st.SearchStrategy[Any]:
    """Faults of a file: in its bytes, and in the values or arrays that its format has."""
    kinds: list[st.SearchStrategy[Any]] = [st.lists(BYTES, min_size=1, max_size=3)]
    if suffix in TREES:
        kinds.append(st.tuples(st.tuples(st.just("value"), st.floats(0, 1), VALUES)))
    if suffix in ARRAY_FILES:
        kinds.append(st.tuples(st.tuples(st.just("array"), st.floats(0, 1), ARRAYS)))
    return st.one_of(kinds)


def damage(content: bytes, suffix: str, how: str, where: float, what: Any) -> bytes:
    """Content with one fault at the share `where` of it."""
    if how == "value":
        return replace_value(content, suffix, where, what)
    if how == "array":
        return replace_array(content, suffix, where, what)
    at = int(where * len(content))
    before = content[:at]
    after = content[at:]
    length = len(what)
    flipped = bytes(a ^ b for a, b in zip(after, what, strict=False))
    return {
        "cut": before,
        "flip": before + flipped + after[length:],
        "insert": before + what + after,
        "repeat": before + after[:length] + after,
        "delete": before + after[length:],
    }[how]


def replace_value(content: bytes, suffix: str, where: float, value: Any) -> bytes:
    """JSON, JSON lines (the first one) or YAML with another value at one place."""
    yaml = YAML(typ="safe", pure=True)
    if suffix == ".yaml":
        tree = yaml.load(content)
    else:
        first, *lines = content.split(b"\n") if suffix == ".jsonl" else [content]
        tree = json.loads(first)
    places = walk(tree)
    parent, key = places[min(int(where * len(places)), len(places) - 1)]
    parent[key] = value
    if suffix == ".yaml":
        stream = io.BytesIO()
        yaml.dump(tree, stream)
        return stream.getvalue()
    return b"\n".join([json.dumps(tree).encode(), *(lines if suffix == ".jsonl" else [])])


def walk(tree: Any) -> list[tuple[Any, Any]]:
    """Every place in a tree of dicts and lists: its parent and its key."""
    keys = tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    return [place for key in keys for place in ((tree, key), *walk(tree[key]))]


def replace_array(content: bytes, suffix: str, where: float, array: Any) -> bytes:
    """A .npz or .npy with another array."""
    buffer = io.BytesIO()
    if suffix == ".npy":
        np.save(buffer, array)
    else:
        arrays = dict(np.load(io.BytesIO(content)))
        names = sorted(arrays)
        arrays[names[min(int(where * len(names)), len(names) - 1)]] = array
        np.savez(buffer, **arrays)
    return buffer.getvalue()


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_read_or_refused(
    name: str, tmp_path: Path, full_size: bool, record: Callable[..., None]
) -> None:
    reader = READERS[name]
    reader.make(tmp_path)
    path = next(tmp_path.glob(reader.file))
    sound = path.read_bytes()
    reader.read(path)  # a file that is never accepted would hide every fault
    examples = reader.examples if full_size else min(QUICK, reader.examples)
    crashes: list[str] = []

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(damages(path.suffix))
    def check(edits: list[tuple[str, float, Any]]) -> None:
        content = sound
        for edit in edits:
            content = damage(content, path.suffix, *edit)
        path.write_bytes(content)
        with suppress(GenlabError):
            reader.read(path)

    try:
        check()
    except BaseException as error:
        crashes.append(repr(error))
        raise
    finally:
        record(f"fuzz.{name}", len(crashes), n=examples)


@settings(max_examples=300, deadline=None, database=None, derandomize=True)
@given(st.text(max_size=200))
def test_any_sentence_is_a_goal_or_refused(sentence: str) -> None:
    with suppress(GenlabError):
        parse_goal(sentence)

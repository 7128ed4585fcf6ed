"""A user's own dataset: its facts for stage params, its items for stage generate, its section."""

import hashlib
import io
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from ruamel.yaml import YAML

from genlab.core.errors import GenlabError
from genlab.core.io import UNFINISHED, write_json, write_npz, write_text
from genlab.core.params import Params, parse_params
from genlab.core.params.catalogue import PUBLISHED, join_names, suggest_model
from genlab.core.params.loading import add_source_facts
from genlab.core.params.sections import SourceParams
from genlab.core.paths import resolve_path
from genlab.core.workers import parallel_map
from genlab.datasets.arc_grids import GRIDS_FILE, KIND
from genlab.datasets.images import (
    ImageSet,
    ImageSource,
    generate_images,
    read_generated,
    read_rows,
)
from genlab.datasets.manifests import write_manifest
from genlab.datasets.own_grids import read_generated_grids
from genlab.datasets.readers.grids import OwnGrids, find_kind, read_grids
from genlab.datasets.readers.ledger import make_key
from genlab.datasets.readers.opening import OwnPictures, find_size, read_pictures
from genlab.datasets.shards import GRIDS_KIND
from genlab.datasets.splits import number_splits
from genlab.grids.palette import PADDING

OwnItems = OwnPictures | OwnGrids

MIN_ITEMS = 100  # with fewer, not ten are left to validate or to test
OWN_FILE = Path("results/own.json")  # which dvc.yaml reads: datasets whose files are watched
MAX_NAMES = 20  # left-out files that a manifest names per reason


def resolve_stages(params: Params, name: str) -> dict[str, dict[str, Any]]:
    """Resolve the params of each stage, with what the files of a user's own dataset add.

    That is the kind and size of the items, where params leave them open, and under `generate.files`
    a digest of the files' names, sizes and times.
    """
    source = params.dataset(name).source
    if source is None:
        return params.resolve(name)
    kind = find_kind(source)
    size = source.size or (read_grids(source).side if kind == "grids" else find_size(source))
    params = add_source_facts(params, name, kind=kind, size=size)
    values = params.resolve(name)
    values["generate"]["files"] = digest_listing(resolve_path(source.path))
    return values


def write_placeholders(params: Params, folder: Path) -> None:
    """Write placeholder files for an agent's dataset that no stage makes.

    The agent's stages depend on data.json and judges.json below `folder`/DATASET. Files that exist
    already, such as those from git, stay as they are.
    """
    name = params.agent.dataset
    if name in params.datasets or ":" in name:
        return
    for file in ("data.json", "judges.json"):
        path = folder / name / file
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, {"dataset": name, "producer_command": None})


def digest_listing(path: Path) -> str:
    """Compute the SHA-256 of names, sizes and times of the files at a path; no file is read.

    Raises GenlabError where nothing is there.
    """
    if not path.exists():
        fix = "name a folder, an archive or a file as source.path"
        raise GenlabError(f"{path} is not there; {fix}", key="source.path", path=path, fix=fix)
    digest = hashlib.sha256()
    for line in sorted(_list_files(path)):
        digest.update(f"{line}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def _list_files(path: Path) -> Iterator[str]:
    if path.is_file():
        state = path.stat()
        yield f"{path.name} {state.st_size} {state.st_mtime_ns}"
        return
    for folder, _, names in os.walk(path, followlinks=False):
        for name in names:
            file = Path(folder, name)
            state = file.stat(follow_symlinks=False) if file.is_symlink() else file.stat()
            yield f"{file.relative_to(path)} {state.st_size} {state.st_mtime_ns}"


def generate_own(
    name: str, source: SourceParams, params: Params, folder: Path, count: int | None = None
) -> str:
    """Read the items of a user's own dataset into `folder`; return a line that summarises them.

    A description of the source is printed to stderr first. count: maximum number of items, evenly
    spaced.
    """
    if source.kind == "grids":
        grids = read_grids(source)
        print(*grids.describe(), sep="\n", file=sys.stderr)
        require_enough(grids)
        return generate_own_grids(name, grids, folder, count)
    levels = UNFINISHED / f"{name}-levels.npy"
    key = make_key(source.effective(), digest_listing(resolve_path(source.path)))
    pictures = read_pictures(source, levels, partial(parallel_map, params=params), key)
    print(*pictures.describe(), sep="\n", file=sys.stderr)
    require_enough(pictures)
    rows = pictures.retained_rows
    images = ImageSet(
        shape=pictures.fitted.levels.shape[1:],
        labels=pictures.labels[rows],
        groups=pictures.groups[rows],
        read=lambda indices: read_rows(levels, rows[indices]),
        splits=number_splits(pictures.splits)[rows],
    )
    facts = {"understood": pictures.summarise(MAX_NAMES)}
    image_source = ImageSource({"all": images}, pictures.collection.convention, facts)
    summary = generate_images(name, tuple(pictures.classes), image_source, folder, count or 0)
    for file in (levels, levels.with_suffix(".jsonl")):
        file.unlink()
    return summary


def generate_own_grids(name: str, source: OwnGrids, folder: Path, count: int | None = None) -> str:
    """Write grids to `folder`; return a line that summarises them.

    count: maximum number of grids, evenly spaced. Writes manifest.json and grids.npz: grids, uint8
    (n, side, side); tasks, int64 (n,); splits, int64 (n,), indices into SPLITS or -1.
    """
    rows = source.retained_rows
    if count and count < len(rows):
        rows = rows[np.arange(count) * len(rows) // count]
    arrays: dict[str, npt.NDArray[Any]] = {
        "grids": source.grids[rows],
        "tasks": source.groups[rows],
        "splits": number_splits(source.splits)[rows],
    }
    write_npz(folder / GRIDS_FILE, arrays, kind=GRIDS_KIND)
    facts = {
        "dataset": name,
        "count": len(rows),
        "padding": PADDING,
        "source": source.tasks.convention,
        "understood": source.summarise(MAX_NAMES),
    }
    write_manifest(folder, KIND, [GRIDS_FILE], facts)
    return f"{folder}: {len(rows)} grids on a canvas of {source.side} x {source.side}"


def require_enough(items: OwnItems) -> None:
    """Raise GenlabError where there are too few items to train, to validate and to test."""
    count = len(items.retained_rows)
    if count < MIN_ITEMS:
        noun = "grids" if isinstance(items, OwnGrids) else "pictures"
        message = f"{items.path}: {count} {noun} are too few; a dataset has at least {MIN_ITEMS}"
        raise GenlabError(message, path=items.path, fix=f"add {noun}")


def read_source(source: SourceParams) -> OwnItems:
    """Read a source of pictures or grids. Raises GenlabError where its kind is in doubt."""
    if find_kind(source) == "grids":
        return read_grids(source)
    return read_pictures(source)


def find_name(params: Params, path: Path) -> str:
    """Find the name of the dataset whose files lie at a path.

    Raises GenlabError where no dataset of the params does.
    """
    sources = {name: params.dataset(name).source for name in params.own_datasets}
    resolved = resolve_path(path).resolve()
    for name, source in sources.items():
        if source and resolve_path(source.path).resolve() == resolved:
            return name
    message = f"{path}: no dataset of params.yaml has this path; known: {join_names(sources)}"
    raise GenlabError(message, key="path", path=path)


def compare_content(params: Params, name: str) -> list[str]:
    """Describe how the files of a user's own dataset differ from what stage generate read.

    Compares pixels at the dataset's size, and classes; returns a line per kind of change. Raises
    GenlabError where stage generate has not run.
    """
    source = params.dataset(name).source
    folder = Path("data/generated", name)
    if source and source.kind == "grids":
        grids = read_grids(source)
        before = [grid.tobytes() for grid in read_generated_grids(folder)]
        now = [grid.tobytes() for grid in grids.grids[grids.retained_rows]]
        return _count_changes(name, before, now)
    manifest, parts = read_generated(folder)
    images = parts["all"]
    if source is None or manifest["shape"][0] != source.size:
        return [f"{folder}: was made at {manifest['shape'][0]} pixels, params say {source}"]
    pictures = read_pictures(source)
    generated = images.read(np.arange(len(images.labels)))
    rows = pictures.retained_rows
    return _count_changes(
        name,
        _pair_with_classes(generated, images.labels, manifest["labels"]),
        _pair_with_classes(pictures.fitted.levels[rows], pictures.labels[rows], pictures.classes),
    )


def _pair_with_classes(
    images: npt.NDArray[np.uint8], labels: npt.NDArray[np.int64], classes: Sequence[str]
) -> Iterator[tuple[bytes, str | None]]:
    """Yield the bytes of each image and the name of its class, None where it has none."""
    for image, label in zip(images, labels, strict=True):
        yield image.tobytes(), classes[label] if label >= 0 else None


def _count_changes(name: str, before: Iterable[Any], now: Iterable[Any]) -> list[str]:
    old = Counter(before)
    new = Counter(now)
    counts = {"gone": (old - new).total(), "new": (new - old).total()}
    return [f"{name}: {count:,} items are {change}" for change, count in counts.items() if count]


def add_section(name: str, source: SourceParams, items: OwnItems, path: Path) -> tuple[Params, str]:
    """Write a dataset's section into a params file, and make the dataset the only one that is run.

    Comments are kept. Returns the params and the section as YAML. Raises GenlabError where the name
    is taken or not allowed; the file is then as it was.
    """
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096  # lines stay as long as they are
    yaml.indent(mapping=2, sequence=4, offset=2)
    content = yaml.load(path.read_text(encoding="utf-8"))
    is_own = isinstance(content.get(name), dict) and "source" in content[name]
    if name in PUBLISHED or (name in content and not is_own):
        raise GenlabError(f"{path}: {name} is a key already; choose another name", key=name)
    content[name] = section = _make_section(source, items)
    content["datasets"][:] = [name]
    text = _dump(yaml, content)
    params = parse_params(YAML(typ="safe").load(text), str(path))
    write_text(path, text)
    write_json(path.parent / OWN_FILE, {"own": [name]})
    return params, _dump(yaml, {name: section})


def _make_section(source: SourceParams, items: OwnItems) -> dict[str, Any]:
    """Section of a dataset: its source, and params of a model that suits its items."""
    stated = source.model_dump(mode="json", exclude_defaults=True)
    if isinstance(items, OwnGrids):
        facts = {"kind": "grids", "size": items.side}
        model: dict[str, float] = dict(suggest_model(items.side, "grids"))
    else:
        plan = items.fitted.plan
        facts = {"size": plan.size}
        free_bits = 1.0 if plan.channels == 3 else 0.25  # nats per latent
        model = {**suggest_model(plan.size, "images"), "free_bits": free_bits}
    return {"source": {"path": source.path, **facts, **stated}, **model}


def _dump(yaml: YAML, content: Any) -> str:
    stream = io.StringIO()
    yaml.dump(content, stream)
    return stream.getvalue()

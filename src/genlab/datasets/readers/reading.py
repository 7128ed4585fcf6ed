"""Load every picture of a collection once: at one size, in 8 bits, grey or in colour.

Size, colours and scale are chosen from a sample; what contradicts them later is a refusal, but for
a picture in colour among grey ones, after which all are read again.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageColor

from genlab.core.errors import GenlabError
from genlab.core.params.sections import SourceParams
from genlab.core.picture import DecodedPicture, UnreadablePictureError
from genlab.core.progress import progress
from genlab.datasets.readers.collection import Collection, Loader
from genlab.datasets.readers.layout import list_some
from genlab.datasets.readers.ledger import Facts, Ledger, make_key
from genlab.datasets.readers.levels import Scale, find_scale

Levels = npt.NDArray[np.uint8]
Spread = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

SAMPLE = 200  # pictures, evenly spaced, that size, colours and scale are chosen from
CHUNK = 200  # pictures of a piece of work
FEW = 2000  # up to so many pictures are read before other processes would have started
LARGEST = 64  # side in pixels where none is stated
STEP = 4  # that a side is a multiple of, where none is stated
TOLERATED = 0.01  # share of unreadable pictures that are left out without a word of the user
FULL = {"uint8": 255.0, "uint16": 65535.0}  # highest level of a type


class Plan(NamedTuple):
    """How each picture becomes (size, size, channels) levels."""

    size: int
    channels: int
    scale: Scale | None  # None: of 8 bits
    fit: str
    background: str


class FittedPicture(NamedTuple):
    """One picture: levels; width and height before; traits; stored values' lowest and highest."""

    levels: Levels
    size: tuple[int, int]
    traits: tuple[str, ...]
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class FittedPictures:
    """Pictures of a source as they were read: levels (n, size, size, channels)."""

    levels: Levels
    facts: Facts
    plan: Plan
    rule: str


class _ColourError(Exception):
    """A picture in colour among what the sample took for grey."""


def fit_pictures(
    collection: Collection, source: SourceParams, file: Path, spread: Spread = map, key: str = ""
) -> FittedPictures:
    """Read all pictures into `file` (.npy); what a killed run with the same key read is kept.

    spread: maps a function over pieces of work, in their order. Raises GenlabError where too many
    cannot be read, or where the scale of values is in doubt.
    """
    sample = load_sample(collection, source)
    try:
        return _read(collection, source, choose(sample, source, collection.path), file, spread, key)
    except _ColourError:
        colour = source.model_copy(update={"channels": "rgb"})
        return _read(collection, source, choose(sample, colour, collection.path), file, spread, key)


def load_sample(collection: Collection, source: SourceParams) -> list[DecodedPicture]:
    count = len(collection.names)
    sample: list[DecodedPicture] = []
    fault = "there are none"
    for index in np.unique(np.linspace(0, count - 1, min(count, SAMPLE)).astype(int)):
        try:
            sample.append(collection.load(int(index), source.size or LARGEST))
        except UnreadablePictureError as error:
            fault = str(error)
    if not sample:
        raise GenlabError(f"{collection.path}: none of its pictures can be read: {fault}")
    return sample


def choose(sample: Sequence[DecodedPicture], source: SourceParams, path: Path) -> Plan:
    """Choose size, colours and scale by a sample of pictures."""
    kinds = Counter(picture.pixels.dtype for picture in sample)
    scale = None
    if len(kinds) == 1 and source.range is None:
        (kind,) = kinds
        low = min(float(picture.pixels.min()) for picture in sample)
        high = max(float(picture.pixels.max()) for picture in sample)
        scale = find_scale(kind, low, high, str(path))
    elif source.range is not None:
        scale = find_scale(np.dtype(float), 0, 1, str(path), source.range)
    sides = [min(picture.size) for picture in sample]
    middle = int(np.median(sides))
    size = source.size or max(STEP, min(LARGEST, middle // STEP * STEP))
    grey = source.channels == "grey" or (
        source.channels == "auto" and all(is_grey(picture.pixels) for picture in sample)
    )
    return Plan(size, 1 if grey else 3, scale, source.fit, source.background)


def is_grey(pixels: npt.NDArray[Any]) -> bool:
    """Whether all channels (of the last axis) are equal."""
    return pixels.shape[-1] == 1 or bool((pixels == pixels[..., :1]).all())


def _read(
    collection: Collection,
    source: SourceParams,
    plan: Plan,
    file: Path,
    spread: Spread,
    key: str,
) -> FittedPictures:
    count = len(collection.names)
    pieces = [range(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
    work = partial(_load_piece, plan, source.channels == "auto")
    names = hashlib.sha256("\n".join(collection.names).encode(errors="surrogateescape"))
    key = make_key(key, plan, str(collection.path), names.hexdigest())
    ledger = Ledger(file, (plan.size, plan.size, plan.channels), key)
    rest = pieces[ledger.pieces :]
    parts = (
        (collection.load.part(piece), collection.names[piece.start : piece.stop]) for piece in rest
    )
    bar = progress(total=count, desc="pictures read", unit="picture")
    with bar:
        bar.update(count - sum(map(len, rest)))
        loaded = spread(work, parts) if count > FEW else map(work, parts)
        for piece, results in zip(rest, loaded, strict=True):
            levels = [result.levels for result in results if not isinstance(result, str)]
            ledger.add(levels, _collect(piece, results))
            bar.set_postfix(unreadable=len(ledger.facts.unreadable), refresh=False)
            bar.update(len(piece))
    check_unreadable(collection.path, source, ledger.facts.unreadable, count, "pictures")
    rule = _check_scale(collection, source, plan, ledger.facts.low, ledger.facts.high)
    return FittedPictures(ledger.finish(), ledger.facts, plan, rule)


def _collect(piece: range, results: Sequence[FittedPicture | str]) -> Facts:
    """The facts of a piece."""
    facts = Facts()
    for row, result in zip(piece, results, strict=True):
        if isinstance(result, str):
            facts.unreadable.append(result)
            continue
        facts.rows.append(row)
        facts.digests.append(hashlib.blake2b(result.levels.tobytes(), digest_size=16).digest())
        facts.sizes[result.size] += 1
        facts.traits.update(result.traits)
        facts.low, facts.high = min(facts.low, result.low), max(facts.high, result.high)
    return facts


def _load_piece(
    plan: Plan, auto: bool, part: tuple[Loader, Sequence[str]]
) -> list[FittedPicture | str]:
    """Load some pictures; for one that cannot be read, the line that says why."""
    results: list[FittedPicture | str] = []
    load, names = part
    for index, name in enumerate(names):
        try:
            picture = load(index, plan.size)
            if auto and plan.channels == 1 and not is_grey(picture.pixels):
                raise _ColourError
            results.append(fit(picture, plan, name))
        except UnreadablePictureError as error:
            results.append(str(error))
    return results


def fit(picture: DecodedPicture, plan: Plan, name: str) -> FittedPicture:
    """Bring a picture to the plan's size, colours and scale."""
    pixels = picture.pixels
    low, high = float(pixels.min()), float(pixels.max())
    scale = plan.scale
    if scale is None:
        if pixels.dtype.name not in FULL:
            raise UnreadablePictureError(
                f"{name}: holds {pixels.dtype.name}, others hold 8 or 16 bits"
            )
        scale = Scale(0, FULL[pixels.dtype.name], "")
    levels = scale.apply(pixels)
    grey = levels.shape[2] == 1
    if levels.shape[:2] != (plan.size, plan.size):
        image = _fit_square(Image.fromarray(levels[..., 0] if grey else levels), plan)
        levels = np.asarray(image).reshape(plan.size, plan.size, -1)
    if plan.channels == 3 and levels.shape[2] == 1:
        levels = np.repeat(levels, 3, axis=2)
    elif plan.channels == 1 and levels.shape[2] == 3:
        levels = np.asarray(Image.fromarray(levels).convert("L"))[..., None]
    return FittedPicture(levels, picture.size, picture.traits, low, high)


def _fit_square(image: Image.Image, plan: Plan) -> Image.Image:
    width, height = image.size
    side = min(width, height)
    box: tuple[float, float, float, float] = (0, 0, width, height)
    if plan.fit == "crop":
        left, top = (width - side) / 2, (height - side) / 2
        box = (left, top, left + side, top + side)
    elif plan.fit == "pad":
        side = max(width, height)
        colour = ImageColor.getcolor(plan.background, image.mode)
        square = Image.new(image.mode, (side, side), colour)
        square.paste(image, ((side - width) // 2, (side - height) // 2))
        image, box = square, (0, 0, side, side)
    # Hamming's window is half as wide as bicubic's, and as sharp where a picture is reduced.
    shrinks = min(box[2] - box[0], box[3] - box[1]) > plan.size
    filtering = Image.Resampling.HAMMING if shrinks else Image.Resampling.BICUBIC
    return image.resize((plan.size, plan.size), filtering, box=box)


def check_unreadable(
    path: Path, source: SourceParams, lines: Sequence[str], count: int, items: str
) -> None:
    """Raise GenlabError where too many of `count` items cannot be read; lines: why, of each."""
    most = {"refuse": 0, "skip": count - 1}.get(source.unreadable or "", int(TOLERATED * count))
    if len(lines) > most:
        fix = "repair or remove them, or set unreadable to skip"
        message = f"{path}: {len(lines)} of {count} {items} cannot be read"
        named = list_some(lines)
        raise GenlabError(f"{message}: {named}; {fix}", key="source.unreadable", fix=fix)


def _check_scale(
    collection: Collection, source: SourceParams, plan: Plan, low: float, high: float
) -> str:
    """The rule that was applied, in words. Raises GenlabError where a value lies beyond it."""
    if plan.scale is None:
        return "8 and 16 bits, each in full"
    if source.range is None and not plan.scale.low <= low <= high <= plan.scale.high:
        fix = "set range to the values of black and white"
        message = f"values from {low:g} to {high:g}, though most lie in {plan.scale.rule}"
        raise GenlabError(f"{collection.path}: {message}: {fix}", key="source.range", fix=fix)
    return plan.scale.rule

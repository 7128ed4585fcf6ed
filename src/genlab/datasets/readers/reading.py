"""Load every picture of a collection once: at one size, in 8 bits, grey or in colour.

Size, colours and scale are chosen from a sample. A later picture that contradicts them is an error,
but for one in colour among grey ones, after which all pictures are read again in colour.
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
from genlab.core.text import join_first
from genlab.datasets.readers.collection import Collection, Loader
from genlab.datasets.readers.ledger import Ledger, PictureFacts, make_key
from genlab.datasets.readers.levels import Scale, find_scale

Levels = npt.NDArray[np.uint8]
Spread = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

SAMPLE = 200  # evenly spaced pictures that size, colours and scale are chosen from
CHUNK = 200  # pictures that one process reads at a time
FEW = 2000  # up to so many pictures are read before other processes would have started
LARGEST = 64  # maximum side in pixels where none is stated
STEP = 4  # a side is a multiple of this where none is stated
TOLERATED = 0.01  # maximum share of unreadable pictures that are left out by default
FULL = {"uint8": 255.0, "uint16": 65535.0}  # maximum value of a type


class Plan(NamedTuple):
    """How each picture becomes (size, size, channels) levels.

    scale: None where each picture of 8 or 16 bits has the full range of its type.
    """

    size: int
    channels: int
    scale: Scale | None
    fit: str
    background: str


class FittedPicture(NamedTuple):
    """Levels of one picture; facts of it as it was stored.

    size: width and height. traits: see `core.picture`. low, high: minimum and maximum value.
    """

    levels: Levels
    size: tuple[int, int]
    traits: tuple[str, ...]
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class FittedPictures:
    """Pictures of a source at one size: levels (n, size, size, channels).

    rule: how stored values became levels, in words.
    """

    levels: Levels
    facts: PictureFacts
    plan: Plan
    rule: str


class _ColourError(Exception):
    """A picture in colour in a source whose sample was all grey."""


def fit_pictures(
    collection: Collection, source: SourceParams, file: Path, spread: Spread = map, key: str = ""
) -> FittedPictures:
    """Read all pictures into `file` (.npy), after those that a killed run with the same key read.

    spread: maps a function over chunks of pictures, in their order. Raises GenlabError where too
    many cannot be read, or where the scale of values is in doubt.
    """
    sample = load_sample(collection, source)
    plan = choose_plan(sample, source, collection.path)
    try:
        return _fit_all(collection, source, plan, file, spread, key)
    except _ColourError:
        colour_source = source.model_copy(update={"channels": "rgb"})
        plan = choose_plan(sample, colour_source, collection.path)
        return _fit_all(collection, source, plan, file, spread, key)


def load_sample(collection: Collection, source: SourceParams) -> list[DecodedPicture]:
    """Load evenly spaced pictures. Raises GenlabError where none of them can be read."""
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


def choose_plan(sample: Sequence[DecodedPicture], source: SourceParams, path: Path) -> Plan:
    """Choose size, colours and scale by a sample of pictures."""
    dtypes = Counter(picture.pixels.dtype for picture in sample)
    scale = None
    if source.range is not None:
        scale = find_scale(np.dtype(float), 0, 1, str(path), source.range)
    elif len(dtypes) == 1:
        (dtype,) = dtypes
        low = min(float(picture.pixels.min()) for picture in sample)
        high = max(float(picture.pixels.max()) for picture in sample)
        scale = find_scale(dtype, low, high, str(path))
    median_side = int(np.median([min(picture.size) for picture in sample]))
    size = source.size or max(STEP, min(LARGEST, median_side // STEP * STEP))
    grey = source.channels == "grey" or (
        source.channels == "auto" and all(is_grey(picture.pixels) for picture in sample)
    )
    return Plan(size, 1 if grey else 3, scale, source.fit, source.background)


def is_grey(pixels: npt.NDArray[Any]) -> bool:
    """Whether all channels (of the last axis) are equal."""
    return pixels.shape[-1] == 1 or bool((pixels == pixels[..., :1]).all())


def _fit_all(
    collection: Collection,
    source: SourceParams,
    plan: Plan,
    file: Path,
    spread: Spread,
    key: str,
) -> FittedPictures:
    count = len(collection.names)
    chunks = [range(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
    names = hashlib.sha256("\n".join(collection.names).encode(errors="surrogateescape"))
    key = make_key(key, plan, str(collection.path), names.hexdigest())
    ledger = Ledger(file, (plan.size, plan.size, plan.channels), key)
    missing = chunks[ledger.chunks :]
    inputs = (
        (collection.load.select(chunk), collection.names[chunk.start : chunk.stop])
        for chunk in missing
    )
    fit_chunk = partial(_fit_chunk, plan, source.channels == "auto")
    bar = progress(total=count, desc="pictures read", unit="picture")
    with bar:
        bar.update(count - sum(map(len, missing)))
        outputs = spread(fit_chunk, inputs) if count > FEW else map(fit_chunk, inputs)
        for chunk, results in zip(missing, outputs, strict=True):
            levels = [result.levels for result in results if not isinstance(result, str)]
            ledger.add(levels, _collect_facts(chunk, results))
            bar.set_postfix(unreadable=len(ledger.facts.unreadable), refresh=False)
            bar.update(len(chunk))
    check_unreadable(collection.path, source, ledger.facts.unreadable, count, "pictures")
    rule = _check_scale(collection, source, plan, ledger.facts.low, ledger.facts.high)
    return FittedPictures(ledger.finish(), ledger.facts, plan, rule)


def _collect_facts(chunk: range, results: Sequence[FittedPicture | str]) -> PictureFacts:
    """Collect the facts of a chunk of pictures."""
    facts = PictureFacts()
    for row, result in zip(chunk, results, strict=True):
        if isinstance(result, str):
            facts.unreadable.append(result)
            continue
        facts.rows.append(row)
        facts.digests.append(hashlib.blake2b(result.levels.tobytes(), digest_size=16).digest())
        facts.sizes[result.size] += 1
        facts.traits.update(result.traits)
        facts.low = min(facts.low, result.low)
        facts.high = max(facts.high, result.high)
    return facts


def _fit_chunk(
    plan: Plan, auto_channels: bool, chunk: tuple[Loader, Sequence[str]]
) -> list[FittedPicture | str]:
    """Load and fit some pictures; for one that cannot be read, return a line that says why."""
    results: list[FittedPicture | str] = []
    load, names = chunk
    for index, name in enumerate(names):
        try:
            picture = load(index, plan.size)
            if auto_channels and plan.channels == 1 and not is_grey(picture.pixels):
                raise _ColourError
            results.append(fit_picture(picture, plan, name))
        except UnreadablePictureError as error:
            results.append(str(error))
    return results


def fit_picture(picture: DecodedPicture, plan: Plan, name: str) -> FittedPicture:
    """Bring a picture to the plan's size, colours and scale."""
    pixels = picture.pixels
    low = float(pixels.min())
    high = float(pixels.max())
    scale = plan.scale
    if scale is None:
        dtype = pixels.dtype.name
        if dtype not in FULL:
            raise UnreadablePictureError(f"{name}: holds {dtype}, others hold 8 or 16 bits")
        scale = Scale(0, FULL[dtype], "")
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
    """Crop, pad or stretch an image to a square of the plan's size."""
    width, height = image.size
    box: tuple[float, float, float, float] = (0, 0, width, height)
    if plan.fit == "crop":
        side = min(width, height)
        left = (width - side) / 2
        top = (height - side) / 2
        box = (left, top, left + side, top + side)
    elif plan.fit == "pad":
        side = max(width, height)
        background = ImageColor.getcolor(plan.background, image.mode)
        square = Image.new(image.mode, (side, side), background)
        square.paste(image, ((side - width) // 2, (side - height) // 2))
        image = square
        box = (0, 0, side, side)
    # Hamming's window is half as wide as bicubic's, and as sharp where a picture is reduced.
    shrinks = min(box[2] - box[0], box[3] - box[1]) > plan.size
    resampling = Image.Resampling.HAMMING if shrinks else Image.Resampling.BICUBIC
    return image.resize((plan.size, plan.size), resampling, box=box)


def check_unreadable(
    path: Path, source: SourceParams, lines: Sequence[str], count: int, items: str
) -> None:
    """Raise GenlabError where too many of `count` items cannot be read.

    lines: why each of them cannot be read. items: what they are, for the message.
    """
    most = {"refuse": 0, "skip": count - 1}.get(source.unreadable or "", int(TOLERATED * count))
    if len(lines) > most:
        fix = "repair or remove them, or set unreadable to skip"
        message = f"{path}: {len(lines)} of {count} {items} cannot be read"
        named = join_first(lines)
        raise GenlabError(f"{message}: {named}; {fix}", key="source.unreadable", fix=fix)


def _check_scale(
    collection: Collection, source: SourceParams, plan: Plan, low: float, high: float
) -> str:
    """Return the scale's rule in words. Raises GenlabError where a value lies beyond the scale."""
    if plan.scale is None:
        return "8 and 16 bits, each in full"
    if source.range is None and not plan.scale.low <= low <= high <= plan.scale.high:
        fix = "set range to the values of black and white"
        message = f"values from {low:g} to {high:g}, though most lie in {plan.scale.rule}"
        raise GenlabError(f"{collection.path}: {message}: {fix}", key="source.range", fix=fix)
    return plan.scale.rule

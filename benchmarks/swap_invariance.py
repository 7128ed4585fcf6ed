"""Whether changes of a whole picture move its score.

Image models change tone, sharpness and place of the whole picture; none of it is a better or a
worse swap. `swap.invariance`: rise of `score` of the controls and of `baseline_local` on the
shipped cases under every change of CHANGES, 95th percentile; `.largest`: the largest rise;
`.fall`: fall of both scores of the ideal results of ground-truth cases, 95th percentile. A changed
picture is compared with the same one unchanged; a picture without a score counts 0.

`details`: the same for the calibration persons (`swap_persons`), on whom constants were set, and
for held-out persons; per change the largest rise and fall; means of the tools' scores.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import PIL.Image
from PIL import ImageEnhance

from benchmarks import swap_photographs
from benchmarks.harness import Result, benchmark
from benchmarks.swap_persons import HELD_OUT
from benchmarks.swap_photographs import build_case
from benchmarks.swap_scores import CASES, save
from genlab.benchmark.cases import Case, load_cases
from genlab.benchmark.cases.photographs import read_photograph
from genlab.benchmark.scoring.faces import Image, resize
from genlab.benchmark.scoring.scorer import score
from genlab.benchmark.tools.controls import CONTROLS, compress, enhance
from genlab.benchmark.tools.local import LOCAL

BOX = 1024  # side of the square that a tool with one size works in

Change = Callable[[Image], Image]


def curve(function: Callable[[np.ndarray], np.ndarray]) -> Change:
    """A tone curve from [0, 1] to [0, 1]."""
    levels = 255 * np.clip(function(np.arange(256) / 255), 0, 1)
    table = np.rint(levels).astype(np.uint8)
    return lambda image: cv2.LUT(image, table)


def gain(*channels: float) -> Change:
    """A gain of red, green and blue."""
    return lambda image: np.clip(np.rint(image * np.array(channels)), 0, 255).astype(np.uint8)


def contrast(amount: float) -> Change:
    """Contrast about the mean light."""
    return lambda image: enhance(image, ImageEnhance.Contrast, amount)


def saturation(amount: float) -> Change:
    """Saturation."""
    return lambda image: enhance(image, ImageEnhance.Color, amount)


def sharpen(amount: float) -> Change:
    """Sharpen; blur where `amount` is -1."""

    def change(image: Image) -> Image:
        soft = cv2.GaussianBlur(image, (0, 0), max(image.shape) / 1000)
        return cv2.addWeighted(image, 1 + amount, soft, -amount, 0)

    return change


def halve(image: Image) -> Image:
    """Half size and back."""
    height, width = image.shape[:2]
    return resize(resize(image, (width // 2, height // 2)), (width, height))


def shift(image: Image) -> Image:
    """Three pixels to the right and down."""
    matrix = np.array([[1, 0, 3], [0, 1, 3]], dtype=np.float64)
    return cv2.warpAffine(image, matrix, image.shape[1::-1], borderMode=cv2.BORDER_REPLICATE)


def letterbox(image: Image) -> Image:
    """Set in a square by a tool with one size, and cut out of it again."""
    height, width = image.shape[:2]
    ratio = BOX / max(height, width)
    inside = resize(image, (round(width * ratio), round(height * ratio)))
    top = (BOX - inside.shape[0]) // 2
    left = (BOX - inside.shape[1]) // 2
    canvas = np.zeros((BOX, BOX, 3), dtype=np.uint8)
    window = slice(top, top + inside.shape[0]), slice(left, left + inside.shape[1])
    canvas[window] = inside
    return resize(np.asarray(PIL.Image.fromarray(canvas))[window], (width, height))


TONES: dict[str, Change] = {
    **{f"contrast {amount}": contrast(amount) for amount in (0.7, 0.8, 0.85, 0.9, 1.1, 1.3)},
    **{f"saturation {amount}": saturation(amount) for amount in (0.7, 1.3)},
    "gamma 0.8": curve(lambda x: x**0.8),
    "gamma 1.25": curve(lambda x: x**1.25),
    "exposure 0.85": gain(0.85, 0.85, 0.85),
    "exposure 1.15": gain(1.15, 1.15, 1.15),
    "blacks lifted": curve(lambda x: 0.1 + 0.9 * x),
    "blacks crushed": curve(lambda x: (x - 0.06) / 0.94),
    "tone curve": curve(lambda x: x - 0.06 * np.sin(2 * np.pi * x)),
    "flat tone curve": curve(lambda x: x + 0.06 * np.sin(2 * np.pi * x)),
    "warm": gain(1.1, 1.0, 0.88),
    "cool": gain(0.9, 1.0, 1.1),
}
CHANGES: dict[str, Change] = {
    **TONES,
    "blur": sharpen(-1.0),
    "sharpen": sharpen(0.5),
    "jpeg 60": compress,
    "half size": halve,
    "shift": shift,
    "letterbox": letterbox,
    **{
        f"{tone}, half size": lambda image, tone=tone: halve(TONES[tone](image))
        for tone in ("contrast 0.85", "gamma 1.25", "saturation 0.7", "warm")
    },
}


def score_changes(case: Case, kind: str, image: Image, path: Path) -> Iterator[dict[str, object]]:
    """Both scores of a picture, unchanged first and then under every change, as rows."""
    for change, apply in {"none": lambda plain: plain, **CHANGES}.items():
        got = score(case, save(apply(image), path))
        yield {
            "case": case.case_id,
            "kind": kind,
            "change": change,
            "score": got.score or 0.0,
            "score_reference": got.score_reference or 0.0,
        }


def measure(cases: list[Case], ideals: list[Case], path: Path) -> pd.DataFrame:
    """The rows of all pictures: of the tools on `cases`, and of the ideals of `ideals`."""
    rows: list[dict[str, object]] = []
    for case in cases:
        for tool in (LOCAL, *CONTROLS):
            rows += score_changes(case, tool.tool_id, np.asarray(tool.make(case, {})), path)
    for case in ideals:
        assert case.ideal is not None
        rows += score_changes(case, "ideal", np.asarray(read_photograph(case.ideal)), path)
    table = pd.DataFrame(rows).set_index(["case", "kind", "change"])
    plain = table.xs("none", level="change")
    rises = table - plain.reindex(table.index.droplevel("change")).to_numpy()
    return table.join(rises.add_prefix("rise_")).reset_index()


def summarize(table: pd.DataFrame) -> dict[str, float]:
    """The three figures of some rows."""
    changed = table[table.change != "none"]
    ideal = changed[changed.kind == "ideal"]
    tools = changed[changed.kind != "ideal"]
    falls = -ideal[["rise_score", "rise_score_reference"]].to_numpy().ravel()
    return {
        "swap.invariance": float(tools.rise_score.quantile(0.95)),
        "swap.invariance.largest": float(tools.rise_score.max()),
        "swap.invariance.fall": float(np.quantile(falls, 0.95)),
    }


@benchmark("swap.invariance", "swap.invariance.largest", "swap.invariance.fall")
def swap_invariance() -> Iterator[Result]:
    """Measure how far changes of a whole picture move its score."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "cases"
        shutil.copytree(CASES, root)  # somebody else for the wrong person
        photographs = swap_photographs.fetch(Path(folder))
        triples = [*swap_photographs.CALIBRATION, *swap_photographs.HELD_OUT]
        ideals = [build_case(triple, photographs, root) for triple in triples]
        table = measure(load_cases(CASES), ideals, Path(folder) / "changed.png")
    names = {*HELD_OUT, "window-two-avatars", *map("-".join, swap_photographs.HELD_OUT)}
    held_out = table.case.isin(names)
    changed = table[table.change != "none"].groupby("change")
    details = {
        "calibration": summarize(table[~held_out]),
        "held_out": summarize(table[held_out]),
        "largest_rise": changed.rise_score.max().to_dict(),
        "largest_fall": (-changed.rise_score.min()).to_dict(),
        "means": table[table.change == "none"].groupby("kind").score.mean().to_dict(),
    }
    of_ideal = table[table.change != "none"].kind == "ideal"
    for key, value in summarize(table).items():
        more = details if key == "swap.invariance" else {}
        measured = of_ideal if key.endswith("fall") else ~of_ideal
        yield Result(key, value, n=int(measured.sum()), seeds=(), details=more)

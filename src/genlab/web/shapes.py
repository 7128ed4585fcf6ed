"""What the pages take from files of the stages, as types: all else in them may be as it likes.

A file that is whole but of another shape (an empty list, a number in quotes) is told as a line that
names it, at the place where it is read (`genlab.web.files`), and no page meets it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from typing_extensions import NotRequired, TypedDict  # pydantic wants these before Python 3.12

Number = float | None
Index = Annotated[int, Field(ge=0)]
Colour = Annotated[int, Field(ge=0, le=9)]
Grid = list[list[Colour]]


class Bounds(TypedDict):
    """An interval; without ends where there was nothing to resample."""

    low: Number
    high: Number


class Sampler(TypedDict, total=False):
    """A sampler's numbers that have a column or decide which is picked."""

    counted: bool
    valid_rate: Number
    legal_components: Number
    unique_and_novel_share: Number
    count_tv: Number
    colour_tv: Number
    black_share: Number
    frechet_distance: Number
    relative_frechet: Number
    precision: Number
    recall: Number
    intervals: dict[str, Bounds]


class Metrics(TypedDict, total=False):
    """metrics.json of either kind: key numbers, samplers, intervals."""

    pixel_accuracy: Number
    exact_grid_accuracy: Number
    neg_elbo_nats: Number
    neg_elbo_over_entropy_bound: Number
    bits_per_dim: Number
    ssim: Number
    psnr: Number
    comparable: bool
    best_sampler: str
    samplers: dict[str, Sampler]
    intervals: dict[str, Bounds]


class Criterion(TypedDict):
    """A row of a verdict."""

    name: str
    value: Number
    threshold: float
    sign: str
    passed: bool
    why: str


class Verdict(TypedDict):
    """verdict.json."""

    passed: bool
    criteria: list[Criterion]


class Diagnosed(TypedDict):
    """A failure that was looked for."""

    name: str
    found: bool
    fix: dict[str, Any]


class Diagnosis(TypedDict):
    """diagnosis.json."""

    diagnoses: list[Diagnosed]


class Failed(TypedDict):
    """An item of failures.json."""

    index: Index
    scores: dict[str, Number]
    hypothesis: str | None
    faults: NotRequired[list[str]]


class Tested(TypedDict):
    """A hypothesis of failures.json."""

    name: str
    sentence: str
    verdict: Literal["supported", "refuted", "undecided", "untestable"]
    low: Number
    high: Number
    error_with: Number
    error_without: Number
    n_with: int
    n_without: int
    ratio: Number


class Failures(TypedDict):
    """failures.json."""

    items: list[Failed]
    tests: list[Tested]
    sample_items: list[Failed]
    sample_tests: list[Tested]


class Measured(TypedDict):
    """An entry of benchmarks.json."""

    value: Number | bool
    interval: NotRequired[Annotated[list[float], Field(min_length=2, max_length=2)] | None]


Benchmarks = dict[str, Measured]


class Training(TypedDict):
    """training.json: series by name, one value an epoch."""

    series: NotRequired[dict[str, list[Number]]]


class Described(TypedDict):
    """An entry of experiments.yaml."""

    seeds: NotRequired[list[int] | None]
    manual: NotRequired[bool]


Descriptions = dict[str, Described | None]


class Row(TypedDict):
    """An epoch of a run in the making; numbers may stand there as text, NaN among them."""

    epoch: int
    values: dict[str, Annotated[float | str, AfterValidator(float)]]


class History(TypedDict):
    """history.json of a run in the making."""

    rows: list[Row]


class Declared(TypedDict):
    """A stage of dvc.yaml."""

    desc: NotRequired[str]
    matrix: NotRequired[Any]
    outs: NotRequired[list[str | dict[str, Any]]]


class Pipeline(TypedDict):
    """dvc.yaml."""

    stages: dict[str, Declared]


class Locked(TypedDict):
    """dvc.lock."""

    stages: NotRequired[dict[str, Any]]


class Manifest(TypedDict):
    """manifest.json of a dataset of images."""

    labels: list[str]


class Summary(TypedDict):
    """summary.json of an attempt of the agent."""

    table: NotRequired[str]
    analysis: NotRequired[str | None]
    overruled: NotRequired[list[str]]

"""The sections of `params.yaml`: of data, evaluation, agent and benchmark."""

import re
from typing import Annotated, Literal, get_args

from pydantic import Field, JsonValue, Strict, field_validator, model_validator
from typing_extensions import Self

from genlab.core.params.base import Section, neutral

Kind = Literal[
    "rectangle_filled",
    "rectangle_hollow",
    "line_horizontal",
    "line_vertical",
    "line_diagonal",
    "line_antidiagonal",
    "checkerboard",
    "l_shape",
    "t_shape",
    "plus",
    "zigzag",
]
Weight = Annotated[float, Field(ge=0, le=1e6)]
Share = Annotated[float, Field(gt=0, lt=1)]


class _SplitParams(Section):
    """Sizes of the splits: stage split."""

    val_share: Share = Field(description="Fraction of the non-test items that is validation.")
    test_share: Share = Field(
        description="Fraction that is test if there is no official test split."
    )

    @model_validator(mode="after")
    def _check_shares(self) -> Self:
        if self.val_share + self.test_share >= 1:
            raise ValueError("val_share + test_share must be < 1 to leave items for training")
        return self


class GridParams(_SplitParams):
    """The data of the grid datasets: stages generate and split."""

    count: int = Field(ge=10, description="Total number of grids.")
    size: int = Field(ge=8, le=16, description="Side of a grid in cells.")
    min_objects: int = Field(ge=1, le=8, description="Minimum number of objects per grid.")
    max_objects: int = Field(ge=1, le=8, description="Maximum number of objects per grid.")
    kinds: dict[Kind, Weight] = Field(
        description="Sampling weights of kinds of objects; 1 for others.",
        json_schema_extra=neutral({}),
    )
    spacing: int = Field(
        ge=0,
        le=4,
        description="Minimum number of free cells between objects.",
        json_schema_extra=neutral(0),
    )

    @model_validator(mode="after")
    def _check_objects(self) -> Self:
        if self.min_objects > self.max_objects:
            raise ValueError(f"min_objects must be <= max_objects, got {self.min_objects}")
        if not any(self.weights.values()):
            raise ValueError("kinds must leave a weight over 0, got none")
        return self

    @property
    def weights(self) -> dict[str, float]:
        """Relative frequency of each kind of object; 1 for kinds that `kinds` lacks."""
        return {kind: self.kinds.get(kind, 1.0) for kind in get_args(Kind)}


class ImageParams(_SplitParams):
    """The data of the image datasets: stages generate and split."""

    count: int = Field(
        0,  # so that a params.yaml that is older than this key can be read
        ge=0,
        description="Maximum number of images per part of a source; 0 = all.",
        json_schema_extra=neutral(0),
    )
    raw: str = Field(min_length=1, description="Folder with the original files.")
    download: bool = Field(description="Whether to download files that this machine lacks.")
    emoji_size: int = Field(ge=16, le=128, description="Side of an emoji in pixels.")
    emoji_font: str = Field(description="Font with colour bitmaps; empty = search for one.")


Word = Annotated[str, Field(min_length=1)]
MAX_GRID = 30  # cells per side of an ARC grid
Convention = Literal["folders", "table", "webdataset"]
Pair = Annotated[tuple[Word, Word], Strict(False)]  # YAML has lists


class TableParams(Section):
    """A table that names pictures and their labels; None: detected."""

    file: str | None = Field(None, description="Name of the table in the folder.")
    separator: Annotated[str, Field(min_length=1, max_length=1)] | None = Field(
        None, description="Character that separates cells."
    )
    columns: Pair | None = Field(None, description="Columns of file names and of labels.")


class SourceParams(Section):
    """Where a user's own dataset is, and how to read it if its files leave that open.

    None: detected; if the files allow two readings, the error names the key that decides.
    """

    path: str = Field(min_length=1, description="Folder, archive or file.")
    kind: Literal["images", "grids"] | None = Field(
        None, description="What its items are.", json_schema_extra=neutral(None)
    )
    convention: Convention | None = Field(
        None, description="How the files are arranged.", json_schema_extra=neutral(None)
    )
    size: int | None = Field(
        None,
        ge=4,
        le=1024,
        description="Side of a picture in pixels, of a canvas in cells.",
    )
    channels: Literal["auto", "grey", "rgb"] = Field(
        "auto", description="Colour channels to keep.", json_schema_extra=neutral("auto")
    )
    fit: Literal["crop", "pad", "stretch"] = Field(
        "crop",
        description="How to make pictures square.",
        json_schema_extra=neutral("crop"),
    )
    background: str = Field(
        "white",
        min_length=1,
        description="Colour behind transparent pixels and beside pictures.",
        json_schema_extra=neutral("white"),
    )
    range: Annotated[tuple[float, float], Strict(False)] | None = Field(
        None,
        description="Stored values of black and white, such as [0, 4095].",
        json_schema_extra=neutral(None),
    )
    layout: Literal["NHWC", "NCHW"] | None = Field(
        None, description="Order of an array's axes.", json_schema_extra=neutral(None)
    )
    arrays: Pair | None = Field(
        None,
        description="Names of the arrays of pictures and labels.",
        json_schema_extra=neutral(None),
    )
    table: TableParams | None = Field(
        None, description="Table of labels.", json_schema_extra=neutral(None)
    )
    labels: str | None = Field(
        None,
        min_length=1,
        description="Which folders name the class: none, top, leaf or path; or a table's column.",
        json_schema_extra=neutral(None),
    )
    frames: Literal["first", "all"] = Field(
        "first",
        description="Which frames of an animation, or pages of a TIFF, to use.",
        json_schema_extra=neutral("first"),
    )
    group: str | None = Field(
        None,
        min_length=1,
        description="Pattern of file names, or a table's column; equal values share a split.",
        json_schema_extra=neutral(None),
    )
    val_share: Share | None = Field(
        None,
        description="Fraction that is validation if there is no official split.",
        json_schema_extra=neutral(None),
    )
    test_share: Share | None = Field(
        None,
        description="Fraction that is test if there is no official split.",
        json_schema_extra=neutral(None),
    )
    duplicates: Literal["keep", "drop"] = Field(
        "keep",
        description="Whether to keep all of several equal pictures, or one.",
        json_schema_extra=neutral("keep"),
    )
    unreadable: Literal["refuse", "skip"] | None = Field(
        None,
        description="What to do with unreadable files; none: skip up to 1 %.",
        json_schema_extra=neutral(None),
    )

    @field_validator("group")
    @classmethod
    def _check_group(cls, group: str | None) -> str | None:
        try:
            re.compile(group or "")
        except re.error as error:
            raise ValueError(f"must be a regular expression ({error}), got {group!r}") from error
        return group

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        if self.range and self.range[0] == self.range[1]:
            raise ValueError(f"range must hold two different values, got {list(self.range)}")
        return self

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        if self.kind == "grids" and (self.size or 0) > MAX_GRID:
            raise ValueError(f"size of grids must be at most {MAX_GRID}, got {self.size}")
        return self

    def shares(self, images: ImageParams) -> dict[str, float]:
        """Fractions of the splits val and test; by default those of `images`."""
        return {
            "val": images.val_share if self.val_share is None else self.val_share,
            "test": images.test_share if self.test_share is None else self.test_share,
        }


class EvaluateParams(Section):
    """The evaluation: stages evaluate and failure_gallery."""

    samples: int = Field(ge=100, description="Grids drawn from each sampler.")
    image_samples: int = Field(ge=100, description="Images drawn from each sampler.")
    extractor_examples: int = Field(
        ge=128, description="Training images of the feature classifier."
    )
    iwae_samples: int = Field(ge=1, description="k of the IWAE bound.")
    iwae_items: int = Field(ge=1, description="Test items of the IWAE bound.")


class RoleParams(Section):
    """One of the agent's two language models: which endpoint, which model, what it costs."""

    base_url: str = Field(description="Endpoint; empty = OPENAI_BASE_URL, then OpenAI's own.")
    model: str = Field(description="Name of the model; empty = the endpoint's default.")
    key: str = Field(description="Environment variable that holds the key.")
    price_in: float = Field(ge=0, description="Dollars per million input tokens.")
    price_out: float = Field(ge=0, description="Dollars per million output tokens.")
    reasoning_effort: str = Field(
        description="Sent to models that reason; empty = not sent.", json_schema_extra=neutral("")
    )
    max_output_tokens: int = Field(
        ge=64,
        description="Maximum tokens of an answer, reasoning included; doubled once if truncated.",
    )
    timeout: float = Field(gt=0, description="Seconds per request.")


class AgentParams(Section):
    """The research agent: stage agent_iterate."""

    goal: str = Field(min_length=1, description="The agent's goal, with a number to reach.")
    dataset: str = Field(min_length=1, description="Dataset of the goal, a dep of the stage.")
    mode: Literal["loop", "tools"] = Field(
        description="loop: a fixed sequence of steps; tools: the planning model calls the tools."
    )
    backend: Literal["embedded", "openai", "replay", "search"] = Field(
        description="What plans: a language model, a recording or search."
    )
    planning: RoleParams = Field(description="The model that plans.")
    tools: RoleParams = Field(description="The model that writes and describes code.")
    gguf: str = Field(
        description="Weights of the embedded model; empty = the bundled ones.",
        json_schema_extra=neutral(""),
    )
    transcript: str = Field(description="Journal that is replayed, a dep of the stage.")
    max_iterations: int = Field(ge=1, le=1000, description="Maximum number of attempts.")
    patience: int = Field(ge=1, le=1000, description="Attempts without a gain before stopping.")
    drafts: int = Field(ge=1, le=100, description="Number of independent first proposals.")
    candidates: int = Field(ge=1, le=64, description="Proposals per round, trained in parallel.")
    max_repairs: int = Field(
        ge=0, le=20, description="Maximum repairs of code that failed a check."
    )
    max_prompt_tokens: int = Field(ge=500, description="Maximum tokens of a prompt, estimated.")
    max_tokens: int = Field(
        ge=0, description="Maximum tokens of a run; 0 = no limit.", json_schema_extra=neutral(0)
    )
    max_cost: float = Field(
        ge=0, description="Maximum dollars of a run; 0 = no limit.", json_schema_extra=neutral(0.0)
    )
    max_seconds: float = Field(
        ge=0, description="Maximum seconds of a run; 0 = no limit.", json_schema_extra=neutral(0.0)
    )
    compare_with_search: bool = Field(
        description="Whether to compare with random search of the same budget.",
        json_schema_extra=neutral(False),
    )
    allow_pip: bool = Field(
        description="Whether pip may install into the workspace.", json_schema_extra=neutral(False)
    )
    sandbox: Literal["auto", "bubblewrap", "landlock"] = Field(description="Mode of the sandbox.")
    device: Literal["auto", "cpu", "cuda"] = Field(description="Where models train.")
    examples: int = Field(
        ge=1, description="Training examples that a model sees, repeats included."
    )
    subset: int = Field(ge=10, description="Number of different training items.")
    max_parameters: int = Field(ge=1000, description="Maximum number of parameters of a model.")
    time_limit: float = Field(gt=0, description="Maximum seconds of a training run.")
    validation: int = Field(ge=0, description="Validation items used for selection; 0 = all.")
    seeds: int = Field(ge=1, le=100, description="Seeds per attempt, for selection.")
    confirmation_seeds: int = Field(
        5, ge=2, le=100, description="New seeds on which the best attempt has to meet the goal."
    )


class BenchmarkParams(Section):
    """The person-swap benchmark: stage benchmark."""

    cases: str = Field(min_length=1, description="Folder of the cases, one folder per case.")
    tools: list[str] = Field(min_length=1, description="Ids of the tools to run.")
    options: dict[str, dict[str, JsonValue]] = Field(
        description="Options by tool; values of a list are compared."
    )
    repeats: int = Field(ge=1, le=100, description="Images per case and contender.")
    concurrency: int = Field(
        ge=1, le=256, description="Maximum number of images generated concurrently."
    )
    timeout: float = Field(gt=0, description="Seconds per request to a tool.")
    retries: int = Field(ge=0, le=20, description="Maximum retries after a transient fault.")
    max_cost: float = Field(ge=0, description="Maximum dollars of a run; 0 = free tools only.")
    judge: str = Field(
        description="Vision model whose stars are a separate column; empty = none.",
        json_schema_extra=neutral(""),
    )

"""The typed content of params.yaml, and what each stage reads of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, get_origin

from pydantic import ConfigDict, Field, ValidationError, model_validator
from typing_extensions import Self

from genlab.core.errors import GenlabError, did_you_mean, to_genlab_error
from genlab.core.params.catalogue import PUBLISHED, Dataset, join_names
from genlab.core.params.geometry import check_shapes
from genlab.core.params.sections import (
    AgentParams,
    BenchmarkParams,
    EvaluateParams,
    GridParams,
    ImageParams,
    Section,
    SourceParams,
    neutral,
)

PARAMS_FILE = "params.yaml"


class Params(Section):
    """All of `params.yaml`; the flat keys are what people sweep.

    Keys beyond the fields are the sections of datasets.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, dict[str, Any]] = Field(init=False)

    seed: int = Field(ge=0, lt=2**31, description="Seed of all randomness.")
    datasets: list[str] = Field(min_length=1, description="Datasets the pipeline runs over.")
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(description="Where tensors live.")
    threads: int = Field(ge=1, le=256, description="Threads of training and of measuring.")
    engine: Literal["local", "ray"] = Field(description="Where work is spread to.")
    ray_address: str = Field(description="Address of a Ray cluster; empty = a new local one.")
    workers: int = Field(ge=0, le=4096, description="Processes that share work; 0 = one per core.")

    patch: int = Field(ge=1, le=16, description="Side of a patch in cells or pixels.")
    width: int = Field(ge=4, le=4096, description="Channels of encoder and decoder.")
    depth: int = Field(ge=1, le=64, description="Blocks of encoder and of decoder.")
    latent_dim: int = Field(ge=2, le=8192, description="Latents per item.")
    prior: Literal["standard", "autoregressive", "autoregressive_mixture"] = Field(
        description="Prior over the latents."
    )
    prior_width: int = Field(ge=4, le=4096, description="Channels of the learned prior.")
    prior_depth: int = Field(ge=1, le=64, description="Blocks of the learned prior.")
    prior_components: int = Field(ge=1, le=65536, description="Components of the learned prior.")
    prior_heads: int = Field(
        ge=0,
        description="Attention heads of the learned prior; 0 = none.",
        json_schema_extra=neutral(0),
    )
    likelihood: Literal[
        "categorical",
        "bernoulli",
        "continuous_bernoulli",
        "gaussian",
        "gaussian_analytic",
        "discretized_logistic_mixture",
    ] = Field(description="What the decoder says of a cell or a pixel.")
    likelihood_components: int = Field(ge=1, le=100, description="Logistics per pixel.")
    causal_channels: int = Field(
        ge=0, le=1024, description="Channels of the causal head.", json_schema_extra=neutral(0)
    )

    epochs: int = Field(ge=1, le=100_000, description="Most epochs.")
    samples_per_epoch: int = Field(ge=1, le=10**9, description="Training items per epoch.")
    batch_size: int = Field(ge=1, description="Items per update.")
    lr: float = Field(gt=0, le=1, description="Peak learning rate.")
    lr_schedule: Literal["constant", "cosine"] = Field(description="Learning rate over the run.")
    weight_decay: float = Field(
        ge=0, le=1, description="Decoupled weight decay.", json_schema_extra=neutral(0.0)
    )
    amsgrad: bool = Field(
        description="Whether steps follow the largest second moment so far.",
        json_schema_extra=neutral(False),
    )
    grad_clip: float = Field(
        ge=0,
        description="Greatest gradient norm of a group; 0 = off.",
        json_schema_extra=neutral(0.0),
    )
    patience: int = Field(ge=1, description="Epochs without a gain before stopping.")
    ema: float = Field(
        ge=0,
        lt=1,
        description="Memory of the averaged weights; 0 = off.",
        json_schema_extra=neutral(0.0),
    )

    micro_batches: int = Field(
        ge=1,
        le=1024,
        description="Parts of a batch, one after another.",
        json_schema_extra=neutral(1),
    )
    precision: Literal["float32", "bfloat16"] = Field(description="Of matrix products.")
    compile: bool = Field(
        description="Whether torch.compile prepares the training step.",
        json_schema_extra=neutral(False),
    )
    prior_share: float = Field(
        ge=0,
        lt=1,
        description="Share of the run for the prior alone.",
        json_schema_extra=neutral(0.0),
    )

    beta_max: float = Field(ge=0, description="Weight of the KL term; 1 = the ELBO.")
    beta_schedule: Literal["constant", "linear", "sigmoid", "cyclical"] = Field(
        description="Rise of beta."
    )
    beta_delay: float = Field(
        ge=0, lt=1, description="Share of the run at beta 0.", json_schema_extra=neutral(0.0)
    )
    beta_warmup: float = Field(
        ge=0,
        le=1,
        description="Share of the joint phase (after the delay, before the prior alone)"
        " in which beta rises.",
    )
    free_bits: float = Field(
        ge=0,
        description="Nats per latent that are free of the KL term.",
        json_schema_extra=neutral(0.0),
    )
    auxiliary: float = Field(
        ge=0,
        description="Weight of the likelihood without causal head.",
        json_schema_extra=neutral(0.0),
    )
    focal_gamma: float = Field(
        ge=0, description="Focal exponent at beta 0; 0 = off.", json_schema_extra=neutral(0.0)
    )
    class_balance_exponent: float = Field(
        ge=0, le=1, description="Class weights; 0 = off.", json_schema_extra=neutral(0.0)
    )
    corruption: float = Field(
        ge=0,
        le=1,
        description="Share of training grids that are corrupted.",
        json_schema_extra=neutral(0.0),
    )

    wandb: bool = Field(description="Mirror the logs to Weights & Biases.")
    bootstrap: int = Field(ge=100, le=100_000, description="Resamples per interval.")

    grids: GridParams
    images: ImageParams
    evaluate: EvaluateParams
    agent: AgentParams
    benchmark: BenchmarkParams
    images_model: dict[str, Any] = Field(description="What all image datasets share.")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if len(set(self.datasets)) < len(self.datasets):
            raise ValueError(f"datasets must name each dataset once, got {self.datasets}")
        if self.batch_size > self.samples_per_epoch:
            raise ValueError(f"batch_size must be <= samples_per_epoch, got {self.batch_size}")
        if self.prior_heads and self.prior_width % self.prior_heads:
            rule = f"0 or a divisor of prior_width, {self.prior_width}"
            raise ValueError(f"prior_heads must be {rule}, got {self.prior_heads}")
        return self

    @property
    def sections(self) -> dict[str, dict[str, Any]]:
        """The sections of datasets, by name."""
        return self.__pydantic_extra__

    @property
    def own_datasets(self) -> list[str]:
        """Names of the datasets of one's own."""
        return [name for name in self.sections if name not in PUBLISHED]

    @property
    def own_images(self) -> list[str]:
        """Names of those that hold pictures, which a goal of the agent may state."""
        return [name for name in self.own_datasets if self.dataset(name).kind == "images"]

    def dataset(self, name: str) -> Dataset:
        """What the dataset of a name states. Raises a GenlabError for one that is not there."""
        if name in PUBLISHED:
            sides = {"arc_grids": self.grids.size, "emoji": self.images.emoji_size}
            return replace(PUBLISHED[name], side=sides.get(name, PUBLISHED[name].side))
        if name not in self.sections:
            raise GenlabError(self.describe_unknown(name), key="dataset", path=PARAMS_FILE)
        source = SourceParams.model_validate(self.sections[name]["source"])
        if source.kind == "grids":
            return Dataset(name, f"{name} (own grids)", "grids", source.size, source=source)
        channels = {"grey": 1, "rgb": 3}.get(source.channels)
        title = f"{name} (own pictures)"
        return Dataset(name, title, "images", source.size, channels, source=source)

    def describe_unknown(self, name: str) -> str:
        """Why a name is no dataset's, and which ones are."""
        named = {*PUBLISHED, *self.sections}
        rest = "one of your own has a section with source: {path: …}"
        near = did_you_mean(name, named)
        return f"no dataset is called {name!r}{near}; known: {join_names(named)}; {rest}"

    def for_dataset(self, name: str) -> Params:
        """Return the params of a dataset: its section over the images' over the flat keys."""
        dataset = self.dataset(name)
        merged = merge(self.model_dump(), dataset, PARAMS_FILE)
        check_shapes(merged, dataset, PARAMS_FILE)
        return merged

    def with_overrides(self, **overrides: Any) -> Params:
        """Return params with other values for flat keys, checked again; `None` changes nothing.

        An overridden key is dropped from all sections, so that it holds for every dataset.
        """
        chosen = {key: value for key, value in overrides.items() if value is not None}
        values = {**self.model_dump(), **chosen}
        for name in ("images_model", *self.sections):
            values[name] = {key: v for key, v in values[name].items() if key not in chosen}
        return validate(values, ", ".join(f"--{key.replace('_', '-')}" for key in chosen))

    def digest(self, *keys: str) -> str:
        """SHA-256 of the values of `keys` (all, where none are named)."""
        values = self.model_dump()
        return digest_values({key: values[key] for key in keys} if keys else values)

    def resolve(self, name: str) -> dict[str, dict[str, Any]]:
        """What each stage of dataset `name` depends on: {stage: {key: value}}.

        Sections are merged. Left out are keys that the dataset does not read, and keys at the value
        that changes nothing: a change of what only grids use leaves the stages of images up to
        date.
        """
        dataset = self.dataset(name)
        values = self.for_dataset(name).effective()
        grids = dataset.kind == "grids"
        unused = set(UNUSED_BY_GRIDS if grids else UNUSED_BY_IMAGES)
        if name != "emoji":
            unused |= {"emoji_size", "emoji_font"}
        training, data, measured = (
            {key: value for key, value in section.items() if key not in unused}
            for section in (values, values["grids" if grids else "images"], values["evaluate"])
        )
        shares = {key: data.pop(key) for key in ("val_share", "test_share")}
        if dataset.source:
            stated = dataset.source.effective()
            shares |= {key: stated.pop(key) for key in tuple(shares) if key in stated}
            data = {"source": stated}
        judges = {key: measured.pop(key) for key in JUDGE_KEYS if key in measured}
        seed = {"seed": self.seed}
        machine = {"device": self.device, "threads": self.threads}
        intervals = {**seed, "bootstrap": self.bootstrap}
        return {
            "generate": {**seed, **data},
            "split": {**seed, **shares},
            "judges": judges,
            "train": {key: training[key] for key in TRAINING_KEYS if key in training},
            "evaluate": {**machine, **intervals, **measured},
            "failure_gallery": intervals,
        }

    @property
    def leaves_agent_out(self) -> bool:
        """Whether the pipeline does not run over the dataset of the agent's goal."""
        name = self.agent.dataset
        return name in {*PUBLISHED, *self.sections} and name not in self.datasets

    def resolve_shared(self, *, idle: bool = False) -> dict[str, dict[str, Any]]:
        """What each stage without a dataset of its own depends on: {stage: {key: value}}.

        idle: whether the agent has nothing to do, see `stages/params.py`.
        """
        benchmark = self.benchmark.effective()
        benchmark = {"seed": self.seed, "bootstrap": self.bootstrap, **benchmark}
        if idle:
            resting = {"dataset": self.agent.dataset, "idle": True}
            return {**dict.fromkeys(AGENT_STAGES, resting), "benchmark": benchmark}
        agent = self.agent.effective()
        reference = {key: agent[key] for key in REFERENCE_KEYS}
        searched = {key: agent[key] for key in SEARCH_KEYS if key in agent}
        if self.agent.dataset in {*PUBLISHED, *self.sections}:
            reference["train"] = self.resolve(self.agent.dataset)["train"]
        return {
            "agent_reference": reference,
            "agent_search": {"seed": self.seed, **searched},
            "agent_iterate": {"seed": self.seed, **agent},
            "benchmark": benchmark,
        }

    def training_digest(self, name: str) -> str:
        """SHA-256 of what the training on dataset `name` depends on."""
        return digest_values(self.resolve(name)["train"])


PARTS = (GridParams, ImageParams, EvaluateParams, AgentParams, BenchmarkParams)
SECTION_FIELDS = tuple(key for model in PARTS for key in model.model_fields)
FLAT = tuple(
    name
    for name, field in Params.model_fields.items()
    if field.annotation in (int, float, bool, str) or get_origin(field.annotation) is Literal
)
UNTRAINED = ("engine", "ray_address", "workers", "wandb", "bootstrap")  # no weight depends on them
TRAINING_KEYS = tuple(name for name in FLAT if name not in UNTRAINED)
SECTION_KEYS = frozenset(TRAINING_KEYS) - {"seed", "beta_max", "beta_schedule"}
# What changes no byte of a dataset's results.
UNUSED_BY_GRIDS = (
    "likelihood_components",
    "causal_channels",
    "auxiliary",
    "image_samples",
    "extractor_examples",
)
# Of agent, beside the goal: what random search depends on, and what stage agent_search reads.
SEARCH_BUDGET = (
    "drafts", "candidates", "device", "examples", "subset", "max_parameters", "time_limit",
    "validation", "seeds", "confirmation_seeds",
)  # fmt: skip
REFERENCE_KEYS = ("dataset", "examples", "subset", "validation", "seeds")
SEARCH_KEYS = ("goal", "dataset", *SEARCH_BUDGET, "max_iterations", "compare_with_search")
AGENT_STAGES = ("agent_reference", "agent_search", "agent_iterate")
JUDGE_KEYS = ("extractor_examples",)
UNUSED_BY_IMAGES = (
    "raw", "download", "focal_gamma", "class_balance_exponent", "corruption", "samples",
)  # fmt: skip


def merge(values: Mapping[str, Any], dataset: Dataset, source: str) -> Params:
    """Merge the sections of a dataset into the flat keys, and check the result."""
    merged = dict(values)
    names = [dataset.name] if dataset.kind == "grids" else ["images_model", dataset.name]
    for name in names:
        section = dict(values.get(name, {}))
        section.pop("source", None)
        for key in section.keys() - SECTION_KEYS:
            raise GenlabError(
                f"{source}: {name}.{key} is not allowed{did_you_mean(key, SECTION_KEYS)}; a"
                " section holds training keys, and seed and beta are the same for all",
                key=f"{name}.{key}",
            )
        merged |= section
    return validate(merged, f"{source} (for {dataset.name})")


def validate(values: Mapping[str, Any], source: str) -> Params:
    """Check values against the fields. Raises a GenlabError that names `source` and the key."""
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        known = [*Params.model_fields, *SECTION_FIELDS]
        raise to_genlab_error(error, source, known) from error


def digest_values(values: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of `values`: the same for the same content in any order."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()

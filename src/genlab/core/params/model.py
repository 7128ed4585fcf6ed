"""The typed content of params.yaml, and the values that each stage depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from genlab.core.errors import GenlabError, did_you_mean, to_genlab_error
from genlab.core.params.catalogue import PUBLISHED, Dataset, join_names
from genlab.core.params.flat import SECTION_KEYS, TRAINING_KEYS, FlatParams
from genlab.core.params.geometry import check_shapes, check_symmetries
from genlab.core.params.sections import (
    AgentParams,
    BenchmarkParams,
    EvaluateParams,
    GridParams,
    ImageParams,
    SourceParams,
)

PARAMS_FILE = "params.yaml"


class Params(FlatParams):
    """All of `params.yaml`; keys beyond the fields are sections of datasets."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, dict[str, Any]] = Field(init=False)

    grids: GridParams
    images: ImageParams
    evaluate: EvaluateParams
    agent: AgentParams
    benchmark: BenchmarkParams
    images_model: dict[str, Any] = Field(description="What all image datasets share.")

    @property
    def sections(self) -> dict[str, dict[str, Any]]:
        """The sections of datasets, by name."""
        return self.__pydantic_extra__

    @property
    def own_datasets(self) -> list[str]:
        """Names of the user's own datasets."""
        return [name for name in self.sections if name not in PUBLISHED]

    @property
    def own_images(self) -> list[str]:
        """Names of the user's own image datasets, which a goal of the agent may name."""
        return [name for name in self.own_datasets if self.dataset(name).kind == "images"]

    def dataset(self, name: str) -> Dataset:
        """Facts about a dataset from its name and section. Raises a GenlabError if unknown."""
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
        """Message for a name that is not a dataset's, with the names that are."""
        names = {*PUBLISHED, *self.sections}
        suggestion = did_you_mean(name, names)
        own_datasets = "one of your own has a section with source: {path: …}"
        return (
            f"no dataset is called {name!r}{suggestion}; known: {join_names(names)}; {own_datasets}"
        )

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
        changes = {key: value for key, value in overrides.items() if value is not None}
        values = {**self.model_dump(), **changes}
        for name in ("images_model", *self.sections):
            values[name] = {key: v for key, v in values[name].items() if key not in changes}
        options = ", ".join(f"--{key.replace('_', '-')}" for key in changes)
        return validate(values, options)

    def digest(self, *keys: str) -> str:
        """SHA-256 of the values of `keys`, by default of all keys."""
        values = self.model_dump()
        return digest_values({key: values[key] for key in keys} if keys else values)

    def resolve(self, name: str) -> dict[str, dict[str, Any]]:
        """Values that each stage of dataset `name` depends on: {stage: {key: value}}.

        Sections are merged. Keys that the dataset does not read, and keys at their neutral value,
        are left out: a change of what only grids use leaves the stages of images up to date.
        """
        dataset = self.dataset(name)
        values = self.for_dataset(name).effective()
        grids = dataset.kind == "grids"
        unused = set(UNUSED_BY_GRIDS if grids else UNUSED_BY_IMAGES)
        if name != "emoji":
            unused |= {"emoji_size", "emoji_font"}

        def select_used(section: Mapping[str, Any]) -> dict[str, Any]:
            return {key: value for key, value in section.items() if key not in unused}

        training = select_used(values)
        data = select_used(values["grids" if grids else "images"])
        evaluation = select_used(values["evaluate"])
        shares = {key: data.pop(key) for key in ("val_share", "test_share")}
        if dataset.source:
            stated = dataset.source.effective()
            shares |= {key: stated.pop(key) for key in tuple(shares) if key in stated}
            data = {"source": stated}
        judges = {key: evaluation.pop(key) for key in JUDGE_KEYS if key in evaluation}
        seed = {"seed": self.seed}
        machine = {"device": self.device, "threads": self.threads}
        intervals = {**seed, "bootstrap": self.bootstrap}
        return {
            "generate": {**seed, **data},
            "split": {**seed, **shares},
            "judges": judges,
            "train": {key: training[key] for key in TRAINING_KEYS if key in training},
            "evaluate": {**machine, **intervals, **evaluation},
            "failure_gallery": intervals,
        }

    @property
    def leaves_agent_out(self) -> bool:
        """Whether the pipeline does not run over the dataset of the agent's goal."""
        name = self.agent.dataset
        return name in {*PUBLISHED, *self.sections} and name not in self.datasets

    def resolve_shared(self, *, idle: bool = False) -> dict[str, dict[str, Any]]:
        """Values that each stage without a dataset depends on: {stage: {key: value}}.

        idle: whether the agent has nothing to do, see `stages/params.py`.
        """
        benchmark = self.benchmark.effective()
        benchmark = {"seed": self.seed, "bootstrap": self.bootstrap, **benchmark}
        if idle:
            idle_values = {"dataset": self.agent.dataset, "idle": True}
            return {**dict.fromkeys(AGENT_STAGES, idle_values), "benchmark": benchmark}
        agent = self.agent.effective()
        reference = {key: agent[key] for key in REFERENCE_KEYS}
        search = {key: agent[key] for key in SEARCH_KEYS if key in agent}
        if self.agent.dataset in {*PUBLISHED, *self.sections}:
            reference["train"] = self.resolve(self.agent.dataset)["train"]
        return {
            "agent_reference": reference,
            "agent_search": {"seed": self.seed, **search},
            "agent_iterate": {"seed": self.seed, **agent},
            "benchmark": benchmark,
        }

    def training_digest(self, name: str) -> str:
        """SHA-256 of the values that training on dataset `name` depends on."""
        return digest_values(self.resolve(name)["train"])


SECTION_MODELS = (GridParams, ImageParams, EvaluateParams, AgentParams, BenchmarkParams)
SECTION_FIELDS = tuple(key for model in SECTION_MODELS for key in model.model_fields)
# Keys that change no byte of the results of grids, or of images.
UNUSED_BY_GRIDS = (
    "likelihood_components",
    "causal_channels",
    "latent_context",
    "auxiliary",
    "image_samples",
    "extractor_examples",
)
UNUSED_BY_IMAGES = (
    "raw", "download", "focal_gamma", "class_balance_exponent", "corruption", "symmetries",
    "samples",
)  # fmt: skip
JUDGE_KEYS = ("extractor_examples",)
# Keys of section agent beside the goal: what random search depends on, and what its stages read.
SEARCH_BUDGET = (
    "drafts", "candidates", "device", "examples", "subset", "max_parameters", "time_limit",
    "validation", "seeds", "confirmation_seeds",
)  # fmt: skip
SEARCH_KEYS = ("goal", "dataset", *SEARCH_BUDGET, "max_iterations", "compare_with_search")
REFERENCE_KEYS = ("dataset", "examples", "subset", "validation", "seeds")
AGENT_STAGES = ("agent_reference", "agent_search", "agent_iterate")


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
    params = validate(merged, f"{source} (for {dataset.name})")
    if dataset.name == "arc_grids":
        check_symmetries(params, params.grids, source)
    return params


def validate(values: Mapping[str, Any], source: str) -> Params:
    """Check values against the fields. Raises a GenlabError that names `source` and the key."""
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        keys = [*Params.model_fields, *SECTION_FIELDS]
        raise to_genlab_error(error, source, keys) from error


def digest_values(values: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of `values`: the same for the same content in any order."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()

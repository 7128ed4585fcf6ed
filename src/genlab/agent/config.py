"""What a run is asked for: its goal, its parameters, and the key that identifies it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from genlab.agent.evaluator.results import TrainingBudget
from genlab.agent.goals.goal import DATASETS, Goal, parse_goal
from genlab.core.code import digest_code
from genlab.core.errors import GenlabError
from genlab.core.io import sha256
from genlab.core.params import SEARCH_BUDGET, AgentParams, Params, load_params
from genlab.core.params.catalogue import DUMMY_DATASET
from genlab.core.paths import resolve_beside, resolve_path

LIMITS = {
    "goal", "max_iterations", "patience", "max_tokens", "max_cost", "max_seconds", "sandbox",
    "compare_with_search", "allow_pip",
}  # fmt: skip
"""Parameters that may change between two starts of one run: they change no attempt's worth."""
CONNECTION = {"base_url", "key", "price_in", "price_out", "timeout"}
"""Of both roles: how a language model is reached, which may change as well."""


@dataclass(frozen=True)
class Settings:
    """A goal and the parameters of a run. data: folder that holds the datasets' folders.

    stop_at_goal: False lets a run spend its budget, as a comparison at equal budgets needs.
    """

    goal: Goal
    params: AgentParams
    seed: int = 0
    data: Path = Path("data")
    stop_at_goal: bool = True

    @property
    def budget(self) -> TrainingBudget:
        """The budget of every training, by the parameters and the constraints of the goal."""
        params, goal = self.params, self.goal
        return TrainingBudget(
            examples=params.examples,
            max_parameters=min(params.max_parameters, goal.max_parameters or params.max_parameters),
            seconds=min(params.time_limit, goal.max_seconds or params.time_limit),
        )

    @property
    def key(self) -> str:
        """Identifies runs whose attempts can be compared; limits may be raised within one."""
        left_out = dict.fromkeys(LIMITS, True) | {"planning": CONNECTION, "tools": CONNECTION}
        params = self.params.model_dump(mode="json", exclude=left_out)
        files = self._digest_data()
        transcript = resolve_beside(Path(), self.params.transcript)
        if self.params.backend == "replay" and transcript.is_file():
            files.append(sha256(transcript))
        # Prompts have the user's words, which search does not read.
        words = "" if self.params.backend == "search" else self.goal.text
        return _digest(self.goal.values, words, params, self.seed, self.stop_at_goal,
                       digest_code("agent_run"), files)  # fmt: skip

    @property
    def search_key(self) -> str:
        """Identifies random search whose first n attempts are the same."""
        params = self.params.model_dump(mode="json", include=set(SEARCH_BUDGET))
        return _digest(self.goal.values, params, self.seed,
                       digest_code("agent_search"), self._digest_data())  # fmt: skip

    def _digest_data(self) -> list[str]:
        """SHA-256 of every file of the data, and of the classifiers that images are compared by."""
        name, _, own = self.goal.dataset.partition(":")
        source = resolve_path(own) if own else self.data / name
        paths = [source, *sorted(source.rglob("*"))]
        if self.goal.metric == "frechet_distance" and not own:
            from genlab.evaluation.metrics.judges import FILE, released_file

            judges = self.data / "judges" / name / FILE
            paths.append(judges if judges.is_file() else released_file(name))
        return [sha256(path) for path in paths if path.is_file()]

    @property
    def stage_key(self) -> str:
        """`key` with the limits, on which the stage's numbers depend too."""
        return _digest(self.key, self.params.model_dump(mode="json", include=LIMITS))

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return dict(TypeAdapter(Settings).dump_python(self, mode="json"))

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Settings:
        """The settings of a stored run; parameters that are newer than it have today's values."""
        params = load_params().agent.model_dump()
        for name, value in stored["params"].items():
            if isinstance(value, dict):
                params[name] |= {key: one for key, one in value.items() if key in params[name]}
            elif name in params:
                params[name] = value
        return TypeAdapter(Settings).validate_python({**stored, "params": params})

    @classmethod
    def from_params(cls, params: Params, data: Path) -> Settings:
        """The settings of the stage. Raises a GenlabError where goal and dataset disagree."""
        agent = params.agent
        own = params.own_images
        goal = parse_goal(agent.goal, dataset=agent.dataset, own=own)
        known = [name for name in (*DATASETS, *own) if name in (*params.datasets, DUMMY_DATASET)]
        if goal.dataset not in known:
            raise GenlabError(
                f"params.yaml: agent.dataset must be one of {', '.join(known)}, got"
                f" {goal.dataset!r}; add it to datasets, or change agent.dataset and agent.goal"
            )
        return cls(goal, agent, params.seed, data=data)


@dataclass(frozen=True)
class Problem:
    """What every planner knows: the settings, the data's size, shape and classes, references.

    sizes: number of items for training and for validation.
    """

    settings: Settings
    sizes: tuple[int, int]
    shape: tuple[int, int, int]
    classes: int
    outputs: int
    references: dict[str, dict[str, Any]]

    @property
    def task(self) -> str:
        """`classify` or `generate`."""
        return self.settings.goal.task


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]

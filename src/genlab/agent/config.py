"""Settings of a run: its goal, its parameters, and the keys that identify it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from genlab.agent.evaluator.results import TrainingBudget
from genlab.agent.goals.goal import DATASETS, Goal
from genlab.agent.goals.parser import parse_goal
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
"""Parameters that may change when a run is resumed: they change no attempt's numbers."""
CONNECTION = {"base_url", "key", "price_in", "price_out", "timeout"}
"""Parameters of `planning` and `tools`, how a model is reached, that may change as well."""


@dataclass(frozen=True)
class Settings:
    """A goal and the parameters of a run.

    data: folder that holds the datasets' folders. stop_at_goal: False lets a run go on after it
    has met the goal, as a comparison at equal budgets needs.
    """

    goal: Goal
    params: AgentParams
    seed: int = 0
    data: Path = Path("data")
    stop_at_goal: bool = True

    @property
    def budget(self) -> TrainingBudget:
        """The budget of every training: the parameters, or the goal's constraints if lower."""
        params = self.params
        goal = self.goal
        return TrainingBudget(
            examples=params.examples,
            max_parameters=min(params.max_parameters, goal.max_parameters or params.max_parameters),
            seconds=min(params.time_limit, goal.max_seconds or params.time_limit),
        )

    @property
    def key(self) -> str:
        """Identifies runs whose attempts can be compared; limits are not part of it."""
        excluded = dict.fromkeys(LIMITS, True) | {"planning": CONNECTION, "tools": CONNECTION}
        params = self.params.model_dump(mode="json", exclude=excluded)
        files = self._digest_data()
        transcript = resolve_beside(Path(), self.params.transcript)
        if self.params.backend == "replay" and transcript.is_file():
            files.append(sha256(transcript))
        # Prompts quote the user's words; random search does not read them.
        words = "" if self.params.backend == "search" else self.goal.text
        return _digest(self.goal.values, words, params, self.seed, self.stop_at_goal,
                       digest_code("agent_run"), files)  # fmt: skip

    @property
    def search_key(self) -> str:
        """Identifies random searches whose first n attempts are the same, for any n."""
        params = self.params.model_dump(mode="json", include=set(SEARCH_BUDGET))
        return _digest(self.goal.values, params, self.seed,
                       digest_code("agent_search"), self._digest_data())  # fmt: skip

    def _digest_data(self) -> list[str]:
        """Return the SHA-256 of every file of the data, and of the Fréchet distance's classifiers.

        The dataset is a name, or path:FOLDER for a folder of the user's.
        """
        name, _, folder = self.goal.dataset.partition(":")
        source = resolve_path(folder) if folder else self.data / name
        paths = [source, *sorted(source.rglob("*"))]
        if self.goal.metric == "frechet_distance" and not folder:
            from genlab.evaluation.metrics.judges import FILE, released_file

            judges = self.data / "judges" / name / FILE
            paths.append(judges if judges.is_file() else released_file(name))
        return [sha256(path) for path in paths if path.is_file()]

    @property
    def stage_key(self) -> str:
        """`key` with the limits: the stage's numbers depend on them as well."""
        return _digest(self.key, self.params.model_dump(mode="json", include=LIMITS))

    def to_json(self) -> dict[str, Any]:
        """Convert to plain values, as run.json has them."""
        return dict(TypeAdapter(Settings).dump_python(self, mode="json"))

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Settings:
        """Read the settings of a stored run.

        Parameters that the run does not have take their values from params.yaml; those that this
        version does not have are left out.
        """
        params = load_params().agent.model_dump()
        for name, value in stored["params"].items():
            if isinstance(value, dict):
                section = params[name]
                section |= {key: entry for key, entry in value.items() if key in section}
            elif name in params:
                params[name] = value
        return TypeAdapter(Settings).validate_python({**stored, "params": params})

    @classmethod
    def from_params(cls, params: Params, data: Path) -> Settings:
        """Take a stage's settings from params.yaml. Raises a GenlabError for an unlisted dataset.

        The dataset must be in `datasets`, since only those have files that the stage can use.
        """
        agent = params.agent
        own_names = params.own_images
        goal = parse_goal(agent.goal, dataset=agent.dataset, own_datasets=own_names)
        available = (*params.datasets, DUMMY_DATASET)
        choices = [name for name in (*DATASETS, *own_names) if name in available]
        if goal.dataset not in choices:
            raise GenlabError(
                f"params.yaml: agent.dataset must be one of {', '.join(choices)}, got"
                f" {goal.dataset!r}; add it to datasets, or change agent.dataset and agent.goal"
            )
        return cls(goal, agent, params.seed, data=data)


@dataclass(frozen=True)
class Problem:
    """The problem that a planner solves: settings, facts about the data, reference models.

    sizes: number of items for training and for validation. shape: channels, height and width of an
    image. outputs: what a model returns per item, or per pixel where it generates. references:
    metrics of each reference model by its name.
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


def _digest(*values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]

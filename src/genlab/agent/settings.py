"""What a run of the agent is asked for, and within which limits."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from genlab.agent.candidate import Training
from genlab.agent.goal import DATASETS, Goal, dataset_in, goal
from genlab.agent.quick_evaluator import EvalConfig
from genlab.core.errors import GenlabError
from genlab.core.params import AgentParams, Params

LIMITS = (
    "max_iterations", "patience", "max_tokens", "max_cost", "max_seconds", "price_in", "price_out",
    "compare_with_search", "allow_pip", "sandbox", "goal", "transcript", "base_url",
)  # fmt: skip
"""Params that bound a run or say where it asks, and change nothing in what an attempt is worth."""
DRAWN = "dummy"  # the dataset that no stage has to make


@dataclass(frozen=True)
class Settings:
    """A goal, the params of the agent, and what an ablation takes away.

    data: the folder that holds the folders of the datasets. llm_code: whether the tool LLM is
    asked for code at all. relief: whether search plans the attempt after one of the planner's that
    brought no gain, for a planner too weak to be left to itself.
    """

    goal: Goal
    params: AgentParams
    seed: int = 0
    data: Path = Path("data")
    llm_code: bool = True
    relief: bool = False
    registry_in_prompt: bool = True
    repair: bool = True
    branching: bool = True
    stop_at_goal: bool = True

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of training on which a goal has to be reached; the first one is everybody's."""
        return tuple(range(self.params.seeds))

    @property
    def max_repairs(self) -> int:
        """Tries at mending code."""
        return self.params.max_repairs if self.repair else 0

    def evaluation(self, training: Training, seeds: tuple[int, ...] = (0,)) -> EvalConfig:
        """How an attempt with `training` is tried."""
        return EvalConfig(
            dataset=self.goal.dataset,
            epochs=self.params.epochs,
            subset=self.params.subset,
            validation=self.params.validation,
            time_limit=self.params.time_limit,
            seeds=seeds,
            **training.model_dump(),
        )

    @property
    def key(self) -> str:
        """Tells runs apart whose attempts cannot be compared; limits may be raised within one."""
        return self._digest(leave_out=LIMITS)

    @property
    def whole_key(self) -> str:
        """Tells runs apart by everything that was set."""
        return self._digest(leave_out=())

    def _digest(self, leave_out: tuple[str, ...]) -> str:
        told = self.told()
        told["params"] = {
            name: value for name, value in told["params"].items() if name not in leave_out
        }
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]

    def told(self) -> dict[str, Any]:
        """All of it as plain values, but for where the data lie."""
        return {
            "goal": asdict(self.goal),
            "params": self.params.model_dump(mode="json", exclude={"dataset"}),  # the goal has it
            "seed": self.seed,
            "llm_code": self.llm_code,
            "relief": self.relief,
            "registry_in_prompt": self.registry_in_prompt,
            "repair": self.repair,
            "branching": self.branching,
            "stop_at_goal": self.stop_at_goal,
        }

    @classmethod
    def of(cls, told: dict[str, Any], data: Path = Path("data")) -> Settings:
        """The settings that `told` gave."""
        wanted = Goal(**told["goal"])
        params = AgentParams(dataset=wanted.dataset, **told["params"])
        return cls(data=data, **{**told, "goal": wanted, "params": params})

    @classmethod
    def of_stage(cls, params: Params, data: Path) -> Settings:
        """The settings of the stage, whose data are a dep of it.

        Raises GenlabError where the goal is about other data than that, or where the pipeline does
        not make them.
        """
        text, dataset = params.agent.goal, params.agent.dataset
        if dataset not in DATASETS.values():
            known = ", ".join(DATASETS.values())
            raise GenlabError(f"params.yaml: agent.dataset must be one of {known}, got {dataset!r}")
        stated = dataset_in(text) or dataset
        if stated != dataset:
            raise GenlabError(
                f"params.yaml: agent.goal is about {stated}, agent.dataset is {dataset!r};"
                " change one of them"
            )
        if dataset not in (*params.datasets, DRAWN):
            raise GenlabError(
                f"params.yaml: agent.dataset {dataset!r} isn't among datasets"
                f" ({', '.join(params.datasets)}); add it there, or change agent.dataset and"
                " agent.goal"
            )
        return cls(goal(text, dataset=dataset), params.agent, params.seed, data)

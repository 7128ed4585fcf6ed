"""What the agent's benchmarks share: where they work, on what, and how a number is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from genlab.agent.goal import goal
from genlab.agent.settings import Settings
from genlab.core.params import AgentParams, load_params
from record import BENCHMARKS, record
from spread import shown

PARAMS = Path(__file__).resolve().parent.parent / "params.yaml"

# A quick evaluation that is quick on one slow core, and does not depend on the clock: a training
# ends with its epochs. Two seeds, so that one lucky one reaches nothing.
QUICK = {
    "max_iterations": 5,
    "patience": 5,
    "epochs": 3,
    "subset": 3000,
    "validation": 2000,
    "time_limit": 900.0,
    "seeds": 2,
    "max_parameters": 20_000,
    "max_tokens": 0,
    "max_seconds": 0.0,
}


@dataclass(frozen=True)
class Setting:
    """A benchmark's options. workspaces: where runs are kept, and resumed."""

    data: Path = Path("data")
    workspaces: Path = Path("workspaces/benchmarks")
    output: Path | None = BENCHMARKS  # None: nothing is kept
    seeds: int = 10
    options: str = ""  # of the command line, as they stand in the record
    overrides: dict[str, Any] = field(default_factory=dict)  # of QUICK

    def settings(self, text: str, seed: int = 0, **changes: Any) -> Settings:
        """Settings of a run towards the goal `text`; `changes` of params, or of settings."""
        of_run = {name: changes.pop(name) for name in list(changes) if name in ABLATIONS}
        wanted = goal(text)
        params = agent_params({**QUICK, **self.overrides, **changes, "goal": text})
        return replace(Settings(wanted, params, seed, self.data), **of_run)

    def keep(
        self,
        key: str,
        value: float,
        *,
        interval: tuple[float, float] | None = None,
        n: int,
        seeds: Sequence[int],
        only: str,
    ) -> None:
        """Print a number, and record it."""
        bounds = "" if interval is None else f"  ({shown(interval, '.4g')})"
        print(f"agent.{key} = {value:.4g}{bounds}, n = {n}")
        if self.output is not None:
            command = f"python benchmarks/agent.py --only {only}{self.options}"
            record(
                f"agent.{key}",
                value,
                interval=interval,
                n=n,
                seeds=seeds,
                command=command,
                path=self.output,
            )


ABLATIONS = ("registry_in_prompt", "repair", "branching", "stop_at_goal", "llm_code")


def agent_params(changes: dict[str, Any]) -> AgentParams:
    """The agent's params as params.yaml has them, with `changes`."""
    return AgentParams(**{**load_params(PARAMS).agent.model_dump(), **changes})

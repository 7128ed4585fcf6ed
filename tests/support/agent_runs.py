"""Settings, attempts and workspaces of small agent runs, and a scripted language model."""

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from ruamel.yaml import YAML

from genlab.agent.config import Problem, Settings
from genlab.agent.goals.goal import Goal
from genlab.agent.goals.parser import parse_goal
from genlab.agent.record import write_run
from genlab.agent.registry import Attempt, Registry
from genlab.agent.workspace import Workspace
from genlab.core.io import write_json, write_text
from genlab.core.params import AgentParams, load_params
from genlab.llm.chat import Answer, LLMFailure

ROOT = Path(__file__).resolve().parents[2]
GOAL = parse_goal("stripes on dummy, at least 90 % accuracy")
UNREACHABLE = parse_goal("dummy stripes", metric="val_loss", at_most=1e-6)
EVIL = "</code><script>alert(1)</script> | `x` [a](javascript:b) \n# head"
QUICK: dict[str, Any] = {
    "backend": "search", "max_iterations": 3, "patience": 3, "examples": 64, "subset": 64,
    "validation": 40, "seeds": 2, "confirmation_seeds": 2, "max_repairs": 1,
    "max_parameters": 60_000, "compare_with_search": False, "time_limit": 60.0,
}  # fmt: skip


class ScriptedModel:
    """A language model that gives these answers or errors in turn, and then fails.

    questions: content of the last message of each question that it was asked.
    """

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self.spent = {"tokens_in": 10.0, "tokens_out": 5.0}  # as a journal has them
        self.answers = list(answers)
        self.questions = list[str]()

    def ask(self, role: str, messages: Any, *, schema: type[BaseModel]) -> Answer:
        self.questions.append(str(messages[-1]["content"]))
        answer = self.answers.pop(0) if self.answers else LLMFailure("it is gone")
        if isinstance(answer, Exception):
            raise answer
        return Answer(json.dumps(answer), schema.model_validate(answer), (), role, 1, 1, 0.0, 0.0)


def agent_params(**changes: Any) -> AgentParams:
    """Make the parameters of a run that takes seconds. base_url: of both roles."""
    content = load_params(ROOT / "params.yaml").agent.model_dump()
    if url := changes.pop("base_url", ""):
        for role in ("planning", "tools"):
            content[role] |= {"base_url": url, "model": "scripted", "timeout": 30.0}
    return AgentParams.model_validate(content | QUICK | changes)


def settings(goal: Goal = UNREACHABLE, *, stop_at_goal: bool = True, **changes: Any) -> Settings:
    """Make the settings of a run that takes seconds."""
    return Settings(goal, agent_params(**changes), stop_at_goal=stop_at_goal)


def problem(
    goal: Goal = GOAL, shape: tuple[int, int, int] = (1, 16, 16), outputs: int = 4, **changes: Any
) -> Problem:
    """Make the problem of a run that takes seconds."""
    references = {"logistic regression": {"accuracy": 0.5}}
    return Problem(settings(goal, **changes), (200, 40), shape, outputs, outputs, references)


def write_params(folder: Path, **changes: Any) -> None:
    """Write the params.yaml of a run that takes seconds."""
    content = load_params(ROOT / "params.yaml").model_dump(mode="json")
    content["agent"] = agent_params(**changes).model_dump(mode="json")
    folder.mkdir(exist_ok=True)
    with (folder / "params.yaml").open("w", encoding="utf-8") as file:
        YAML(typ="safe", pure=True).dump(content, file)


def attempt(number: int, *accuracies: float, **more: Any) -> Attempt:
    """Make a decided attempt with an accuracy per seed; without any it failed."""
    seeds = [
        {"seed": seed, "metrics": {"accuracy": value, "val_loss": 1 - value, "n": 100},
         "train_loss": 0.5, "seconds": 1.5, "curve": [2.0, 1.0, 0.5], "cut": False}
        for seed, value in enumerate(accuracies)
    ]  # fmt: skip
    mean = sum(accuracies) / len(accuracies) if accuracies else None
    values: dict[str, Any] = {
        "run_id": f"qe_20260101_00000{number}",
        "timestamp": f"2026-01-01T00:00:0{number}",
        "model_name": "Net",
        "dataset": "dummy",
        "metrics_summary": {"accuracy": mean, "train_loss": 0.5, "parameters": 1234},
        "experiment_dir": f"experiments/qe_20260101_00000{number}",
        "decision": "Go on with more channels." if accuracies else "Attempt failed: it broke",
        "verdict": "missed" if accuracies else "failed",
        "number": number,
        "kind": "draft",
        "origin": "llm",
        "code_origin": "llm",
        "config": {"name": "Net", "layers": [{"type": "Flatten"}]},
        "training": {},
        "seeds": seeds,
        "failure": "" if accuracies else "it broke",
        "spend": {"questions": 2 * number, "tokens_in": 100, "tokens_out": 50, "seconds": 3.5},
    }
    return Attempt.model_validate(values | more)


def write_attempts(
    workspace: Workspace, *attempts: Attempt, code: str = "class Net: ...", verdict: str = "met"
) -> Workspace:
    """Write attempts, and the run that made them, into a workspace."""
    for entered in attempts:
        folder = workspace.root / entered.experiment_dir
        write_text(folder / "model_code.py", code)
        write_json(
            folder / "summary.json",
            {"layers": [{"name": EVIL, "kind": "Conv2d", "parameters": 80}], "analysis": EVIL},
        )
        Registry(workspace).put(entered)
    Registry(workspace).write()
    write_run(
        workspace, settings(GOAL), verdict, "openai, m", {"majority class": {"accuracy": 0.25}}
    )
    return workspace

"""Attempts, records and settings of small agent runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from genlab.agent.answers import parse
from genlab.agent.attempt import Attempt, keep
from genlab.agent.goal import Goal, goal
from genlab.agent.llm import Answer, Question
from genlab.agent.planner import BASELINE
from genlab.agent.registry import Record, Registry
from genlab.agent.settings import Settings
from genlab.agent.story import RUN_KIND, run_file
from genlab.agent.workspace import Workspace
from genlab.core.io import write_json
from genlab.core.params import AgentParams, load_params

ROOT = Path(__file__).resolve().parents[2]
GOAL = goal("stripes on dummy, at least 90 % accuracy")
UNREACHABLE = goal("dummy stripes", metric="accuracy", at_least=1.0)
EVIL = "</code><script>alert(1)</script> | `x` [a](javascript:b) \n# head"
SUMMARY = {
    "parameters": 1234, "trainable": 1234, "multiply_adds": 5678, "output": [1, 4], "layers": [],
    "table": "Layer </pre>", "failure": "", "analysis": EVIL, "overruled": [],
}  # fmt: skip
QUICK: dict[str, Any] = {
    "backend": "openai", "planning_model": "scripted", "max_iterations": 3, "patience": 3,
    "epochs": 1, "subset": 64, "validation": 20, "seeds": 2, "max_repairs": 1,
}  # fmt: skip


class Scripted:
    """A backend in this process that gives its replies in order, the last for ever."""

    def __init__(self, *replies: str | Exception) -> None:
        self.replies, self.asked = replies, list[Question]()

    def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        reply = self.replies[min(len(self.asked), len(self.replies)) - 1]
        if isinstance(reply, Exception):
            raise reply
        parsed = parse(reply, question.schema) if question.schema else None
        return Answer(reply, parsed, 10, 5, 0.1 + 0.2, 1, "scripted")


def settings(wanted: Goal = UNREACHABLE, **changes: Any) -> Settings:
    """Settings of a run of seconds, with other params or settings where given."""
    params = load_params(ROOT / "params.yaml").agent
    knobs = {name: changes.pop(name) for name in list(changes) if name in AgentParams.model_fields}
    return Settings(wanted, params.model_copy(update={**QUICK, **knobs}), llm_code=False, **changes)


def write_params(folder: Path, **changes: Any) -> None:
    """`params.yaml` of a run of seconds in `folder`, with other agent params where given."""
    content = load_params(ROOT / "params.yaml").model_dump(mode="json")
    content["agent"] |= QUICK | changes
    folder.mkdir(exist_ok=True)
    with (folder / "params.yaml").open("w", encoding="utf-8") as file:
        YAML(typ="safe", pure=True).dump(content, file)


def attempt(number: int, *accuracies: float, **more: Any) -> Attempt:
    """The attempt of that number with an accuracy per seed; without any it failed."""
    marks = [
        {
            "seed": seed,
            "validation": {"accuracy": one, "low": 0.0, "high": 1.0, "loss": 1 - one, "n": 100},
            "train_loss": 0.5,
            "seconds": 1.25 + number,
        }
        for seed, one in enumerate(accuracies)
    ]
    metrics = {"accuracy": accuracies[0], "parameters": 1234} if accuracies else {}
    values: dict[str, Any] = {
        "run_id": f"qe_20260101_00000{number}",
        "timestamp": f"2026-01-01T00:00:0{number}.000000+00:00",
        "model_name": "Net",
        "dataset": "dummy",
        "metrics_summary": metrics,
        "experiment_dir": f"experiments/qe_20260101_00000{number}",
        "decision": "iterate" if accuracies else "failed",
        "plan_origin": "baseline" if number == 1 else "llm",
        "code_origin": "template" if number == 1 else "llm",
        "iteration": number,
        "architecture": BASELINE,
        "checked": marks,
        "spend": {"questions": 2 * number, "tokens_in": 100, "tokens_out": 50, "seconds": 3.5},
    }
    return Attempt.model_validate({**values, **more})


def new_record(workspace: Workspace, accuracy: float | None = 0.5, **changes: Any) -> Record:
    """A record of a new run of `workspace`."""
    folder = workspace.new_run()
    place = {"run_id": folder.name, "experiment_dir": workspace.relative(folder)}
    made = attempt(1, *([] if accuracy is None else [accuracy]), **place, **changes)
    return Record.model_validate(made.model_dump(mode="json"))


def write_attempts(
    workspace: Workspace, *found: Attempt, code: str = "class Net: ...", verdict: str = "achieved"
) -> Workspace:
    """Write finished attempts, and the run that made them, into a workspace."""
    for each in found:
        folder = workspace.root / each.experiment_dir
        keep(folder, each, code, SUMMARY, b"weights")
        Registry(workspace).put(each)
    params = load_params(ROOT / "params.yaml").agent.model_copy(update={"backend": "openai"})
    facts = {"verdict": verdict, "backend": "openai, m", "settings": Settings(GOAL, params).told()}
    write_json(run_file(workspace), {"kind": RUN_KIND, "version": 1, **facts})
    return workspace

"""The loop: propose, assemble, summarise, evaluate, decide, record, by way of the nine tools.

Resumption is re-execution. A restarted run begins at its first round again: its journal answers
the questions that were asked, and the evaluator tool returns the evaluations that were finished.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from genlab.agent import tools
from genlab.agent.config import Problem, Settings
from genlab.agent.decisions import decide_by_numbers, find_verdict, hopeless_bound, leader
from genlab.agent.planner import Planner, Proposal, Review
from genlab.agent.progress import Progress
from genlab.agent.registry import CODE, CONFIG_FILE, SUMMARY, Attempt, Registry
from genlab.agent.tools.toolbox import Toolbox
from genlab.agent.workspace import CONFIG, MODEL
from genlab.core.errors import GenlabError
from genlab.core.io import write_bytes, write_json
from genlab.llm.backends import Session
from genlab.llm.chat import BudgetSpentError, LLMFailure


@dataclass
class Run:
    """What both modes share; `attempts` are those of this run that are decided on, in order."""

    problem: Problem
    toolbox: Toolbox
    progress: Progress
    session: Session | None = None
    attempts: list[Attempt] = field(default_factory=list)
    since: float = field(default_factory=time.monotonic)  # the latest decision

    @property
    def settings(self) -> Settings:
        """The settings of the run."""
        return self.problem.settings

    @property
    def verdict(self) -> str:
        """How the run has ended; empty while it goes on."""
        seconds = sum(each.wall_seconds for each in self.attempts) + time.monotonic() - self.since
        return find_verdict(self.attempts, self.settings, seconds)

    def record(self, attempt: Attempt, review: Review) -> None:
        """Decide on an attempt by its numbers and enter it; the best one is the current model."""
        verdict, sentence = decide_by_numbers(attempt, review, self.settings)
        changes: dict[str, Any] = {
            "verdict": verdict,
            "decision": sentence,
            "review": review.model_dump(exclude_defaults=True, exclude={"sentence"}),
            "spend": self.session.spent if self.session else {},
            # One that a resumed run finds decided keeps its time.
            "wall_seconds": attempt.wall_seconds or time.monotonic() - self.since,
        }
        self.since = time.monotonic()
        decided = attempt.model_copy(update=changes)
        self.attempts.append(decided)
        Registry(self.toolbox.workspace).put(decided)
        if leader(self.attempts, self.settings) is decided:
            root = self.toolbox.workspace.root
            for source, target in ((CODE, MODEL), (CONFIG_FILE, CONFIG)):
                write_bytes(root / target, (root / decided.experiment_dir / source).read_bytes())
        self.progress.attempt(decided)


@dataclass
class Model:
    """A proposal on its way: its file, its summary, and why it has none."""

    number: int
    proposal: Proposal
    path: str
    summary: dict[str, Any] = field(default_factory=dict)
    failure: str = ""


class Loop(Run):
    """Mode `loop`: a fixed sequence of steps."""

    def run(self, planner: Planner) -> str:
        """Work until the goal or a limit is reached; returns the verdict."""
        try:
            while not (verdict := self.verdict):
                models = [self.assemble(each) for each in self.propose(planner)]
                for model in models:
                    self.summarise(model)
                for attempt in self.evaluate(models):
                    self.record(*self.review(planner, attempt))
        except BudgetSpentError as error:
            return f"stopped: {error.reason}"
        return verdict

    def propose(self, planner: Planner) -> list[Model]:
        """The proposals of one round."""
        params, proposals = self.settings.params, list[Proposal]()
        first = len(self.attempts) + 1
        for number in range(first, min(first + params.candidates, params.max_iterations + 1)):
            self.progress.begin(number, params.max_iterations)
            self.progress.step("planning")
            proposals.append(planner.propose(self.attempts, proposals))
        return [
            Model(number, each, f"src/models/candidate_{number}_{each.config.name}.py".lower())
            for number, each in enumerate(proposals, first)
        ]

    def assemble(self, model: Model) -> Model:
        """Write the code of a proposal."""
        config = model.proposal.config
        with self._tools_for(model, f"writing {config.name}"):
            tools.pytorch_model_assembler(config.model_dump(mode="json"), model.path)
        return model

    def summarise(self, model: Model) -> None:
        """Measure the structure of a model; the tools' language model describes its code."""
        if not model.failure:
            with self._tools_for(model, "reading its structure"):
                model.summary = tools.pytorch_model_summary(
                    model.path, model.proposal.config.name, self.problem.shape
                )

    def evaluate(self, models: Sequence[Model]) -> list[Attempt]:
        """Train the models of a round in parallel processes and enter them in the registry."""
        self.progress.step("training")
        with ThreadPoolExecutor(max_workers=len(models)) as pool:
            run_ids = list(pool.map(self._train, models))
        return [self._enter(*each) for each in zip(models, run_ids, strict=True)]

    def review(self, planner: Planner, attempt: Attempt) -> tuple[Attempt, Review]:
        """The attempt with the planner's opinion on it."""
        if not attempt.failure:
            self.progress.step("deciding")
            try:
                return attempt, planner.review(self.attempts, attempt)
            except LLMFailure as error:
                notes = [*attempt.notes, f"no review: {error.reason}"]
                attempt = attempt.model_copy(update={"notes": notes})
        return attempt, Review()

    @contextmanager
    def _tools_for(self, model: Model, step: str) -> Iterator[None]:
        """Bind the tools; what they refuse is the model's failure.

        Search proposes what the template can write: no language model is asked for its code.
        """
        self.progress.step(step)
        by_llm = model.proposal.origin == "llm"
        try:
            with tools.using(self.toolbox if by_llm else self.toolbox.without_backend()):
                yield
        except GenlabError as error:
            model.failure = str(error)

    def _train(self, model: Model) -> str:
        """Evaluate one model; returns its run_id, empty where there was nothing to train."""
        if model.failure:
            return ""
        chosen = model.proposal.training.model_dump(mode="json")
        bound = hopeless_bound(leader(self.attempts, self.settings), self.settings)
        name = model.proposal.config.name
        with tools.using(self.toolbox):
            try:
                found = tools.pytorch_quick_evaluator(
                    model.path, name, chosen | {"stop_below": bound}
                )
            except tools.EvaluationFailedError as error:
                return error.run_id
        return str(found["run_id"])

    def _enter(self, model: Model, run_id: str) -> Attempt:
        """The attempt of a model, with what the loop knows of it, before its decision."""
        workspace, proposal = self.toolbox.workspace, model.proposal

        def is_same(each: Attempt) -> bool:
            same = (each.number, each.failure) == (model.number, model.failure)
            return each.run_id == run_id if run_id else same

        known = filter(is_same, Registry(workspace).attempts())
        attempt = next(known, None) or self._fail(model)
        if model.summary:
            write_json(workspace.root / attempt.experiment_dir / SUMMARY, model.summary)
        found_again = attempt.number > 0  # by a run that is resumed
        changes: dict[str, Any] = {
            "number": model.number,
            "kind": proposal.kind,
            "parent": proposal.parent.run_id if proposal.parent else "",
            "origin": proposal.origin,
            "config": proposal.config.model_dump(mode="json"),
            "training": proposal.training.model_dump(mode="json"),
            "change": proposal.change,
            "difference": proposal.difference,
            "notes": attempt.notes if found_again else [*proposal.notes, *attempt.notes],
            "analysis": str(model.summary.get("analysis", "")),
        }
        attempt = attempt.model_copy(update=changes)
        Registry(workspace).put(attempt)
        return attempt

    def _fail(self, model: Model) -> Attempt:
        """The record of a model that could not be written or built."""
        folder = self.toolbox.workspace.new_run()
        return Attempt(
            run_id=folder.name,
            timestamp=datetime.now(timezone.utc).isoformat(timespec="microseconds"),
            model_name=model.proposal.config.name,
            dataset=self.settings.goal.dataset,
            metrics_summary={},
            experiment_dir=self.toolbox.workspace.relative(folder),
            failure=model.failure,
        )

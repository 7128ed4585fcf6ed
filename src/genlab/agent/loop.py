"""The loop: propose, assemble, summarise, evaluate, decide, record, by way of the nine tools.

Resumption is re-execution. A restarted run begins at its first round again: its journal answers
the questions that were asked, and the evaluator tool returns the evaluations that were finished.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from genlab.agent import tools
from genlab.agent.config import Settings
from genlab.agent.planner import Planner, Proposal, Review
from genlab.agent.progress import Progress
from genlab.agent.registry import CODE, CONFIG_FILE, SUMMARY, Attempt, Registry
from genlab.agent.tools.toolbox import Toolbox
from genlab.agent.workspace import CONFIG, MODEL
from genlab.core.errors import GenlabError
from genlab.core.io import write_bytes, write_json
from genlab.llm.chat import BudgetSpentError, LLMFailure
from genlab.llm.journal import Journal

HOPELESS = 3.0  # standard deviations of the best attempt's seeds below its mean


@dataclass
class Model:
    """A proposal on its way: its file, its summary, and why it has none."""

    proposal: Proposal
    path: str
    began: float = field(default_factory=time.monotonic)
    summary: dict[str, Any] = field(default_factory=dict)
    failure: str = ""


@dataclass
class Loop:
    """A run of the loop in a workspace; `attempts` are those of this run, in order."""

    settings: Settings
    toolbox: Toolbox
    planner: Planner
    progress: Progress
    session: Journal | None = None
    attempts: list[Attempt] = field(default_factory=list)

    def run(self) -> str:
        """Work until the goal or a limit is reached; returns the verdict."""
        try:
            while not (verdict := self.verdict):
                first = len(self.attempts) + 1
                models = [self.assemble(*each) for each in enumerate(self.propose(), first)]
                for model in models:
                    self.summarise(model)
                for attempt in self.evaluate(models):
                    self.record(self.decide(attempt))
        except BudgetSpentError as error:
            return f"stopped: {error.reason}"
        return verdict

    @property
    def verdict(self) -> str:
        """How the run has ended; empty while it goes on."""
        if self.attempts and self.attempts[-1].verdict == "stop":
            return "stopped: the planner has nothing left to try"
        seconds = sum(each.wall_seconds for each in self.attempts)
        return find_verdict(self.attempts, self.settings, seconds)

    def propose(self) -> list[Proposal]:
        """The proposals of one round."""
        params, proposals = self.settings.params, list[Proposal]()
        for _ in range(min(params.candidates, params.max_iterations - len(self.attempts))):
            number = len(self.attempts) + len(proposals) + 1
            self.progress.begin(number, params.max_iterations)
            self.progress.step("planning")
            proposals.append(self.planner.propose(self.attempts, proposals))
        return proposals

    def assemble(self, number: int, proposal: Proposal) -> Model:
        """Write the code of the proposal for attempt `number`."""
        name = proposal.config.name
        self.progress.step(f"writing {name}")
        model = Model(proposal, f"src/models/candidate_{number}_{name}.py".lower())
        config = proposal.config.model_dump(mode="json")
        try:
            with tools.using(self._toolbox_for(proposal)):
                tools.pytorch_model_assembler(config, model.path)
        except GenlabError as error:
            model.failure = str(error)
        return model

    def summarise(self, model: Model) -> None:
        """Measure the structure of a model; the tools' language model describes its code."""
        if model.failure:
            return
        self.progress.step("reading its structure")
        try:
            with tools.using(self._toolbox_for(model.proposal)):
                model.summary = tools.pytorch_model_summary(
                    model.path, model.proposal.config.name, model.proposal.input_size
                )
        except GenlabError as error:
            model.failure = str(error)

    def evaluate(self, models: Sequence[Model]) -> list[Attempt]:
        """Train the models of a round in parallel processes and enter them in the registry."""
        self.progress.step("training")
        with ThreadPoolExecutor(max_workers=len(models)) as pool:
            run_ids = list(pool.map(self._evaluate_one, models))
        pairs = zip(models, run_ids, strict=True)
        return [self._enter(model, run_id, at) for at, (model, run_id) in enumerate(pairs, 1)]

    def decide(self, attempt: Attempt) -> Attempt:
        """The attempt with a decision: the numbers decide, the planner's opinion is recorded."""
        review, notes = Review(), list(attempt.notes)
        if not attempt.failure:
            self.progress.step("deciding")
            try:
                review = self.planner.review(self.attempts, attempt, attempt.analysis)
            except LLMFailure as error:
                notes.append(f"no review: {error.reason}")
        verdict, sentence = settle(attempt, review, self.settings)
        opinion = review.model_dump() if review != Review() else {}
        spend = self.session.spent if self.session else {}
        changes = {"verdict": verdict, "decision": sentence, "review": opinion, "notes": notes}
        return attempt.model_copy(update=changes | {"spend": spend})

    def record(self, attempt: Attempt) -> None:
        """Enter a decided attempt."""
        self.attempts.append(attempt)
        enter_decided(attempt, self.attempts, self.settings, self.toolbox, self.progress)

    def _toolbox_for(self, proposal: Proposal) -> Toolbox:
        """Search proposes what the template can write: no language model is asked for its code."""
        return self.toolbox if proposal.origin == "llm" else self.toolbox.without_backend()

    def _evaluate_one(self, model: Model) -> str:
        """Evaluate one model; returns its run_id, empty where there was nothing to train."""
        if model.failure:
            return ""
        best, config = leader(self.attempts, self.settings), model.proposal.training
        asked = model.proposal.asked | config.model_dump(mode="json")
        if (bound := hopeless_bound(best, self.settings)) is not None:
            asked["stop_below"] = bound
        with tools.using(self.toolbox):
            try:
                found = tools.pytorch_quick_evaluator(model.path, model.proposal.config.name, asked)
            except tools.EvaluationFailedError as error:
                return error.run_id
        return str(found["run_id"])

    def _enter(self, model: Model, run_id: str, position: int) -> Attempt:
        """The attempt of a model, with what the loop knows of it, before its decision."""
        registry, proposal = Registry(self.toolbox.workspace), model.proposal
        number = len(self.attempts) + position
        known = {each.run_id: each for each in registry.attempts()}
        attempt = known.get(run_id) or self._failed(model, number, list(known.values()))
        if model.summary:
            folder = self.toolbox.workspace.root / attempt.experiment_dir
            write_json(folder / SUMMARY, model.summary)
        changes: dict[str, Any] = {
            "number": number,
            "kind": proposal.kind,
            "parent": proposal.parent.run_id if proposal.parent else "",
            "origin": proposal.origin,
            "config": proposal.config.model_dump(mode="json"),
            "training": proposal.training.model_dump(mode="json"),
            "change": proposal.change,
            "difference": proposal.difference,
            "notes": [*proposal.notes, *attempt.notes] if not attempt.number else attempt.notes,
            "analysis": str(model.summary.get("analysis", "")),
        }
        if not attempt.number:  # made now, and not found again by a resumed run
            changes["wall_seconds"] = time.monotonic() - model.began
        attempt = attempt.model_copy(update=changes)
        registry.put(attempt)
        return attempt

    def _failed(self, model: Model, number: int, known: Sequence[Attempt]) -> Attempt:
        """The record of a model that could not be written or built."""
        config = model.proposal.config.model_dump(mode="json")
        stated = json.dumps([number, config, model.failure], sort_keys=True)
        digest = hashlib.sha256(stated.encode()).hexdigest()[:16]
        for each in known:
            if each.digest == digest:
                return each
        folder = self.toolbox.workspace.new_run()
        return Attempt(
            run_id=folder.name,
            timestamp=datetime.now(timezone.utc).isoformat(timespec="microseconds"),
            model_name=model.proposal.config.name,
            dataset=self.settings.goal.dataset,
            metrics_summary={},
            experiment_dir=self.toolbox.workspace.relative(folder),
            failure=model.failure,
            digest=digest,
        )


def find_verdict(attempts: Sequence[Attempt], settings: Settings, seconds: float) -> str:
    """How goal and limits end a run; empty where they do not. seconds: spent so far."""
    params, goal = settings.params, settings.goal
    if settings.stop_at_goal and any(each.verdict == "achieved" for each in attempts):
        return "achieved"
    if len(attempts) >= params.max_iterations:
        return f"stopped: {len(attempts)} attempts were made, as many as allowed"
    if is_stalled(attempts, goal.metric, params.patience, higher=goal.higher):
        return f"stopped: no gain in the last {params.patience} attempts"
    if params.max_seconds and seconds >= params.max_seconds:
        return f"stopped: the budget of {params.max_seconds:g} seconds is spent"
    return ""


def leader(attempts: Sequence[Attempt], settings: Settings) -> Attempt | None:
    """The best attempt by the mean over seeds; one that reached the goal, or has all seeds, first.

    Of equal ones the earlier; None where no attempt has a number.
    """
    metric = settings.goal.metric
    measured = [each for each in attempts if each.mean(metric) is not None]
    reached = [each for each in measured if reaches(each, settings)]
    whole = [each for each in measured if len(each.values(metric)) >= len(settings.seeds)]
    pool = reached or whole or measured
    sign = 1.0 if settings.goal.higher else -1.0
    return max(pool, key=lambda each: sign * (each.mean(metric) or 0.0), default=None)


def reaches(attempt: Attempt, settings: Settings) -> bool:
    """Whether an attempt reaches the goal on every seed."""
    values = [] if attempt.failure else attempt.values(settings.goal.metric)
    return len(values) >= len(settings.seeds) and settings.goal.reached(values)


def settle(attempt: Attempt, review: Review, settings: Settings) -> tuple[str, str]:
    """Verdict and sentence: the numbers say what is achieved, whatever the planner says."""
    if attempt.failure:
        return "failed", f"Attempt {attempt.number} failed: {attempt.failure}"
    goal = settings.goal
    values = " / ".join(f"{value:.4f}" for value in attempt.values(goal.metric))
    measured = f"{goal.metric} {values} on {len(attempt.seeds)} of {len(settings.seeds)} seeds"
    if reaches(attempt, settings):
        return "achieved", review.sentence or f"The goal is reached: {measured}."
    if review.decision == "achieved":
        return "iterate", f"The planner says achieved, the numbers do not: {measured}."
    verdict = "stop" if review.decision == "stop" else "iterate"
    return verdict, review.sentence or f"Go on: {measured}, {goal.threshold:g} is wanted."


def is_stalled(attempts: Sequence[Attempt], metric: str, patience: int, *, higher: bool) -> bool:
    """Whether the last `patience` attempts brought no better mean than those before them."""
    sign = 1.0 if higher else -1.0
    values = [each.mean(metric) for each in attempts]
    scores = [float("-inf") if value is None else sign * value for value in values]
    before, last = scores[:-patience], scores[-patience:]
    return bool(before) and max(last) <= max(before)


def hopeless_bound(best: Attempt | None, settings: Settings) -> float | None:
    """A value on the first seed that is too far from the best attempt to go on with other seeds.

    None until the best attempt has the spread of all its seeds.
    """
    values = best.values(settings.goal.metric) if best is not None else []
    if len(values) < max(2, len(settings.seeds)):
        return None
    mean = sum(values) / len(values)
    margin = HOPELESS * statistics.stdev(values)
    return mean - margin if settings.goal.higher else mean + margin


def enter_decided(
    attempt: Attempt,
    attempts: Sequence[Attempt],
    settings: Settings,
    toolbox: Toolbox,
    progress: Progress,
) -> None:
    """Enter a decided attempt of a run; the best one's files become the workspace's model."""
    Registry(toolbox.workspace).put(attempt)
    best = leader(attempts, settings)
    if best is not None and best.run_id == attempt.run_id:
        _make_current(toolbox, best)
    progress.attempt(attempt)


def _make_current(toolbox: Toolbox, attempt: Attempt) -> None:
    """Copy code and config of an attempt to where the workspace's model stands."""
    root = toolbox.workspace.root
    folder = root / attempt.experiment_dir
    for source, target in ((CODE, MODEL), (CONFIG_FILE, CONFIG)):
        if (folder / source).exists():
            write_bytes(root / target, (folder / source).read_bytes())

"""The loop: propose, assemble, inspect, train, confirm, decide, record.

Resumption is re-execution. A restarted run begins at its first round again: its journal answers
the questions that were asked, and trainings that were finished are taken from their records.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from genlab.agent.architecture.schema import parse_config
from genlab.agent.architecture.training import parse_training
from genlab.agent.config import Problem, Settings
from genlab.agent.decisions import (
    NOTHING_LEFT,
    describe_verdict,
    find_best,
    find_verdict,
    hopeless_bound,
    is_promising,
    judge_attempt,
)
from genlab.agent.library import modules
from genlab.agent.library.modules import Module
from genlab.agent.library.toolbox import Toolbox
from genlab.agent.library.trials import TrainAhead, confirm, train
from genlab.agent.planning.planner import Planner
from genlab.agent.registry import CODE, CONFIG_FILE, SUMMARY, Attempt, Draft, Registry, Review
from genlab.agent.workspace import CONFIG, MODEL
from genlab.core.errors import GenlabError
from genlab.core.io import write_bytes, write_json, write_text
from genlab.llm.chat import BudgetSpentError, SetupError
from genlab.llm.journal import Journal

Progress = Callable[[str], None]  # what to do with a line for people
UNDECIDED: dict[str, Any] = {"verdict": "", "decision": "", "review": {}}  # of an attempt


@dataclass
class AgentRun:
    """What both modes share; `attempts` are those of this run that are decided on, in order."""

    problem: Problem
    toolbox: Toolbox
    progress: Progress
    session: Journal | None
    attempts: list[Attempt] = field(default_factory=list)
    since: float = field(default_factory=time.monotonic)  # the latest decision

    @property
    def settings(self) -> Settings:
        """The settings of the run."""
        return self.problem.settings

    @property
    def verdict(self) -> str:
        """How the run has ended; empty while it goes on."""
        spent = sum(attempt.wall_seconds for attempt in self.attempts)
        return find_verdict(self.attempts, self.settings, spent + time.monotonic() - self.since)

    def record(self, attempt: Attempt) -> Attempt:
        """Confirm an attempt where it may meet the goal, decide on it and enter it.

        The best one is the current model of the workspace. Returns the attempt as it was entered.
        """
        goal = self.settings.goal
        best = find_best([*self.attempts, attempt], self.settings)
        if best is attempt and is_promising(attempt, self.settings):
            self.progress(f"  confirming on {self.settings.params.confirmation_seeds} new seeds")
            attempt = confirm(self.toolbox, attempt)
        attempt = attempt.model_copy(update={"verdict": judge_attempt(attempt, goal)})
        changes: dict[str, Any] = {
            "decision": describe_verdict(attempt, self.settings),
            "spend": self.session.spent if self.session else {},
            # One that a resumed run finds decided keeps its time.
            "wall_seconds": attempt.wall_seconds or time.monotonic() - self.since,
        }
        self.since = time.monotonic()
        decided = attempt.model_copy(update=changes)
        self.attempts.append(decided)
        registry = Registry(self.toolbox.workspace)
        registry.put(decided)
        registry.write()
        if find_best(self.attempts, self.settings) is decided:
            root = self.toolbox.workspace.root
            for source, target in ((CODE, MODEL), (CONFIG_FILE, CONFIG)):
                write_bytes(root / target, (root / decided.experiment_dir / source).read_bytes())
        self.report(decided)
        return decided

    def report(self, attempt: Attempt) -> None:
        """Say how an attempt went, in a line."""
        metric = self.settings.goal.metric
        size = f"{attempt.parameters:,} parameters" if attempt.parameters else "no model"
        shown = attempt.failure or f"{metric} {attempt.format_metric(metric)}, {size}"
        if attempt.cut_seeds:
            shown += f", cut: seeds {', '.join(map(str, attempt.cut_seeds))}"
        origin = f"planned by {attempt.origin}, code by {attempt.code_origin or 'nobody'}"
        self.progress(f"attempt {attempt.number}: {shown}; {origin}; {attempt.verdict}")

    def add_review(self, review: Review, change: str = "") -> None:
        """Add what the planner says of the latest attempt, and how it goes on."""
        stated = review.model_dump(exclude_defaults=True)
        if not self.attempts or not (stated or change):
            return
        changes: dict[str, Any] = {"review": stated}
        latest = self.attempts[-1]
        if change and latest.verdict != "met" and not latest.failure:
            changes["decision"] = f"Iterate: {change}"
        self.attempts[-1] = latest.model_copy(update=changes)
        # Other programs read of it after the next decision, or at the end.
        Registry(self.toolbox.workspace).put(self.attempts[-1])


@dataclass
class Loop(AgentRun):
    """Mode `loop`: a fixed sequence of steps."""

    planner: Planner = field(kw_only=True)

    def run(self) -> str:
        """Work until the goal or a limit is reached; returns the verdict."""
        try:
            while not (verdict := self.verdict):
                drafts = self.propose()
                if not drafts:
                    return NOTHING_LEFT
                assembled = [self.assemble(draft) for draft in drafts]
                for attempt in self.evaluate(drafts, assembled):
                    self.record(attempt)
        except BudgetSpentError as error:
            return f"stopped: {error.reason}"
        return verdict

    def propose(self) -> list[Draft]:
        """The proposals of one round; none where the planner has nothing left to try."""
        params = self.settings.params
        drafts = list[Draft]()
        first = len(self.attempts) + 1
        for number in range(first, min(first + params.candidates, params.max_iterations + 1)):
            self.progress(f"attempt {number} of {params.max_iterations}")
            self.progress("  planning")
            draft = self.planner.propose(self.attempts, drafts)
            if number == first:
                self.add_review(self.planner.review, draft.change if draft else "")
            if draft is None:
                break
            drafts.append(draft)
            for note in dict.fromkeys(draft.notes):  # a model may repeat itself
                self.progress(f"  {note}")
        return drafts

    def assemble(self, draft: Draft) -> Module | None:
        """Write and inspect the module of a draft; None where that failed."""
        module = None
        with self._named_failure(draft, f"writing {draft.model_name}"):
            # Search proposes what the template can write: no language model is asked for its code.
            by_llm = draft.origin == "llm"
            toolbox = self.toolbox if by_llm else self.toolbox.without_backend()
            if draft.code:
                module = modules.recall(toolbox, draft.code, draft.model_name)
            else:
                config = parse_config(draft.config, self.problem.task)
                module = modules.assemble(toolbox, config)
            draft.analysis = module.analysis
            name = f"candidate_{draft.number}_{draft.model_name}.py".lower()
            write_text(self.toolbox.workspace.root / MODEL.parent / name, module.source)
            summary = modules.inspect(toolbox, module)
            text = modules.show_summary(summary)
            described = {"text": text, "analysis": module.analysis}
            draft.summary = summary.model_dump(mode="json") | described
        return module

    def evaluate(
        self, drafts: Sequence[Draft], assembled: Sequence[Module | None]
    ) -> list[Attempt]:
        """Train the models of a round in parallel processes and enter them in the registry."""
        self.progress("  training")
        with ThreadPoolExecutor(max_workers=len(drafts)) as pool:
            try:
                trained = list(pool.map(self._train, drafts, assembled))
            except BaseException:  # Ctrl-C: the pool would wait until everything is trained
                self.toolbox.cancel()
                raise
        attempts = list[Attempt]()
        for draft, attempt in zip(drafts, trained, strict=True):
            attempts.append(self._enter(draft, attempt, [*self.attempts, *attempts]))
        return attempts

    @contextmanager
    def _named_failure(self, draft: Draft, step: str) -> Iterator[None]:
        """Say what is done; what is refused in it is the draft's failure."""
        self.progress(f"  {step}")
        try:
            yield
        except SetupError:
            raise
        except GenlabError as error:
            draft.failure = str(error)

    def _train(self, draft: Draft, module: Module | None) -> Attempt | None:
        """Train one model; None where there is nothing to train."""
        if module is None or draft.failure:
            return None
        return train(
            self.toolbox,
            module,
            parse_training(draft.training),
            stop_below=hopeless_bound(find_best(self.attempts, self.settings), self.settings),
            train_ahead=self.plan_ahead(draft),
        )

    def plan_ahead(self, draft: Draft) -> TrainAhead | None:
        """Return what starts trainings ahead beside those of a draft; here nothing does."""
        return None

    def _enter(self, draft: Draft, trained: Attempt | None, earlier: Sequence[Attempt]) -> Attempt:
        """The attempt of a draft, before its decision; a resumed run finds it again.

        Different configs may have the same code: then there is nothing new to record.
        """
        registry = Registry(self.toolbox.workspace)
        for attempt in earlier:
            if trained is not None and trained.run_id == attempt.run_id:
                draft.failure = f"it has the code and the training of attempt {attempt.number}"
                trained = None
        entered = trained or self._find_failed(registry, draft) or self._begin_failed(draft)
        # What was decided and said of it later is not known yet: the next question is the same.
        changes = UNDECIDED | draft.model_dump(exclude={"failure", "notes"})
        if not entered.number:  # as the evaluator has entered it
            changes["notes"] = list(dict.fromkeys((*draft.notes, *entered.notes)))
        attempt = entered.model_copy(update=changes)
        registry.put(attempt)
        if draft.summary:
            write_json(
                self.toolbox.workspace.root / attempt.experiment_dir / SUMMARY, draft.summary
            )
        return attempt

    def _find_failed(self, registry: Registry, draft: Draft) -> Attempt | None:
        """The record of a draft that failed before its training, of a run that is resumed."""
        for attempt in registry.read_attempts():
            if (attempt.number, attempt.failure) == (draft.number, draft.failure):
                return attempt
        return None

    def _begin_failed(self, draft: Draft) -> Attempt:
        """A new record of a draft that failed before its training."""
        workspace = self.toolbox.workspace
        folder = workspace.create_run_folder()
        return Attempt(
            run_id=folder.name, experiment_dir=workspace.relative(folder),
            timestamp=datetime.now(timezone.utc).isoformat(timespec="microseconds"),
            dataset=self.settings.goal.dataset, metrics_summary={}, **draft.model_dump(),
        )  # fmt: skip

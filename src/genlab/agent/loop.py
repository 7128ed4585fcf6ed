"""The loop: propose, assemble, inspect, train, confirm, decide, record.

To resume a run is to execute it again from its first round: its journal answers the questions that
were asked before, and finished trainings are read from their records.
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
    decide_on_attempt,
    describe_verdict,
    find_best,
    find_hopeless_bound,
    find_verdict,
    is_promising,
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

Progress = Callable[[str], None]
"""Shows a line of progress to the user."""
UNDECIDED: dict[str, Any] = {"verdict": "", "decision": "", "review": {}}
"""Fields of an attempt before the decision on it."""


@dataclass
class AgentRun:
    """What modes `loop` and `tools` share: deciding on attempts and recording them.

    session: the journal of the language model; None where a run has none. attempts: those that this
    run has decided on, in order. decided_at: time of the latest decision.
    """

    problem: Problem
    toolbox: Toolbox
    progress: Progress
    session: Journal | None
    attempts: list[Attempt] = field(default_factory=list)
    decided_at: float = field(default_factory=time.monotonic)

    @property
    def settings(self) -> Settings:
        """The settings of the run."""
        return self.problem.settings

    @property
    def verdict(self) -> str:
        """How the run has ended; empty while it goes on."""
        seconds = sum(attempt.wall_seconds for attempt in self.attempts)
        seconds += time.monotonic() - self.decided_at
        return find_verdict(self.attempts, self.settings, seconds)

    def record(self, attempt: Attempt) -> Attempt:
        """Confirm an attempt if it may meet the goal, decide on it and write it to the registry.

        If it is the best one so far, it becomes the current model of the workspace. Returns the
        attempt as it was written.
        """
        goal = self.settings.goal
        best = find_best([*self.attempts, attempt], self.settings)
        if best is attempt and is_promising(attempt, self.settings):
            self.progress(f"  confirming on {self.settings.params.confirmation_seeds} new seeds")
            attempt = confirm(self.toolbox, attempt)
        attempt = attempt.model_copy(update={"verdict": decide_on_attempt(attempt, goal)})
        changes: dict[str, Any] = {
            "decision": describe_verdict(attempt, self.settings),
            "spend": self.session.spent if self.session else {},
            # A resumed run keeps the time of an attempt that was decided before.
            "wall_seconds": attempt.wall_seconds or time.monotonic() - self.decided_at,
        }
        self.decided_at = time.monotonic()
        decided = attempt.model_copy(update=changes)
        self.attempts.append(decided)
        registry = Registry(self.toolbox.workspace)
        registry.put(decided)
        registry.write()
        if find_best(self.attempts, self.settings) is decided:
            root = self.toolbox.workspace.root
            folder = root / decided.experiment_dir
            write_bytes(root / MODEL, (folder / CODE).read_bytes())
            write_bytes(root / CONFIG, (folder / CONFIG_FILE).read_bytes())
        self.report(decided)
        return decided

    def report(self, attempt: Attempt) -> None:
        """Show the outcome of an attempt in a line."""
        metric = self.settings.goal.metric
        size = f"{attempt.parameters:,} parameters" if attempt.parameters else "no model"
        outcome = attempt.failure or f"{metric} {attempt.format_metric(metric)}, {size}"
        if attempt.cut_seeds:
            outcome += f", cut: seeds {', '.join(map(str, attempt.cut_seeds))}"
        origin = f"planned by {attempt.origin}, code by {attempt.code_origin or 'nobody'}"
        self.progress(f"attempt {attempt.number}: {outcome}; {origin}; {attempt.verdict}")

    def add_review(self, review: Review, change: str = "") -> None:
        """Add the planner's review to the latest attempt, and the change that it makes next."""
        stated = review.model_dump(exclude_defaults=True)
        if not self.attempts or not (stated or change):
            return
        changes: dict[str, Any] = {"review": stated}
        latest = self.attempts[-1]
        if change and latest.verdict != "met" and not latest.failure:
            changes["decision"] = f"Iterate: {change}"
        self.attempts[-1] = latest.model_copy(update=changes)
        # registry.json, which other programs read, follows at the next decision or at the end.
        Registry(self.toolbox.workspace).put(self.attempts[-1])


@dataclass
class Loop(AgentRun):
    """Mode `loop`: a fixed sequence of steps in every round."""

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
        """Ask the planner for the drafts of one round; none where it has nothing left to try."""
        params = self.settings.params
        drafts = list[Draft]()
        first = len(self.attempts) + 1
        last = min(first + params.candidates - 1, params.max_iterations)
        for number in range(first, last + 1):
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
        """Write and inspect the module of a draft; None where it could not be written."""
        module = None
        with self._failing(draft, f"writing {draft.model_name}"):
            # Search proposes what the template can write: no language model is asked for the code.
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
            text = modules.format_summary(summary)
            description = {"text": text, "analysis": module.analysis}
            draft.summary = summary.model_dump(mode="json") | description
        return module

    def evaluate(
        self, drafts: Sequence[Draft], assembled: Sequence[Module | None]
    ) -> list[Attempt]:
        """Train the models of a round in parallel and enter them in the registry."""
        self.progress("  training")
        with ThreadPoolExecutor(max_workers=len(drafts)) as pool:
            try:
                trained = list(pool.map(self._train, drafts, assembled))
            except BaseException:  # Ctrl-C: otherwise the pool would wait for all trainings
                self.toolbox.cancel()
                raise
        attempts = list[Attempt]()
        for draft, attempt in zip(drafts, trained, strict=True):
            attempts.append(self._enter(draft, attempt, [*self.attempts, *attempts]))
        return attempts

    @contextmanager
    def _failing(self, draft: Draft, step: str) -> Iterator[None]:
        """Show a step, and record an error in it as the draft's failure.

        A SetupError is raised: the user has to correct it.
        """
        self.progress(f"  {step}")
        try:
            yield
        except SetupError:
            raise
        except GenlabError as error:
            draft.failure = str(error)

    def _train(self, draft: Draft, module: Module | None) -> Attempt | None:
        """Train one model; None where its module was not written."""
        if module is None or draft.failure:
            return None
        return train(
            self.toolbox,
            module,
            parse_training(draft.training),
            hopeless_bound=find_hopeless_bound(
                find_best(self.attempts, self.settings), self.settings
            ),
            train_ahead=self.plan_ahead(draft),
        )

    def plan_ahead(self, draft: Draft) -> TrainAhead | None:
        """Return what starts trainings ahead beside those of a draft; here nothing does."""
        return None

    def _enter(self, draft: Draft, trained: Attempt | None, earlier: Sequence[Attempt]) -> Attempt:
        """Enter a draft as an attempt, before the decision on it; a resumed run finds it again.

        Different configs may give the same code. Then the training belongs to the earlier attempt,
        and this one fails.
        """
        registry = Registry(self.toolbox.workspace)
        for attempt in earlier:
            if trained is not None and trained.run_id == attempt.run_id:
                draft.failure = f"it has the code and the training of attempt {attempt.number}"
                trained = None
        entered = trained or self._find_failed(registry, draft) or self._begin_failed(draft)
        # A resumed run drops what was decided later: the next question must be the same again.
        changes = UNDECIDED | draft.model_dump(exclude={"failure", "notes"})
        if not entered.number:  # the evaluator has entered it; no loop has
            changes["notes"] = list(dict.fromkeys((*draft.notes, *entered.notes)))
        attempt = entered.model_copy(update=changes)
        registry.put(attempt)
        if draft.summary:
            folder = self.toolbox.workspace.root / attempt.experiment_dir
            write_json(folder / SUMMARY, draft.summary)
        return attempt

    def _find_failed(self, registry: Registry, draft: Draft) -> Attempt | None:
        """Find the record of a draft that failed before its training, in a resumed run."""
        for attempt in registry.read_attempts():
            if (attempt.number, attempt.failure) == (draft.number, draft.failure):
                return attempt
        return None

    def _begin_failed(self, draft: Draft) -> Attempt:
        """Begin the record of a draft that failed before its training."""
        workspace = self.toolbox.workspace
        folder = workspace.create_run_folder()
        return Attempt(
            run_id=folder.name,
            experiment_dir=workspace.relative(folder),
            timestamp=datetime.now(timezone.utc).isoformat(timespec="microseconds"),
            dataset=self.settings.goal.dataset,
            metrics_summary={},
            **draft.model_dump(),
        )

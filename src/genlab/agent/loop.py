"""The loop: propose, assemble, summarise, evaluate, decide, record, by way of the nine tools.

Resumption is re-execution. A restarted run begins at its first round again: its journal answers
the questions that were asked, and the evaluator tool returns the evaluations that were finished.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from genlab.agent import tools
from genlab.agent.config import Problem, Settings
from genlab.agent.decisions import decide_by_numbers, find_verdict, hopeless_bound, leader
from genlab.agent.planner import Planner, Review
from genlab.agent.registry import CODE, CONFIG_FILE, SUMMARY, Attempt, Draft, Registry
from genlab.agent.tools.toolbox import Toolbox
from genlab.agent.workspace import CONFIG, MODEL
from genlab.core.errors import GenlabError
from genlab.core.io import write_bytes, write_json
from genlab.llm.chat import BudgetSpentError, SetupError, UnansweredError
from genlab.llm.journal import Journal

Progress = Callable[[str], None]  # what to do with a line for people


@dataclass
class Run:
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
        metric = self.settings.goal.metric
        size = f"{decided.parameters:,} parameters" if decided.parameters else "no model"
        shown = decided.failure or f"{metric} {decided.show(metric)}, {size}"
        origin = f"planned by {decided.origin}, code by {decided.code_origin or 'nobody'}"
        self.progress(f"attempt {decided.number}: {shown}; {origin}; {verdict}")


@dataclass
class Loop(Run):
    """Mode `loop`: a fixed sequence of steps."""

    planner: Planner = field(kw_only=True)

    def run(self) -> str:
        """Work until the goal or a limit is reached; returns the verdict."""
        try:
            while not (verdict := self.verdict):
                drafts = self.propose()
                for draft in drafts:
                    self.assemble(draft)
                for draft in drafts:
                    self.summarise(draft)
                for attempt in self.evaluate(drafts):
                    self.record(*self.review(attempt))
        except BudgetSpentError as error:
            return f"stopped: {error.reason}"
        return verdict

    def propose(self) -> list[Draft]:
        """The proposals of one round."""
        params, drafts = self.settings.params, list[Draft]()
        first = len(self.attempts) + 1
        for number in range(first, min(first + params.candidates, params.max_iterations + 1)):
            self.progress(f"attempt {number} of {params.max_iterations}")
            self.progress("  planning")
            drafts.append(self.planner.propose(self.attempts, drafts))
            for note in drafts[-1].notes:
                self.progress(f"  {note}")
        return drafts

    def assemble(self, draft: Draft) -> None:
        """Write the code of a draft."""
        with self._tools_for(draft, f"writing {draft.model_name}"):
            tools.pytorch_model_assembler(draft.config, _path(draft))

    def summarise(self, draft: Draft) -> None:
        """Measure the structure of a model; the tools' language model describes its code."""
        if not draft.failure:
            with self._tools_for(draft, "reading its structure"):
                asked = (_path(draft), draft.model_name, self.problem.shape)
                draft.summary = tools.pytorch_model_summary(*asked)
                draft.analysis = draft.summary["analysis"]

    def evaluate(self, drafts: Sequence[Draft]) -> list[Attempt]:
        """Train the models of a round in parallel processes and enter them in the registry."""
        self.progress("  training")
        with ThreadPoolExecutor(max_workers=len(drafts)) as pool:
            try:
                run_ids = list(pool.map(self._train, drafts))
            except BaseException:  # Ctrl-C: the pool would wait until everything is trained
                self.toolbox.cancel()
                raise
        found = list[Attempt]()
        for draft, run_id in zip(drafts, run_ids, strict=True):
            found.append(self._enter(draft, run_id, [*self.attempts, *found]))
        return found

    def review(self, attempt: Attempt) -> tuple[Attempt, Review]:
        """The attempt with the planner's opinion on it."""
        if not attempt.failure:
            self.progress("  deciding")
            try:
                return attempt, self.planner.review(self.attempts, attempt)
            except UnansweredError as error:  # the numbers decide without it
                notes = [*attempt.notes, f"no review: {error.reason}"]
                self.progress(f"  {notes[-1]}")
                attempt = attempt.model_copy(update={"notes": notes})
        return attempt, Review()

    @contextmanager
    def _tools_for(self, draft: Draft, step: str) -> Iterator[None]:
        """Bind the tools; what they refuse is the draft's failure.

        Search proposes what the template can write: no language model is asked for its code.
        """
        self.progress(f"  {step}")
        by_llm = draft.origin == "llm"
        try:
            with tools.using(self.toolbox if by_llm else self.toolbox.without_backend()):
                yield
        except SetupError:
            raise
        except GenlabError as error:
            draft.failure = str(error)

    def _train(self, draft: Draft) -> str:
        """Evaluate one model; returns its run_id, empty where there was nothing to train."""
        if draft.failure:
            return ""
        bound = hopeless_bound(leader(self.attempts, self.settings), self.settings)
        chosen = draft.training | {"stop_below": bound}
        with tools.using(self.toolbox):
            try:
                found = tools.pytorch_quick_evaluator(_path(draft), draft.model_name, chosen)
            except tools.EvaluationFailedError as error:
                return error.run_id
        return str(found["run_id"])

    def _enter(self, draft: Draft, run_id: str, earlier: Sequence[Attempt]) -> Attempt:
        """The attempt of a draft, before its decision; a resumed run finds it again.

        Different configs may have the same code: then there is nothing new to record.
        """
        registry, workspace = Registry(self.toolbox.workspace), self.toolbox.workspace
        for each in earlier:
            if run_id == each.run_id:
                draft.failure = f"it has the code and the training of attempt {each.number}"
                run_id = ""

        def is_same(each: Attempt) -> bool:
            same = (each.number, each.failure) == (draft.number, draft.failure)
            return each.run_id == run_id if run_id else same

        if (found := next(filter(is_same, registry.attempts()), None)) is None:
            folder = workspace.new_run()
            found = Attempt(
                run_id=folder.name, experiment_dir=workspace.relative(folder),
                timestamp=datetime.now(timezone.utc).isoformat(timespec="microseconds"),
                dataset=self.settings.goal.dataset, metrics_summary={}, **draft.model_dump(),
            )  # fmt: skip
        changes = draft.model_dump(exclude={"failure", "notes"})
        if not found.number:  # as the evaluator has entered it
            changes["notes"] = list(dict.fromkeys((*draft.notes, *found.notes)))
        attempt = found.model_copy(update=changes)
        registry.put(attempt)
        if draft.summary:
            write_json(workspace.root / attempt.experiment_dir / SUMMARY, draft.summary)
        return attempt


def _path(draft: Draft) -> str:
    return f"src/models/candidate_{draft.number}_{draft.model_name}.py".lower()

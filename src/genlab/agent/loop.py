"""The loop: plan, assemble, summarise, evaluate, review; until the numbers or the limits say so.

All state is in the registry. An attempt enters it when it is evaluated, and again when it is
decided on; each entry holds the place in the transcript that it belongs to. So a run that was
killed goes on behind the last entry: what it had asked since then is answered from the transcript.
"""

from __future__ import annotations

import random
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import partial
from typing import TypeVar

from genlab.agent import planner
from genlab.agent.attempt import (
    Attempt,
    attempts,
    keep,
    leader,
    make_current,
    mended,
    shown,
    summary_of,
)
from genlab.agent.briefing import told
from genlab.agent.candidate import Candidate, Constraints, Training
from genlab.agent.coder import Written, assemble
from genlab.agent.lab import Lab
from genlab.agent.ledger import Ledger
from genlab.agent.llm import Backend, BudgetSpent, LLMFailure, Message, Price, Question
from genlab.agent.planner import BASELINE, Planned, settled, stalled
from genlab.agent.progress import Progress, Silent
from genlab.agent.proposal import Proposal, Review, proposal_in
from genlab.agent.registry import Decision, Record
from genlab.agent.seeds import metrics, tried
from genlab.agent.settings import Settings
from genlab.agent.summary import analysed
from genlab.agent.workspace import Workspace, alone

PLAN_TOKENS, REVIEW_TOKENS = 1000, 600
Answered = TypeVar("Answered", Proposal, Review)
ACHIEVED, BY_BASELINE = "achieved", "baseline_reached_it"


@dataclass(frozen=True)
class Outcome:
    """How a run ended: `achieved`, `baseline_reached_it` or `stopped: <reason>`."""

    verdict: str
    attempts: list[Attempt]
    best: Attempt | None


def iterate(
    settings: Settings,
    backend: Backend | None,
    workspace: Workspace,
    say: Progress | None = None,
    lab: Lab | None = None,
) -> Outcome:
    """Work on the goal in `workspace` until it is reached or a limit is; resumes what is there.

    Without a backend it is search that plans, and the template that writes. Raises GenlabError
    where a person has to mend something; what was done until then is kept.
    """
    rooms: AbstractContextManager[Lab] = (
        nullcontext(lab) if lab else Lab(settings.data, settings.params.sandbox)
    )
    with alone(workspace), rooms as open_lab:
        run = Run(settings, backend, workspace, say or Silent(), open_lab)
        spent = ""
        try:
            while not run.verdict:
                if not run.is_undecided:
                    run.attempt()
                run.decide()
        except BudgetSpent as end:
            spent = f"stopped: {end.reason}"
        return Outcome(run.verdict or spent, run.attempts, run.best)


class Run:
    """A run where it stands: its attempts, and the two steps that take it further."""

    def __init__(
        self,
        settings: Settings,
        backend: Backend | None,
        workspace: Workspace,
        say: Progress,
        lab: Lab,
    ) -> None:
        self.settings, self.workspace, self.say, self.lab = settings, workspace, say, lab
        self.registry = mended(workspace)
        self.attempts = attempts(self.registry)
        price = Price(settings.params.price_in, settings.params.price_out)
        before = self.attempts[-1].spend if self.attempts else None
        self.backend = Ledger(backend, before, price) if backend is not None else None
        for each in self.attempts:
            say.attempt(each)

    @property
    def best(self) -> Attempt | None:
        """The attempt that stands for the run."""
        return leader(self.attempts, self.settings.goal, self.settings.seeds)

    @property
    def is_undecided(self) -> bool:
        """Whether the last attempt is evaluated and waits for its decision."""
        return bool(self.attempts) and self.attempts[-1].decision == ""

    @property
    def verdict(self) -> str:
        """How the run has ended; empty while it goes on."""
        if not self.attempts or self.is_undecided:
            return ""
        params, goal = self.settings.params, self.settings.goal
        reached = next((a for a in self.attempts if a.reached(goal, self.settings.seeds)), None)
        if reached is not None and self.settings.stop_at_goal:
            return BY_BASELINE if reached.iteration == 1 else ACHIEVED
        if self.attempts[-1].decision == "stop":
            return "stopped: the planner says that enough was tried"
        if len(self.attempts) >= params.max_iterations:
            return f"stopped: {len(self.attempts)} attempts were made, as many as allowed"
        if stalled(self.attempts, goal.metric, params.patience, higher=goal.higher):
            return f"stopped: no gain in the last {params.patience} attempts"
        seconds = sum(each.attempt_seconds for each in self.attempts)
        if params.max_seconds and seconds >= params.max_seconds:
            return f"stopped: the budget of {params.max_seconds:g} seconds is spent"
        return ""

    def attempt(self) -> None:
        """Plan, assemble, summarise and evaluate one more model, and enter it."""
        started, number = time.monotonic(), len(self.attempts) + 1
        params = self.settings.params
        self.say.begin(number, params.max_iterations)
        self.say.step("planning")
        constraints = self.lab.constraints(
            self.settings.evaluation(Training()), params.max_parameters
        )
        planned, failure = self._planned(number, constraints)
        self.say.step(f"writing {planned.config.name}")
        written = self._written(planned, constraints)
        self.say.step("measuring its structure")
        name = planned.config.name
        measured = self.lab.inspector.summary(written.source, name, constraints.shape)
        summary = analysed(measured, self._coder if number > 1 else None)
        evaluation = tried(
            self.lab, self.settings, written.source, name, planned.training, measured, self.say.step
        )
        folder = self.workspace.new_run()
        parents = {str(each.iteration): each.run_id for each in self.attempts}
        attempt = Attempt(
            run_id=folder.name,
            timestamp=datetime.now(timezone.utc).isoformat(timespec="microseconds"),
            model_name=name,
            dataset=self.settings.goal.dataset,
            metrics_summary=metrics(evaluation, measured),
            experiment_dir=self.workspace.relative(folder),
            parent=parents.get(planned.parent or ""),
            plan_origin=planned.origin,
            code_origin=written.origin,
            failure=evaluation.failure,
            iteration=number,
            place=self.backend.place if self.backend else 0,
            architecture=planned.config,
            training=planned.training,
            checked=[asdict(each) for each in evaluation.seeds],
            remark=planned.remark,
            edits=planned.edits,
            faults=written.faults,
            planner_failure=failure,
            spend=dict(self.backend.spent) if self.backend else {},
            attempt_seconds=time.monotonic() - started,
        )
        keep(folder, attempt, written.source, summary, evaluation.weights)
        self._enter(attempt)

    def decide(self) -> None:
        """Review the last attempt, hold the planner's decision against the numbers, enter it."""
        started, last, goal = time.monotonic(), self.attempts[-1], self.settings.goal
        review, failure = Review(), ""
        if self.backend is not None and last.iteration > 1 and not last.failure:
            self.say.step("reviewing")
            try:
                review = self._reviewed(last)
            except LLMFailure as end:
                failure = f"no review: {end.reason}"
        decision: Decision = "failed"
        reason = last.failure
        if not last.failure:
            decision, reason = settled(review, goal, last.values(goal.metric))
        self._enter(
            last.model_copy(
                update={
                    "decision": decision,
                    "reason": reason,
                    "review": review.model_dump() if self.backend else {},
                    "planner_failure": "; ".join(filter(None, (last.planner_failure, failure))),
                    "attempt_seconds": last.attempt_seconds + time.monotonic() - started,
                    "place": self.backend.place if self.backend else 0,
                    "spend": dict(self.backend.spent) if self.backend else {},
                }
            )
        )
        if (best := self.best) is not None:
            make_current(self.workspace, best)
        self.say.attempt(self.attempts[-1])

    def _planned(self, number: int, constraints: Constraints) -> tuple[Planned, str]:
        """What is tried next, and why it is not the planner's where it should have been."""
        if number == 1:
            return Planned(BASELINE, origin="baseline"), ""
        goal, rng = self.settings.goal, random.Random(f"{self.settings.seed}:{number}")
        known = {each.candidate.digest: f"attempt {each.iteration}" for each in self.attempts}
        records, starts = shown(self.attempts), self._branches
        failure = remark = ""
        if self._is_relieved:
            remark = "Search's turn: the planner's last attempt brought no gain."
        elif self.backend is not None:
            try:
                proposal = self._proposed(constraints)
                found = planner.planned(
                    proposal,
                    constraints,
                    known,
                    records,
                    starts,
                    goal.metric,
                    rng,
                    higher=goal.higher,
                )
                if self.settings.repair or not found.origin.startswith("llm+repaired"):
                    return found, ""
                failure = f"the proposal was refused: {found.edits[0]}"
            except LLMFailure as end:
                failure = f"no proposal: {end.reason}"
        if not any(each.is_searched for each in self.attempts):
            records = records[:1]  # its first one is a fresh idea, whatever the planner's were
        chance, parent = planner.next_of_search(
            constraints, known, records, starts, goal.metric, rng, higher=goal.higher
        )
        return Planned(chance.config, chance.training, "search", parent, remark), failure

    @property
    def _is_relieved(self) -> bool:
        """Whether search plans instead: the planner's last proposal was the last, and no gain."""
        last, best = self.attempts[-1], self.best
        gained = best is not None and best.run_id == last.run_id
        proposed = last.iteration > 1 and not last.is_searched
        return self.settings.relief and proposed and not gained

    @property
    def _branches(self) -> dict[str, Candidate]:
        """What an attempt may start from, by number; without branching the last one alone."""
        known = self.attempts if self.settings.branching else self.attempts[-1:]
        return {str(each.iteration): each.candidate for each in known}

    def _proposed(self, constraints: Constraints) -> Proposal:
        last, best = self.attempts[-1], self.best if self.settings.branching else None
        told_of = told(last, best, self._analysis(last))
        left = f"Attempts left: {self.settings.params.max_iterations - len(self.attempts)}."
        asked = planner.ask_for_proposal(
            self.settings.goal, constraints, self._records, told_of, left
        )
        shape = proposal_in(constraints, tuple(self._branches))
        return self._answered(asked, shape, PLAN_TOKENS)

    def _reviewed(self, last: Attempt) -> Review:
        told_of = told(last, analysis=self._analysis(last))
        asked = planner.ask_for_review(self.settings.goal, told_of, self._records)
        return self._answered(asked, Review, REVIEW_TOKENS)

    def _answered(self, asked: list[Message], schema: type[Answered], tokens: int) -> Answered:
        assert self.backend is not None
        parsed = self.backend.ask(Question("planning", asked, schema, tokens)).parsed
        assert isinstance(parsed, schema)
        return parsed

    @property
    def _records(self) -> list[Record]:
        """The attempts as a prompt shows them."""
        return shown(self.attempts) if self.settings.registry_in_prompt else []

    def _analysis(self, attempt: Attempt) -> str:
        """The tool LLM's words on its structure; none where it was not asked."""
        return str(summary_of(self.workspace, attempt).get("analysis", ""))

    @property
    def _coder(self) -> Backend | None:
        return self.backend if self.settings.llm_code else None

    def _written(self, planned: Planned, constraints: Constraints) -> Written:
        """Its code: the template's where it is nobody's idea or no LLM may write."""
        coder = self._coder if planned.origin != "baseline" else None
        probe = partial(self.lab.inspector.probe, shape=constraints.shape)
        return assemble(
            planned.config,
            constraints.shape,
            constraints.classes,
            coder,
            probe,
            self.settings.max_repairs,
        )

    def _enter(self, attempt: Attempt) -> None:
        self.registry.put(attempt)
        self.attempts[attempt.iteration - 1 :] = [attempt]

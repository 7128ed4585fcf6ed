"""Who proposes the next attempt and decides on the last one: a language model, or random search."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, create_model

from genlab.agent import search
from genlab.agent.architecture.compare import compact, config_differences
from genlab.agent.architecture.schema import ModelConfig, config_schema, has_custom, parse_config
from genlab.agent.architecture.template import count_parameters
from genlab.agent.architecture.training import Training, parse_training
from genlab.agent.config import Settings
from genlab.agent.prompts import (
    CHARACTERS_PER_TOKEN,
    FORMAT,
    SYSTEM,
    TASKS,
    Problem,
    config_of,
    describe,
    describe_history,
    describe_problem,
    loss_curve,
    training_of,
)
from genlab.agent.registry import Attempt
from genlab.core.errors import GenlabError
from genlab.llm.chat import Backend, LLMFailure, Message

SMALL_PROMPT_TOKENS = 4000  # of a model whose context is 8,192 tokens
BUDGET_FIELDS = ("dataset", "subset", "examples", "validation", "seconds", "seeds", "device")


class Review(BaseModel):
    """What the planner makes of an attempt."""

    model_config = ConfigDict(extra="ignore")

    sentence: str = Field("", max_length=400, description="the decision in one sentence")
    strengths: str = Field("", max_length=400)
    weaknesses: str = Field("", max_length=400)
    modifications: list[str] = Field(
        default_factory=list, max_length=6, description="specific changes to try next"
    )
    decision: Literal["iterate", "achieved", "stop"] = "iterate"


@dataclass(frozen=True)
class Proposal:
    """An attempt that is to be made. parent: the attempt that it changes, None for a draft."""

    config: ModelConfig
    training: Training
    change: str
    kind: str
    parent: Attempt | None
    origin: str
    input_size: tuple[int, ...]
    asked: dict[str, Any] = field(default_factory=dict)  # eval_config as the planner wrote it
    notes: list[str] = field(default_factory=list)

    @property
    def difference(self) -> list[str]:
        """What differs from the parent in fact, whatever `change` says."""
        if self.parent is None:
            return []
        parent = (config_of(self.parent), self.config, training_of(self.parent), self.training)
        return config_differences(*parent)


class Planner(Protocol):
    """Proposes attempts and decides on them."""

    def propose(self, attempts: Sequence[Attempt], pending: Sequence[Proposal]) -> Proposal:
        """The next attempt; pending: proposals of this round that are not evaluated yet."""

    def review(self, attempts: Sequence[Attempt], attempt: Attempt, analysis: str) -> Review:
        """An opinion on a finished attempt."""


def choose_parent(
    settings: Settings, attempts: Sequence[Attempt], pending: Sequence[Proposal]
) -> tuple[str, Attempt | None, random.Random]:
    """What kind of attempt is next, which one it changes, and the generator for this proposal."""
    goal = settings.goal
    rng = random.Random(f"{settings.seed}:{len(attempts) + len(pending)}")
    kind, parent = search.choose_parent(
        attempts, drafts=settings.params.drafts, rng=rng, metric=goal.metric, higher=goal.higher
    )
    return kind, parent, rng


class SearchPlanner:
    """Random search over the same policy: drafts, then random changes of the best."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def propose(self, attempts: Sequence[Attempt], pending: Sequence[Proposal]) -> Proposal:
        problem = self.problem
        kind, parent, rng = choose_parent(problem.settings, attempts, pending)
        config, training, change = search.random_proposal(
            problem.task,
            problem.shape,
            problem.outputs,
            problem.settings.budget.max_parameters,
            config_of(parent) if parent else None,
            training_of(parent) if parent else None,
            rng,
        )
        return Proposal(config, training, change, kind, parent, "search", problem.shape)

    def review(self, attempts: Sequence[Attempt], attempt: Attempt, analysis: str) -> Review:
        return Review()


class LLMPlanner:
    """A language model proposes; search stands in where it gives no usable answer.

    small: a model that needs a schema with few layer types, such as the embedded one.
    """

    def __init__(self, problem: Problem, backend: Backend, *, small: bool = False) -> None:
        self.problem, self.backend, self.small = problem, backend, small
        most = problem.settings.params.max_prompt_tokens
        self.prompt_tokens = min(most, SMALL_PROMPT_TOKENS) if small else most
        self.schema = proposal_schema(problem, small=small)
        self.search = SearchPlanner(problem)

    def propose(self, attempts: Sequence[Attempt], pending: Sequence[Proposal]) -> Proposal:
        settings = self.problem.settings
        kind, parent, _ = choose_parent(settings, attempts, pending)
        messages = self._ask(attempts, pending, kind, parent)
        notes: list[str] = []
        for _ in range(settings.params.max_repairs + 1):
            try:
                answer = self.backend.ask("planning", messages, schema=self.schema)
            except LLMFailure as error:
                notes.append(f"no proposal: {error.reason}")
                break
            try:
                return self._read(answer.parsed, attempts, pending, kind, parent, notes)
            except GenlabError as error:
                notes.append(f"proposal refused: {error}")
                if messages[-2]["content"] == answer.text:
                    break  # a model that repeats itself does so for ever
                messages = [
                    *messages,
                    {"role": "assistant", "content": answer.text},
                    {"role": "user", "content": f"That cannot be used: {error}. Answer again."},
                ]
        found = self.search.propose(attempts, pending)
        return replace(found, notes=notes)

    def review(self, attempts: Sequence[Attempt], attempt: Attempt, analysis: str) -> Review:
        if self.small:  # its reviews are noise, and cost as much time as a proposal
            return Review()
        goal = self.problem.settings.goal
        words = [
            f"Attempt {attempt.number} is measured: {describe(attempt, goal.metric)}.",
            *([f"On its structure: {analysis}"] if analysis else []),
            *(f"Training loss: {line}" for line in loss_curve(attempt)),
            "Decide: iterate, achieved (only when the goal is reached on every seed) or stop (only"
            " when nothing is left to try). Name strengths, weaknesses and the specific"
            " modifications to try next.",
        ]
        messages = self._prompt(attempts, (), "\n".join(words))
        review = self.backend.ask("planning", messages, schema=Review).parsed
        assert isinstance(review, Review)
        return review

    def _ask(
        self,
        attempts: Sequence[Attempt],
        pending: Sequence[Proposal],
        kind: str,
        parent: Attempt | None,
    ) -> list[Message]:
        task = TASKS[kind].format(
            parent=parent.number if parent else "", failure=parent.failure if parent else ""
        )
        lines = [task]
        if parent is not None:
            lines.append(json.dumps({"model_config": parent.config, "training": parent.training}))
            if wanted := parent.review.get("modifications"):
                lines.append(f"You wanted to try next: {'; '.join(map(str, wanted))}.")
        return self._prompt(attempts, pending, "\n".join(lines))

    def _prompt(
        self, attempts: Sequence[Attempt], pending: Sequence[Proposal], task: str
    ) -> list[Message]:
        head = f"{describe_problem(self.problem)}\n{FORMAT[self.problem.task]}"
        goal = self.problem.settings.goal
        room = self.prompt_tokens * CHARACTERS_PER_TOKEN - len(SYSTEM + head + task)
        history = describe_history(attempts, goal.metric, room)
        also = "".join(f"\nIn this round too: {compact(p.config, p.training)}" for p in pending)
        return [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": f"{head}\n\n{history}{also}\n\n{task}"},
        ]

    def _read(
        self,
        answer: BaseModel | None,
        attempts: Sequence[Attempt],
        pending: Sequence[Proposal],
        kind: str,
        parent: Attempt | None,
        notes: list[str],
    ) -> Proposal:
        """The proposal in an answer. Raises a GenlabError for the planner to read."""
        problem = self.problem
        stated = answer.model_dump(by_alias=True) if answer is not None else {}
        config = parse_config(stated["model_config"], problem.task)
        asked = dict(stated["eval_config"])
        training = parse_training({k: v for k, v in asked.items() if k not in BUDGET_FIELDS})
        tried = [(config_of(each), training_of(each)) for each in attempts if each.config]
        tried += [(each.config, each.training) for each in pending]
        if any(_same(config, training, *each) for each in tried):
            raise GenlabError("this config was tried already; change it")
        if not has_custom(config):
            most = problem.settings.budget.max_parameters
            count = count_parameters(config, problem.shape, problem.outputs, problem.task)
            if count > most:
                raise GenlabError(f"it has {count:,} parameters, at most {most:,} are allowed")
        size = tuple(stated["input_size"])
        if size[-3:] != problem.shape:
            notes = [*notes, f"input_size {list(size)} is not that of the data, {problem.shape}"]
        return Proposal(
            config, training, stated["change"], kind, parent, "llm", problem.shape, asked, notes
        )


def proposal_schema(problem: Problem, *, small: bool) -> type[BaseModel]:
    """The answer to a question for a proposal, with the JSON schema of the task's configs."""
    config = Annotated[dict[str, Any], WithJsonSchema(config_schema(problem.task, small=small))]
    training = Annotated[dict[str, Any], WithJsonSchema(Training.model_json_schema())]
    size = Annotated[
        list[int],
        WithJsonSchema(
            {"type": "array", "items": {"type": "integer"}, "minItems": 3, "maxItems": 4}
        ),
    ]
    return create_model(
        "Proposal",
        __config__=ConfigDict(populate_by_name=True, extra="ignore"),
        change=(str, Field("", max_length=600, description="what changes, and why")),
        architecture=(config, Field(alias="model_config")),
        input_size=(size, Field(default_factory=lambda: list(problem.shape))),
        eval_config=(training, Field(default_factory=dict, description="how it is trained")),
    )


def _same(one: ModelConfig, recipe: Training, other: ModelConfig, other_recipe: Training) -> bool:
    unnamed = {"name", "description"}
    return recipe == other_recipe and one.model_dump(exclude=unnamed) == other.model_dump(
        exclude=unnamed
    )

"""A language model as planner: what it is asked for proposals and reviews, and how it is read."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, create_model

from genlab.agent.architecture.compare import compact
from genlab.agent.architecture.schema import config_schema, has_custom, parse_config
from genlab.agent.architecture.template import count_parameters
from genlab.agent.architecture.training import Training, parse_training
from genlab.agent.config import Problem
from genlab.agent.planner import Planner, Review, find_differences, make_draft
from genlab.agent.prompts import (
    CHARACTERS_PER_TOKEN,
    FORMAT,
    SYSTEM,
    describe_history,
    describe_problem,
    describe_result,
    describe_task,
)
from genlab.agent.registry import Attempt, Design, Draft
from genlab.agent.search import choose_parent
from genlab.agent.tools.evaluation import without_fixed
from genlab.core.errors import GenlabError
from genlab.llm.chat import Backend, LLMFailure, Message

SMALL_PROMPT_TOKENS = 4000  # of a model whose context is 8,192 tokens


class LLMPlanner(Planner):
    """A language model proposes; search stands in where it gives no usable answer.

    small: a model that needs a schema with few layer types, such as the embedded one.
    """

    def __init__(self, problem: Problem, backend: Backend, *, small: bool = False) -> None:
        super().__init__(problem)
        self.backend, self.small = backend, small
        self.schema = proposal_schema(problem, small=small)

    def propose(self, attempts: Sequence[Attempt], pending: Sequence[Draft]) -> Draft:
        """The next attempt. Raises what the backend raises but for an `LLMFailure`."""
        settings, notes, before = self.problem.settings, list[str](), [*attempts, *pending]
        kind, parent, _ = choose_parent(settings, attempts, len(before))
        also = "".join(f"\nIn this round too: {compact(*each.design)}" for each in pending)
        messages = self._prompt(attempts, describe_task(kind, parent), also)
        for _ in range(settings.params.max_repairs + 1):
            try:
                answer = self.backend.ask("planning", messages, schema=self.schema)
            except LLMFailure as error:
                notes.append(f"no proposal: {error.reason}")
                break
            stated = answer.parsed.model_dump(by_alias=True) if answer.parsed else {}
            try:
                design, remarks = self._read(stated)
                self._check(design, [each.design for each in before if each.config])
            except GenlabError as error:
                notes.append(f"proposal refused: {error}")
                if messages[-2]["content"] == answer.text:
                    break  # a model that repeats itself does so for ever
                messages = [
                    *messages,
                    {"role": "assistant", "content": answer.text},
                    {"role": "user", "content": f"That cannot be used: {error}. Answer again."},
                ]
                continue
            says = {"change": stated["change"], "notes": [*notes, *remarks]}
            return make_draft(len(before) + 1, design, parent, kind=kind, origin="llm", **says)
        return super().propose(attempts, pending).model_copy(update={"notes": notes})

    def review(self, attempts: Sequence[Attempt], attempt: Attempt) -> Review:
        """An opinion on a finished attempt. Raises what the backend raises."""
        if self.small:  # its reviews are noise, and cost as much time as a proposal
            return Review()
        task = describe_result(attempt, self.problem.settings.goal.metric)
        answer = self.backend.ask("planning", self._prompt(attempts, task), schema=Review)
        assert isinstance(answer.parsed, Review)
        return answer.parsed

    def _prompt(self, attempts: Sequence[Attempt], task: str, also: str = "") -> list[Message]:
        settings = self.problem.settings
        tokens = settings.params.max_prompt_tokens
        tokens = min(tokens, SMALL_PROMPT_TOKENS) if self.small else tokens
        head = f"{describe_problem(self.problem)}\n{FORMAT[self.problem.task]}"
        room = tokens * CHARACTERS_PER_TOKEN - len(SYSTEM + head + task)
        history = describe_history(attempts, settings.goal.metric, room)
        return [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": f"{head}\n\n{history}{also}\n\n{task}"},
        ]

    def _read(self, stated: dict[str, Any]) -> tuple[Design, list[str]]:
        """The design in an answer, and remarks. Raises a GenlabError for the planner to read."""
        (recipe, remarks), size = without_fixed(stated["eval_config"]), stated["input_size"]
        config = parse_config(stated["model_config"], self.problem.task)
        if tuple(size)[-3:] != self.problem.shape:
            remarks.append(f"input_size {size} is not that of the data, {self.problem.shape}")
        return (config, parse_training(recipe)), remarks

    def _check(self, design: Design, tried: Sequence[Design]) -> None:
        """Raise a GenlabError for a design that was tried, or has too many parameters."""
        problem, config = self.problem, design[0]
        if not all(find_differences(each, design) for each in tried):
            raise GenlabError("this config was tried already; change it")
        if not has_custom(config):
            most = problem.settings.budget.max_parameters
            count = count_parameters(config, problem.shape, problem.outputs, problem.task)
            if count > most:
                raise GenlabError(f"it has {count:,} parameters, at most {most:,} are allowed")


def proposal_schema(problem: Problem, *, small: bool) -> type[BaseModel]:
    """The answer to a question for a proposal, with the JSON schema of the task's configs."""
    config = Annotated[dict[str, Any], WithJsonSchema(config_schema(problem.task, small=small))]
    training = Annotated[dict[str, Any], WithJsonSchema(Training.model_json_schema())]
    sizes = {"type": "array", "items": {"type": "integer"}, "minItems": 3, "maxItems": 4}
    size = Annotated[list[int], WithJsonSchema(sizes)]
    return create_model(
        "Proposal",
        __config__=ConfigDict(populate_by_name=True, extra="ignore"),
        change=(str, Field("", max_length=600, description="what changes, and why")),
        architecture=(config, Field(alias="model_config")),
        input_size=(size, Field(default_factory=lambda: list(problem.shape))),
        eval_config=(training, Field(default_factory=dict, description="how it is trained")),
    )

"""A language model as planner: its questions, and how its answers become drafts."""

import difflib
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, create_model

from genlab.agent.architecture.compare import format_design
from genlab.agent.architecture.schema import (
    ModelConfig,
    config_schema,
    has_custom,
    parse_config,
)
from genlab.agent.architecture.template import count_parameters
from genlab.agent.architecture.training import Training, parse_training, recipe_schema
from genlab.agent.config import Problem
from genlab.agent.library import modules
from genlab.agent.library.toolbox import Toolbox
from genlab.agent.library.trials import drop_fixed
from genlab.agent.planning.planner import Planner, find_differences, make_draft
from genlab.agent.planning.prompts import (
    ANSWER,
    CHARACTERS_PER_TOKEN,
    FORMAT,
    ROLE,
    SMALL_ANSWER,
    describe_history,
    describe_problem,
    describe_progress,
    describe_task,
)
from genlab.agent.planning.search import choose_parent
from genlab.agent.registry import CODE, Attempt, Design, Draft, Review
from genlab.core.errors import GenlabError
from genlab.llm.chat import LLMFailure, Message
from genlab.llm.journal import Journal

SMALL_PROMPT_TOKENS = 4000  # of a model whose context is 8,192 tokens


class LLMPlanner(Planner):
    """Propose by a language model, and by random search where it gives no usable answer.

    small: whether the model needs a schema with few layer types, such as the embedded one.
    """

    def __init__(
        self, problem: Problem, session: Journal, toolbox: Toolbox, *, small: bool = False
    ) -> None:
        super().__init__(problem)
        self.session = session
        self.toolbox = toolbox
        self.small = small
        self.schema = proposal_schema(problem, small=small)

    def propose(self, attempts: Sequence[Attempt], pending: Sequence[Draft]) -> Draft | None:
        """Propose the next attempt; None where the model wants to stop.

        It may stop after `patience` attempts. Raises what the backend raises, except `LLMFailure`.
        """
        settings = self.problem.settings
        notes = list[str]()
        earlier = [*attempts, *pending]
        kind, parent, _ = choose_parent(settings, attempts, len(earlier))
        messages = self._prompt(attempts, pending, kind, parent)
        self.review = Review()
        for _ in range(settings.params.max_repairs + 1):
            try:
                answer = self.session.ask("planning", messages, schema=self.schema)
            except LLMFailure as error:
                notes.append(f"no proposal: {error.reason}")
                break
            proposal = answer.parsed.model_dump(by_alias=True) if answer.parsed else {}
            self.review = Review.model_validate(proposal)
            if proposal.get("decision") == "stop":
                if len(attempts) >= settings.params.patience:
                    return None
                notes.append(f"the planner wants to stop after {len(attempts)} attempts")
            try:
                fields, remarks = self._read(proposal, parent)
                self._check(fields["design"], fields.get("code", ""), earlier)
            except GenlabError as error:
                notes.append(f"proposal refused: {error}")
                if messages[-2]["content"] == answer.text:
                    break  # a model that repeats itself does so for ever
                refusal = f"That cannot be used: {error}. Answer again."
                messages = [
                    *messages,
                    {"role": "assistant", "content": answer.text},
                    {"role": "user", "content": refusal},
                ]
                continue
            design = fields.pop("design")
            fields |= {"kind": kind, "origin": "llm", "change": proposal["change"]}
            fields["notes"] = [*notes, *remarks]
            return make_draft(len(earlier) + 1, design, parent, **fields)
        return self.search(attempts, pending).model_copy(update={"notes": notes})

    def _prompt(
        self,
        attempts: Sequence[Attempt],
        pending: Sequence[Draft],
        kind: str,
        parent: Attempt | None,
    ) -> list[Message]:
        """Write the question for a proposal, with as much history as its limit allows."""
        settings = self.problem.settings
        max_tokens = settings.params.max_prompt_tokens
        if self.small:
            max_tokens = min(max_tokens, SMALL_PROMPT_TOKENS)
        system = f"{ROLE}\n{SMALL_ANSWER if self.small else ANSWER}"
        head = "\n".join(
            [describe_problem(self.problem, small=self.small), FORMAT[self.problem.task]]
        )
        code = "" if self.small or parent is None else self._read_code(parent)
        task = describe_task(kind, parent, code)
        if pending:
            designs = "; ".join(format_design(*draft.design) for draft in pending)
            task = f"In this round too: {designs}\n{task}"
        if not self.small:
            spent = self.session.spent
            tokens_spent = spent["tokens_in"] + spent["tokens_out"]
            used = len(attempts) + len(pending)
            task = f"{describe_progress(self.problem, used, tokens_spent)}\n{task}"
        max_length = max_tokens * CHARACTERS_PER_TOKEN - len(system + head + task)
        history = describe_history(attempts, settings.goal, max_length, small=self.small)
        return [
            {"role": "system", "content": system},
            {"role": "user", "content": f"{head}\n\n{history}\n\n{task}"},
        ]

    def _read_code(self, attempt: Attempt) -> str:
        path = self.toolbox.workspace.root / attempt.experiment_dir / CODE
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    def _read(
        self, proposal: dict[str, Any], parent: Attempt | None
    ) -> tuple[dict[str, Any], list[str]]:
        """Return the fields of a proposal's draft, and notes on what was left out.

        Raises a GenlabError, which is sent back to the model, where it cannot be used.
        """
        recipe, remarks = drop_fixed(proposal["eval_config"])
        training = parse_training(recipe)
        if code := proposal.get("code"):
            return self._read_module(code, training, parent), remarks
        if proposal["model_config"]:
            config = parse_config(proposal["model_config"], self.problem.task)
            return {"design": (config, training)}, remarks
        code = self._read_code(parent) if parent else ""
        if parent is None or not code:
            raise GenlabError("model_config and code are empty, and there is no module to train on")
        design = parent.design[0], training
        return {"design": design, "code": code, "model_name": parent.model_name}, remarks

    def _read_module(self, code: str, training: Training, parent: Attempt | None) -> dict[str, Any]:
        """Inspect the code of a proposal; return the fields of its draft."""
        name = modules.find_class(code)
        module = modules.Module(source=code, class_name=name, origin=modules.PLANNER)
        if fault := modules.inspect(self.toolbox, module).failure:
            raise GenlabError(f"code: {fault}")
        modules.remember(self.toolbox, module)
        return {
            "design": (ModelConfig(name="Model"), training),
            "code": code,
            "model_name": name,
            "difference": count_changes(self._read_code(parent), code) if parent else [],
        }

    def _check(self, design: Design, code: str, earlier: Sequence[Draft]) -> None:
        """Raise a GenlabError for a design that was tried, or has too many parameters."""
        problem = self.problem
        config = design[0]
        if not config.parts:
            return  # code was inspected, and a module that was trained before is not trained again
        if not all(find_differences(draft.design, design) for draft in earlier if draft.config):
            raise GenlabError("this config was tried already; change it")
        if not code and not has_custom(config):
            limit = problem.settings.budget.max_parameters
            count = count_parameters(config, problem.shape, problem.outputs, problem.task)
            if count > limit:
                raise GenlabError(f"it has {count:,} parameters, at most {limit:,} are allowed")


def count_changes(before: str, after: str) -> list[str]:
    """Count the lines of code that were added and removed, in words."""
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), False)
    changes = [opcode for opcode in matcher.get_opcodes() if opcode[0] != "equal"]
    removed = sum(end - start for _, start, end, _, _ in changes)
    added = sum(end - start for _, _, _, start, end in changes)
    return [f"code: {added} lines added, {removed} removed"]


def proposal_schema(problem: Problem, *, small: bool) -> type[BaseModel]:
    """Make the pydantic class of a proposal, with the JSON schema of the task's configs.

    Every property is required in the schema that is sent: small models under a grammar leave
    optional ones out.
    """
    schema = config_schema(problem.task, small=small)
    if not small:
        schema = {"anyOf": [schema, {"type": "null"}]}
    config = Annotated[dict[str, Any] | None, WithJsonSchema(schema)]
    training = Annotated[dict[str, Any], WithJsonSchema(recipe_schema(problem.task, small=small))]
    fields: dict[str, Any] = {
        "change": (str, Field("", max_length=600, description="what changes, and why")),
        "architecture": (config, Field(None, alias="model_config")),
        "eval_config": (training, Field(default_factory=dict, description="how it is trained")),
    }
    if not small:
        review = {name: (field.annotation, field) for name, field in Review.model_fields.items()}
        decision: Any = Literal["go on", "stop"]
        code = Field("", max_length=modules.MAX_CODE, description="a whole Python file, or empty")
        fields = {
            **review,
            "decision": (decision, Field("go on")),
            **fields,
            "code": (str, code),
        }
    return create_model(
        "Proposal",
        __config__=ConfigDict(populate_by_name=True, extra="ignore", json_schema_extra=require_all),
        **fields,
    )


def require_all(schema: dict[str, Any]) -> None:
    """Make every property of a JSON schema required."""
    schema["required"] = list(schema["properties"])

"""Mode `tools`: the planning model chooses the next tool by function calling.

Budgets, sandbox and evaluator are those of mode `loop`. The evaluator writes its numbers to the
registry, where the model cannot write, and these numbers decide.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from genlab.agent import tools
from genlab.agent.decisions import NOTHING_LEFT, describe_verdict
from genlab.agent.library import modules
from genlab.agent.loop import UNDECIDED, AgentRun
from genlab.agent.planning.prompts import (
    CHARACTERS_PER_TOKEN,
    FORMAT,
    ROLE,
    describe_problem,
    describe_progress,
)
from genlab.agent.registry import Registry, Review
from genlab.agent.tools.functions import call, function_schemas
from genlab.llm.chat import BudgetSpentError, LLMFailure, Message, ToolCall
from genlab.llm.journal import Journal

CALLS_PER_ATTEMPT = 20  # maximum number of tool calls, per attempt of max_iterations
WRITER = "write_file"
SHORTENED = "[shortened: an old result]"
REMINDER = "Nothing has been evaluated yet. Call a tool."
GO_ON = "The goal is not met, and attempts are left. Call a tool."
NO_CALL = (
    "stopped: the model called no tool: does the server know tools? vLLM wants"
    " --enable-auto-tool-choice and --tool-call-parser NAME, llama.cpp --jinja and a template that"
    " knows tools"
)
CUT = '{"shortened": "an old call"}'
WORK = """You have tools that act on a workspace. A usual attempt: pytorch_model_assembler writes
src/models/NAME.py from a model_config (or write_file writes a file of your own),
pytorch_quick_evaluator trains it and returns its numbers. Each model and recipe that is evaluated
is an attempt. Before the next call, say in a sentence what the last result teaches. When nothing is
left to try, answer in words without a call."""


@dataclass
class ToolLoop(AgentRun):
    """A run in which the planning model calls the tools. calls: number of calls so far."""

    session: Journal
    calls: int = 0

    def run(self) -> str:
        """Work until the goal or a limit is reached; returns the verdict."""
        try:
            return self.converse()
        except LLMFailure as error:
            return self.verdict or f"stopped: no answer of the planning model: {error.reason}"
        except BudgetSpentError as error:
            return self.verdict or f"stopped: {error.reason}"

    def converse(self) -> str:
        """Let the model call tools until the run ends; returns the verdict.

        A model that answers without a call is reminded once.
        """
        params = self.settings.params
        messages = self.first_messages()
        functions = function_schemas(self.problem.task)
        max_characters = params.max_prompt_tokens * CHARACTERS_PER_TOKEN
        max_characters -= len(json.dumps(functions))
        reminded = False
        while not self.verdict and self.calls < CALLS_PER_ATTEMPT * params.max_iterations:
            self.progress("  choosing a tool")
            prompt = shorten(messages, max_characters)
            answer = self.session.ask("planning", prompt, functions=functions)
            self.add_review(Review(lesson=answer.text[:400]))
            messages.append(answer.as_message())
            if answer.calls:
                for tool in answer.calls:
                    messages.append(self.execute(tool))
                    if self.verdict:
                        break
                continue
            if reminded:
                return NOTHING_LEFT if self.attempts else NO_CALL
            if len(self.attempts) >= params.patience:
                return NOTHING_LEFT
            reminded = True
            self.progress("  asking for a call once more")
            reminder = GO_ON if self.attempts else REMINDER
            messages.append({"role": "user", "content": reminder})
        return self.verdict or "stopped: as many tools were called as allowed"

    def first_messages(self) -> list[Message]:
        """Write the messages that open the conversation: the role, and the problem."""
        task = [describe_problem(self.problem), FORMAT[self.problem.task], self.describe_state()]
        return [
            {"role": "system", "content": f"{ROLE}\n{WORK}"},
            {"role": "user", "content": "\n".join(task)},
        ]

    def describe_state(self) -> str:
        """Describe the attempts and tokens that are used and left, for the model."""
        spent = self.session.spent
        tokens = spent["tokens_in"] + spent["tokens_out"]
        return describe_progress(self.problem, len(self.attempts), tokens)

    def execute(self, tool: ToolCall) -> Message:
        """Execute a call and return its result; a resumed run reads it from its journal."""
        self.progress(f"  {tool.name}")
        self.calls += 1
        request = {"name": tool.name, "arguments": tool.arguments}
        if tool.error:
            result = f"error: the arguments cannot be read: {tool.error}"
        else:
            outcome = self.session.get_or_record("tool", request, lambda: self.perform(tool))
            result = str(outcome["result"])
            if run_id := outcome.get("run_id"):
                result += self.enter(run_id)
        return {"role": "tool", "tool_call_id": tool.id, "content": result}

    def perform(self, tool: ToolCall) -> dict[str, Any]:
        """Call a tool; returns its result, and the run_id of the attempt if it made one."""
        earlier = len(self.toolbox.evaluated_run_ids)
        with tools.bind_toolbox(self.toolbox):
            result = call(tool.name, tool.arguments)
        if tool.name == WRITER:
            for source in self.toolbox.written_files.values():
                if not modules.recall(self.toolbox, source, "").config:
                    module = modules.Module(source=source, class_name="", origin=modules.PLANNER)
                    modules.remember(self.toolbox, module)
            self.toolbox.written_files.clear()
        run_ids = self.toolbox.evaluated_run_ids[earlier:]
        return {"result": result, "run_id": run_ids[-1] if run_ids else ""}

    def enter(self, run_id: str) -> str:
        """Decide on an attempt that the evaluator has entered; returns a note for the model."""
        for attempt in self.attempts:
            if attempt.run_id == run_id:
                return f"\n[This was attempt {attempt.number}, with the same code and recipe.]"
        registry = Registry(self.toolbox.workspace)
        (attempt,) = (record for record in registry.read_attempts() if record.run_id == run_id)
        number = len(self.attempts) + 1
        self.progress(f"attempt {number} of {self.settings.params.max_iterations}")
        changes = UNDECIDED | {"number": number, "origin": "llm"}
        decided = self.record(attempt.model_copy(update=changes))
        decision = describe_verdict(decided, self.settings)
        return f"\n[Attempt {number}: {decided.verdict}. {decision}. {self.describe_state()}]"


def shorten(messages: Sequence[Message], max_characters: int) -> list[Message]:
    """Shorten messages to a number of characters: tools' calls and results, the oldest first.

    The last answer of the model and what follows it stay as they are.
    """
    shortened = list(messages)
    size = sum(len(json.dumps(message)) for message in shortened)
    answers = [
        position for position, message in enumerate(messages) if message["role"] == "assistant"
    ]
    for position, message in enumerate(messages[: max(answers, default=0)]):
        if size <= max_characters:
            break
        shortened[position] = shorten_message(message)
        size -= len(json.dumps(message)) - len(json.dumps(shortened[position]))
    return shortened


def shorten_message(message: Message) -> Message:
    """Replace the result of a tool, and the arguments of calls, by marks."""
    shortened = dict(message)
    if message["role"] == "tool" and len(message["content"]) > len(SHORTENED):
        shortened["content"] = SHORTENED
    calls = message.get("tool_calls")
    if calls:
        shortened["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": CUT}} for call in calls
        ]
    return shortened

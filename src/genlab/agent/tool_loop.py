"""Mode `tools`: the planning model chooses the next tool by function calling.

It has the budgets, the sandbox and the judge of the loop. What the evaluator measures enters the
registry, and the numbers there decide; the model cannot write them.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from genlab.agent import tools
from genlab.agent.decisions import NOTHING_LEFT
from genlab.agent.loop import Run
from genlab.agent.planner import Review
from genlab.agent.prompts import CHARACTERS_PER_TOKEN, FORMAT, describe_problem
from genlab.agent.registry import Attempt, Registry
from genlab.agent.tools.functions import call, function_schemas
from genlab.llm.chat import BudgetSpentError, LLMFailure, Message, ToolCall
from genlab.llm.journal import Journal

CALLS_PER_ATTEMPT = 20  # tool calls for every attempt that is allowed, at most
EVALUATOR = "pytorch_quick_evaluator"
RUN_ID = re.compile(r'(?:^error: |"run_id": ")(qe_\d{8}_\d{6}(?:_\d+)?)')  # of the evaluator
SHORTENED = "[shortened: an old result]"
REMINDER = "Nothing has been evaluated yet. Call a tool."
NO_CALL = (
    "stopped: the model called no tool: does the server know tools? vLLM wants"
    " --enable-auto-tool-choice and --tool-call-parser NAME, llama.cpp --jinja and a template that"
    " knows tools"
)
CUT = '{"shortened": "an old call"}'

SYSTEM = """You are a researcher who designs neural networks in PyTorch, with tools that act on
a workspace. A usual attempt: pytorch_model_assembler writes src/models/NAME.py from a
model_config (or write_file writes it), pytorch_model_summary reads it, pytorch_quick_evaluator
trains it and returns its numbers. Say in a sentence what you decide after each evaluation, and
call the next tool. The budget is the same for every attempt. Success is decided by the
evaluator's numbers alone; when the goal is reached, or nothing is left to try, answer in words
without a call."""


@dataclass
class ToolLoop(Run):
    """A run in which the planning model calls the tools.

    undecided: its last evaluations. calls: of tools so far.
    """

    session: Journal
    undecided: list[Attempt] = field(default_factory=list)
    calls: int = 0

    def run(self) -> str:
        """Work until the goal or a limit is reached; returns the verdict."""
        task = f"{describe_problem(self.problem)}\n{FORMAT[self.problem.task]}"
        messages: list[Message] = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": task},
        ]
        functions = function_schemas(self.problem.task)
        room = self.settings.params.max_prompt_tokens * CHARACTERS_PER_TOKEN
        room -= len(json.dumps(functions))
        ended = "stopped: as many tools were called as allowed"
        reminded = False
        try:
            while self.calls < CALLS_PER_ATTEMPT * self.settings.params.max_iterations:
                self.progress("  choosing a tool")
                asked = shorten(messages, room)
                answer = self.session.ask("planning", asked, functions=functions)
                self.decide(answer.text)
                if self.verdict:
                    return self.verdict
                if not answer.calls and self.attempts:
                    return NOTHING_LEFT
                if not answer.calls and reminded:
                    return NO_CALL
                if not answer.calls:
                    reminded = True
                    self.progress("  asking for a call once more")
                    messages += [answer.as_message(), {"role": "user", "content": REMINDER}]
                    continue
                messages.append(answer.as_message())
                messages += [self.execute(each) for each in answer.calls]
        except LLMFailure as error:
            ended = f"stopped: no answer of the planning model: {error.reason}"
        except BudgetSpentError as error:
            ended = f"stopped: {error.reason}"
        self.decide("")
        return self.verdict or ended

    def execute(self, tool: ToolCall) -> Message:
        """The result of one call; a finished call is taken from the journal of a resumed run."""
        self.progress(f"  {tool.name}")
        self.calls += 1
        request = {"name": tool.name, "arguments": tool.arguments}
        if tool.error:
            result = f"error: the arguments cannot be read: {tool.error}"
        elif limit := self.find_limit(tool.name):
            result = f"error: {limit}"
        else:
            with tools.using(self.toolbox):
                found = self.session.remember(
                    "tool", request, lambda: {"result": call(tool.name, tool.arguments)}
                )
            result = str(found["result"])
        if tool.name == EVALUATOR and (found_id := RUN_ID.search(result)):
            self.enter(found_id[1])
        return {"role": "tool", "tool_call_id": tool.id, "content": result}

    def find_limit(self, name: str) -> str:
        """Which limit forbids one more call of a tool; empty where none does."""
        tried = len(self.attempts) + len(self.undecided)
        if name == EVALUATOR and tried >= self.settings.params.max_iterations:
            return "as many attempts were made as allowed"
        return self.verdict

    def enter(self, run_id: str) -> None:
        """Number an attempt that the evaluator has entered in the registry."""
        registry, known = Registry(self.toolbox.workspace), [*self.attempts, *self.undecided]
        if run_id in {each.run_id for each in known}:
            return  # evaluated before: the same model, trained alike
        for attempt in registry.attempts():
            if attempt.run_id == run_id:
                number = len(known) + 1
                numbered = attempt.model_copy(update={"number": number, "origin": "llm"})
                self.undecided.append(numbered)
                registry.put(numbered)
                self.progress(f"attempt {number} of {self.settings.params.max_iterations}")

    def decide(self, words: str) -> None:
        """Decide on attempts that are open: the model's words, the numbers' verdict."""
        for attempt in self.undecided:
            self.record(attempt, Review(sentence=words[:400]))
        self.undecided.clear()


def shorten(messages: Sequence[Message], room: int) -> list[Message]:
    """The messages within `room` characters: calls and results of tools are cut, the oldest first.

    Those of the last answer stay whole.
    """
    found = list(messages)
    size = sum(len(json.dumps(each)) for each in found)
    last = max((n for n, each in enumerate(found) if each["role"] == "assistant"), default=0)
    for position, each in enumerate(found[:last]):
        if size <= room:
            break
        short = dict(each)
        if each["role"] == "tool" and len(each["content"]) > len(SHORTENED):
            short["content"] = SHORTENED
        if calls := each.get("tool_calls"):
            short["tool_calls"] = [
                {**call, "function": {**call["function"], "arguments": CUT}} for call in calls
            ]
        size -= len(json.dumps(each)) - len(json.dumps(short))
        found[position] = short
    return found

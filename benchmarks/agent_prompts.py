"""Check that the agent's prompts state the facts that a planner needs.

Runs of both modes, and one towards a generative goal, are planned by the scripted expert behind a
real endpoint. Every request for a plan is searched, with its schemas and functions, for a pattern
per fact that matches nothing else in a prompt.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping

from loopback import Request
from scripted_llm import name_schema, reply

from benchmarks.agent import run_briefly
from benchmarks.harness import Result, benchmark

WORDS = (
    "a network without Dropout for dummy stripes, accuracy of at least 99.95 %, below 400k weights"
)
DRAWING = "a small VAE for dummy stripes, bits per dimension at most 0.5005"
ALWAYS = {
    "the goal's words": "without Dropout|a small VAE for dummy",
    "what no number enforces": "Enforced by no number",
    "metric and threshold": r"accuracy >= 0\.9995|bits_per_dim <= 0\.5005",
    "attempts used and left": r"Attempts: \d+ of \d+ used, \d+ left",
    "budget of a training": r"Budget of a training: \d+ examples, \d+ s of CPU time",
    "what was spent": r"Spent: [\d,]+ tokens",
    "constraints": r"at\s+most [\d,]+ parameters",
    "dataset, shape, classes": r"Data: dummy, images of 1 x 16 x 16 .{11}(4 classes|no labels)",
    "class contract": r"(forward|encode)\(x\) takes float32 images of shape \(n, 1, 16, 16\)",
    "recipe's keys and limits": "batch_size.{0,200}maximum",
}
CLASSIFY = {"reference with seeds": r"small CNN [\d.]+ ± [\d.]+ \(\d+ seeds\)"}
GENERATE = {
    "likelihood": "K discretised logistics",
    "units": "Losses and curves\\s+are in bits per dimension",
}
LATER = {
    "change": "change: |wider|plain network|residual",
    "result with standard error": r"(accuracy|bits_per_dim)\W{1,3}\d\.\d+ ± [\d.]+|standard_errors",
    "size": r"[\d,]+ parameters|\"parameters\": \d+",
    "time": r"\d+ s per training|\"seconds\": ",
    "cut or not": r"\"cut\": (true|false)|cut: seeds|s per training",
    "verdict": "missed|undecided",
}
RECALL = {"recall": r"recall in % by class|\"recall\": \["}
LESSON = {"lesson": "lesson: It trains without trouble"}
PARENT = {
    "parent's config and recipe": '"model_config": .*"eval_config": ',
    "parent's code": r"```python\n# Written by",
}


def list_facts(request: Request, *, generative: bool) -> Mapping[str, str]:
    """List the facts that a request for a plan must state, with the pattern of each."""
    body = json.dumps(request.body, ensure_ascii=False)
    facts = ALWAYS | (GENERATE if generative else CLASSIFY)
    attempts = [int(count) for count in re.findall(r"Attempts: (\d+) of", body)]
    if max(attempts, default=0) == 0:
        return facts
    facts |= LATER
    if not generative:
        facts |= RECALL
    if request.body.get("tools"):
        return facts  # the conversation has calls, code and remarks of every attempt
    if len(re.findall(r"^\d+ \(", write_out(request), re.MULTILINE)) > 1:
        facts |= LESSON
    if "Improve attempt" in body:
        facts |= PARENT
    return facts


def write_out(request: Request) -> str:
    """Write out the messages of a request, and its schema or its functions, with line breaks."""
    contents = [str(message.get("content") or "") for message in request.body["messages"]]
    schema = json.dumps(request.body.get("response_format") or request.body.get("tools"))
    return "\n".join([*contents, schema])


@benchmark("agent.prompt_facts")
def agent_prompts() -> Iterator[Result]:
    """Measure the share of facts that are stated, over all prompts that must state them."""
    stated = Counter[bool]()
    for text, mode in ((WORDS, "loop"), (WORDS, "tools"), (DRAWING, "loop")):
        requests = list[Request]()

        def answer(request: Request, requests: list[Request] = requests):  # type: ignore[no-untyped-def]
            if name_schema(request) in ("Proposal", "Call"):
                requests.append(request)
            return reply(request)

        run_briefly(answer, text=text, mode=mode, max_iterations=4, seeds=2)
        for number, request in enumerate(requests, 1):
            facts = list_facts(request, generative=text == DRAWING)
            prompt = write_out(request)
            missing = [
                name for name, pattern in facts.items() if not re.search(pattern, prompt, re.DOTALL)
            ]
            if missing:
                print(f"{mode}, question {number}: {', '.join(missing)}", flush=True)
            stated[True] += len(facts) - len(missing)
            stated[False] += len(missing)
    yield Result.share("agent.prompt_facts", stated[True], stated.total())

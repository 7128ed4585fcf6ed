"""Processes of agents: their overhead, the CPU seconds of an attempt, the script for aideml."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scripted_llm
from benchmarks.agent_endpoint import LOSS, TRAINED, Answer, make_engineer
from benchmarks.agent_processes import AgentProcess, Question, measure
from loopback import Request

from genlab.core.errors import GenlabError

BUSY = """
import subprocess, sys
burn = [sys.executable, "-c", "import time\\nwhile time.process_time() < 0.3: pass"]
print("attempt 1 of 2", file=sys.stderr, flush=True)
subprocess.run(burn, check=True)
print("  planning for attempt 1 of 2", file=sys.stderr, flush=True)
print("attempt 2 of 2", file=sys.stderr, flush=True)
"""


def ask(answer: Answer, prompt: str, **body: Any) -> dict[str, Any]:
    """Request an answer to a prompt; return its message."""
    messages = [{"role": "system", "content": prompt}]
    reply = answer(Request("", {}, {"messages": messages, **body}))
    message: dict[str, Any] = json.loads(reply.body)["choices"][0]["message"]
    return message


def test_overhead_leaves_out_warm_up_answers_and_trainings() -> None:
    questions = [Question(400, 0, 9.0)] * 4 + [Question(300, 100, 0.5)] * 6
    run = AgentProcess(99.0, [0, 1, 2, 4, 9], questions, [50, 50, 6, 7, 9], [40, 40, 2, 2, 2])
    assert run.overhead() == 5.0 - 6 * 0.5 / 3
    assert run.overhead([0.0] * 5) == 7.0 - 6 * 0.5 / 3
    assert run.tokens == 1000
    figures = run.describe()
    assert figures["requests"] == 2
    assert figures["cpu_s"] == (9 - 2) / 2


def test_cpu_seconds_of_an_attempt_hold_those_of_its_children(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BUSY]
    _, marks = measure(command, tmp_path, {}, "")
    assert len(marks) == 2
    assert marks[1] - marks[0] >= 0.29  # counted in hundredths
    with pytest.raises(GenlabError, match="ended with 3"):
        measure([sys.executable, "-c", "raise SystemExit(3)"], tmp_path, {}, "")


def test_the_script_for_aideml_trains_each_design_and_its_loss_is_reviewed(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    (tmp_path / "input").mkdir()
    np.savez(
        tmp_path / "input" / "data.npz",
        items=rng.integers(0, 256, (64, 1, 16, 16), dtype=np.uint8),
        labels=rng.integers(0, 4, 64),
        validation_items=rng.integers(0, 256, (20, 1, 16, 16), dtype=np.uint8),
        validation_labels=rng.integers(0, 4, 20),
    )
    task = "Classify images of 1 x 16 x 16, 4 classes; train on 64 examples."
    answer = make_engineer()
    scripts = []
    for _ in scripted_llm.EXPERT:
        plan, _, script = ask(answer, task)["content"].partition("```python\n")
        assert plan.strip()
        scripts.append(script.removesuffix("```"))
    assert len(set(scripts)) == len(scripts)
    done = subprocess.run(
        [sys.executable, "-c", scripts[2]], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    trained, loss = done.stdout.splitlines()
    assert float(trained.removeprefix(TRAINED).removesuffix(" s")) > 0
    executed = f"{scripts[2]}\n{done.stdout}Execution time: a second."
    (call,) = ask(answer, executed, tools=[{}])["tool_calls"]
    review = json.loads(call["function"]["arguments"])
    assert review["metric"] == float(loss.removeprefix(LOSS))

"""The agent's benchmarks count what they claim to: what is right passes, what is wrong is told."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

# Benchmarks are scripts: they find each other because their folder comes first on the path.
import agent_fuzz
import agent_goal
import agent_hostile
import agent_kill
import agent_malformed
import agent_scripted
import agent_server
from agent_setting import PARAMS, Setting, agent_params
from genlab.agent import planner, transcript_lines
from genlab.agent.attempt import attempts
from genlab.agent.candidate import Sandbox
from genlab.agent.coder import fault_of_text
from genlab.agent.goal import goal
from genlab.agent.messages import Question
from genlab.agent.proposal import proposal_in
from genlab.agent.registry import Registry
from genlab.agent.space import ModelConfig
from genlab.agent.story import Story
from genlab.agent.workspace import Workspace
from genlab.core.errors import GenlabError

GOAL = "Classify the dummy images, validation loss below 0.05"
TINY = {"subset": 600, "epochs": 3, "validation": 150, "seeds": 1}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Story, agent_scripted.Script]:
    """A run of the loop that follows the script, on data that are learnt in a moment."""
    root = tmp_path_factory.mktemp("scripted") / "workspaces" / "project"
    return agent_scripted.played(Setting(output=None, overrides=TINY), GOAL, root)


def test_the_scripted_llm_is_followed_and_reported(
    played: tuple[Story, agent_scripted.Script],
) -> None:
    assert agent_scripted.faults(*played) == []


@pytest.mark.parametrize("wrong", ["code", "parent", "verdict", "report"])
def test_a_promise_that_is_broken_is_told(
    played: tuple[Story, agent_scripted.Script], wrong: str
) -> None:
    told, script = played
    report = told.workspace.experiments / "report.md"
    kept = report.read_text()
    if wrong == "verdict":
        told = replace(told, verdict="stopped: enough")
    if wrong == "parent":
        told = replace(told, attempts=[*told.attempts[:3], told.attempts[3].model_copy(
            update={"parent": told.attempts[2].run_id})])  # fmt: skip
    if wrong == "code":
        told = replace(told, attempts=[told.attempts[0], *(
            each.model_copy(update={"experiment_dir": told.attempts[0].experiment_dir})
            for each in told.attempts[1:])])  # fmt: skip
    try:
        if wrong == "report":
            report.write_text(kept.replace("attempt 4 reaches", "attempt 3 reaches"))
        found = agent_scripted.faults(told, script)
    finally:
        report.write_text(kept)
    signs = {
        "code": "the LLM's code ran", "parent": "it branched", "verdict": "the goal was reached",
        "report": "the report has the verdict",
    }  # fmt: skip
    assert f"broken: {signs[wrong]}" in found


def test_hostile_answers_do_no_harm_and_are_counted(tmp_path: Path) -> None:
    found, served = agent_malformed.judged(Setting(output=None), 6, seed=4)
    assert found == []
    assert served.total() == 6


def test_a_damaged_registry_and_a_leak_are_told(
    played: tuple[Story, agent_scripted.Script],
) -> None:
    workspace = played[0].workspace
    registry = Registry(workspace)
    kept = registry.path.read_bytes()
    assert agent_malformed.disagreements(workspace) == []
    try:
        records = json.loads(kept)
        records[0]["metrics_summary"]["accuracy"] = 1.5
        registry.path.write_text(json.dumps(records))
        assert "differs" in agent_malformed.disagreements(workspace)[0]
        registry.path.write_text(json.dumps(records[1:]))
        assert "one of the two" in agent_malformed.disagreements(workspace)[0]
        registry.path.write_bytes(kept[: len(kept) // 2])
        assert "damaged" in agent_malformed.disagreements(workspace)[0].lower() or (
            "registry.json" in agent_malformed.disagreements(workspace)[0]
        )
    finally:
        registry.path.write_bytes(kept)
    leak = workspace.root / "leak.txt"
    assert agent_malformed.leaks(workspace) == []
    leak.write_text(f"seen: {agent_malformed.TAG[::-1]}")
    assert "leak.txt" in agent_malformed.leaks(workspace)[0]
    leak.unlink()


def test_what_a_kill_lost_or_had_paid_twice_is_told(
    played: tuple[Story, agent_scripted.Script],
) -> None:
    told, _ = played
    folder = told.workspace.root.parent.parent
    lines = len((told.workspace.root / "transcript.jsonl").read_bytes().splitlines())
    asked = [agent_server.Request("", {}, {})] * lines

    def faults(death: agent_kill.Death, questions: int = lines) -> list[str]:
        server = agent_server.Server([])
        server.requests = asked[:questions] + asked[: questions - lines]
        victim = agent_kill.Victim(folder, server, [death])
        return victim.faults(victim.marks())

    first = told.attempts[0]
    whole = {first.run_id: {"checked": first.checked}}
    assert faults(agent_kill.Death("here", whole, 3, 3)) == []
    assert faults(agent_kill.Death("here", whole, 3, 2), lines + 1) == []
    assert "paid twice" in faults(agent_kill.Death("here", whole, 3, 3), lines + 1)[0]
    again = {first.run_id: {"checked": [{**first.checked[0], "seconds": 0.1}]}}
    assert "trained twice" in faults(agent_kill.Death("here", again, 3, 3))[0]
    assert "lost" in faults(agent_kill.Death("here", {"qe_1": {}}, 3, 3))[0]
    victim = agent_kill.Victim(folder, agent_server.Server([]), [])
    victim.server.requests = asked
    assert "undisturbed" in victim.faults(victim.marks()[:-1])[0]


def test_marks_of_a_run_hold_neither_clock_nor_name(
    played: tuple[Story, agent_scripted.Script],
) -> None:
    for each in attempts(Registry(played[0].workspace)):
        other = each.model_copy(update={"run_id": "qe_0", "attempt_seconds": 9.0})
        assert agent_kill.told(other) == agent_kill.told(each)
        worse = each.model_copy(update={"checked": []})
        assert agent_kill.told(worse) != agent_kill.told(each)


@pytest.mark.parametrize("name", sorted(agent_hostile.CODES | agent_hostile.ENDLESS))
def test_hostile_code_is_what_it_is_called(name: str) -> None:
    """What the text alone gives away is refused there; the rest has to be stopped by the walls."""
    by_text = {
        "not Python", "empty", "zero byte", "too long", "too deep", "no class",
        "forbidden import", "relative import",
    }  # fmt: skip
    config = ModelConfig(blocks=())
    body = (agent_hostile.CODES | agent_hostile.ENDLESS)[name]
    code = re.sub(r"\bCLASS\b", config.name, body).replace("SOUND", "import torch\n"
        f"class {config.name}(torch.nn.Module):\n    pass\n")  # fmt: skip
    assert bool(fault_of_text(code, config.name)) == (name in by_text)


def test_the_same_seed_fuzzes_the_same(tmp_path: Path) -> None:
    def drawn(seed: int) -> list[str]:
        rng = random.Random(seed)
        return [json.dumps(agent_fuzz.wild(rng, 4)) for _ in range(30)]

    assert drawn(1) == drawn(1) != drawn(2)


def test_a_scripted_model_answers_by_the_question_alone() -> None:
    words = "Images: 1 x 16 x 16, 4 classes.\nPropose the next attempt."
    request = agent_server.Request("", {}, {"messages": [{"role": "user", "content": words}]})
    other = agent_server.Request("", {}, {"messages": [{"role": "user", "content": words + "!"}]})
    assert agent_server.asked_for(request) == "Proposal"
    assert agent_server.answer(request) == agent_server.answer(request)
    assert agent_server.answer(request) != agent_server.answer(other)


def test_the_bound_is_what_a_run_reaches_on_every_seed_without_its_baseline(
    played: tuple[Story, agent_scripted.Script],
) -> None:
    def attempt(*accuracies: float) -> object:
        checked = [{"validation": {"accuracy": each}} for each in accuracies]
        return played[0].attempts[0].model_copy(update={"checked": checked})

    found = [attempt(0.99, 0.99), attempt(0.8, 0.6), attempt(0.7, 0.65), attempt()]
    assert agent_goal.within_reach(found) == 0.65
    assert agent_goal.within_reach(found[:1]) == 0.0


def test_without_a_bound_goal_rate_says_how_one_is_chosen(tmp_path: Path) -> None:
    with pytest.raises(GenlabError, match="--only bound"):
        agent_goal.chosen_goal(Setting(output=tmp_path / "benchmarks.json"))
    setting = Setting(output=tmp_path / "benchmarks.json")
    setting.keep("goal_bound", 0.57, n=10, seeds=[1], only="bound")
    assert "at least 57 % accuracy" in agent_goal.chosen_goal(setting)


def test_a_workspace_without_attempts_disagrees_with_nothing(tmp_path: Path) -> None:
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "registry.json").write_text("[]")
    assert agent_malformed.disagreements(Workspace(tmp_path)) == []


def test_the_committed_transcript_was_asked_in_todays_words_and_shapes() -> None:
    """What a replay holds a question against, but for a machine's numbers: else record it again."""
    params = agent_params({})
    room = Sandbox((1, 16, 16), 4, params.max_parameters, params.epochs, params.subset)
    asked = [
        line
        for line in transcript_lines.read(PARAMS.parent / params.transcript)
        if line.shape == "Proposal"
    ]
    assert len(asked) == 3
    for number, line in enumerate(asked):
        shape = proposal_in(room, tuple(str(each + 1) for each in range(number + 1)))
        question = Question("planning", line.messages, shape, line.max_tokens)
        assert line.key == transcript_lines.digest(question)
        text = line.messages[1]["content"].partition("\n")[0].removeprefix("Goal: ")
        left = f"Attempts left: {params.max_iterations - number - 1}."
        system, user = planner.ask_for_proposal(goal(text), room, [], "", left)
        assert line.messages[0] == system
        assert line.messages[1]["content"].startswith(user["content"].partition("\n\n")[0])

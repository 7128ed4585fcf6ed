"""Whole runs on drawn data: in both modes, resumed, replayed, beside search."""

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Event, Thread, main_thread
from typing import Any

import pytest
from agent_runs import GOAL, UNREACHABLE, attempt, problem, settings
from sandboxes import needs_sandbox
from scripted_llm import Server, reply

from genlab.agent.architecture.training import Training
from genlab.agent.config import Settings
from genlab.agent.decisions import NOTHING_LEFT
from genlab.agent.evaluator.results import EvaluationError, ModelSummary, SeedResult
from genlab.agent.goals.parser import parse_goal
from genlab.agent.library.modules import recall
from genlab.agent.library.toolbox import Toolbox, bind_toolbox
from genlab.agent.library.trials import Trial
from genlab.agent.loop import Loop, Progress
from genlab.agent.planning.planner import Planner
from genlab.agent.record import RunRecord, read_run
from genlab.agent.registry import CODE, CONFIG_FILE, WEIGHTS, Draft, Registry, Review
from genlab.agent.report import pick_headline, summarise
from genlab.agent.run import run
from genlab.agent.tool_loop import ToolLoop, shorten
from genlab.agent.tools.functions import call
from genlab.agent.workspace import JOURNAL, Workspace, create_project, open_workspace
from genlab.core.errors import GenlabError
from genlab.llm.answers import ToolCall
from genlab.llm.chat import SetupError
from genlab.llm.journal import Journal

LAYERS = [{"type": "Flatten"}, {"type": "Linear", "out_features": 4}]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(reply) as running:
        yield running


def complete(chosen: Settings, folder: Path, progress: Progress = print) -> RunRecord:
    """Complete the run of these settings."""
    workspace = open_workspace(folder, chosen.goal, chosen.key)
    run(chosen, workspace, progress)
    return read_run(workspace)


def dump_without_times(record: RunRecord) -> list[dict[str, Any]]:
    """Dump the attempts without what depends on a clock."""
    names = ("run_id", "timestamp", "experiment_dir", "parent", "spend", "wall_seconds", "digest")
    seconds = {"metrics_summary": {"seconds"}, "seeds": {"__all__": {"seconds"}}}
    clocks: Any = dict.fromkeys(names, True) | seconds
    return [attempt.model_dump(exclude=clocks) for attempt in record.attempts]


@pytest.fixture(scope="module", params=["loop", "tools"])
def recorded(
    request: pytest.FixtureRequest, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> RunRecord:
    """A run of the scripted model, with search beside it."""
    needs_sandbox()
    changes = {"mode": request.param, "base_url": server.url, "compare_with_search": True}
    return complete(settings(backend="openai", **changes), tmp_path_factory.mktemp("recorded"))


def test_a_run_of_the_scripted_model_is_complete(recorded: RunRecord) -> None:
    best = recorded.best
    assert recorded.verdict == "stopped: 3 attempts were made, as many as allowed"
    assert [attempt.origin for attempt in recorded.attempts] == ["llm"] * 3
    assert {attempt.code_origin for attempt in recorded.attempts} == {"llm"}
    assert all(attempt.seeds and attempt.decision for attempt in recorded.attempts)
    assert best is not None
    assert best.test["val_loss"] > 0
    # One training, by which it was chosen: no verdict on the test set.
    assert "verdict" not in best.test
    assert recorded.verdict_text.endswith(", of one training.")
    assert len(recorded.search) == 3
    assert recorded.comparison is not None
    assert set(recorded.references) >= {"majority class", "logistic regression"}
    folder = recorded.workspace.root / best.experiment_dir
    names = {"model_config.yaml", "model_code.py", "summary.json", "results.json"}
    assert names <= {path.name for path in folder.iterdir()}
    current = recorded.workspace.root / "src/models/current_model.py"
    assert current.read_text() == (folder / "model_code.py").read_text()
    assert recorded.spend["questions"] > 0
    headline = pick_headline(summarise(recorded))
    assert headline["attempts"] == 3
    assert headline["validation"] == pytest.approx(best.mean("val_loss"))


def test_a_journal_is_replayed_without_an_endpoint(
    recorded: RunRecord, server: Server, tmp_path: Path
) -> None:
    journal = recorded.workspace.root / JOURNAL
    requests_before = len(server.requests)
    mode = recorded.settings.params.mode
    replayed = complete(settings(backend="replay", mode=mode, transcript=str(journal)), tmp_path)
    assert len(server.requests) == requests_before
    assert dump_without_times(replayed) == dump_without_times(recorded)
    assert replayed.spend == recorded.spend


def test_a_stopped_run_resumes_without_asking_or_training_again(
    server: Server, tmp_path: Path
) -> None:
    needs_sandbox()
    chosen = settings(backend="openai", base_url=server.url, candidates=2)

    def stop(line: str) -> None:
        if line.startswith("attempt 2: "):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        complete(chosen, tmp_path / "one", stop)
    requests_before = len(server.requests)
    stored = json.loads(next(tmp_path.glob("one/*/experiments/registry.json")).read_text())
    resumed = complete(chosen, tmp_path / "one")
    requests_resumed = len(server.requests) - requests_before
    uninterrupted = complete(chosen, tmp_path / "two")
    requests_uninterrupted = len(server.requests) - requests_before - requests_resumed
    assert dump_without_times(resumed) == dump_without_times(uninterrupted)
    # Candidates of a round are trained at once, so the registry has them in either order.
    first_run_ids = {attempt.run_id for attempt in resumed.attempts[: len(stored)]}
    assert {record["run_id"] for record in stored} == first_run_ids
    assert requests_resumed < requests_uninterrupted
    folders = [resumed.workspace.root / attempt.experiment_dir for attempt in resumed.attempts]
    assert len({(folder / CODE).read_text() for folder in folders}) == 3  # one file per attempt


def test_a_config_that_no_template_writes_can_be_evaluated(tmp_path: Path) -> None:
    toolbox = Toolbox(create_project(tmp_path / "one", GOAL), settings())
    config = {"name": "A", "layers": [{"type": "Residual", "layers": [{"type": "Flatten"}]}]}
    trial = Trial(toolbox, "", "A", Training())
    assert trial.find_differences(config, ModelSummary(parameters=9)) == []


@pytest.mark.parametrize("failing", [None, 2])
def test_seeds_after_the_first_are_trained_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int | None
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    both = Barrier(2, timeout=20)

    class Waiting:
        """An evaluator that trains no seed but the first alone."""

        def inspect(self, *_: object) -> ModelSummary:
            return ModelSummary(parameters=9, multiply_adds=9)

        def evaluate(
            self, source: str, name: str, training: Training, seed: int, examples: int | None
        ) -> Any:
            if seed > 0:
                both.wait()
            if seed == failing:
                raise EvaluationError("it broke")
            return SeedResult(seed, {"accuracy": 0.5}, 0.1, 1.0, [1.0], False), b"%d" % seed

    with Toolbox(create_project(tmp_path / "one", GOAL), settings(seeds=3)) as toolbox:
        toolbox._idle_evaluators += [Waiting(), Waiting()]  # type: ignore[list-item]
        trained = Trial(toolbox, "", "A", Training()).train_seeds()
        weights = (toolbox.workspace.root / trained.experiment_dir / WEIGHTS).read_bytes()
    assert [result["seed"] for result in trained.seeds] == ([0, 1] if failing else [0, 1, 2])
    assert trained.failure == ("it broke" if failing else "")
    assert weights == b"0"  # those of the first seed


def test_mode_tools_counts_only_evaluations_that_its_model_asked_for(tmp_path: Path) -> None:
    workspace = create_project(tmp_path / "one", GOAL)
    for number in (1, 2):  # by a person, before the run
        Registry(workspace).put(attempt(number, 0.5, 0.6).model_copy(update={"number": 0}))
        folder = workspace.root / attempt(number).experiment_dir
        for name in (CODE, CONFIG_FILE):
            (folder / name).write_text("")
    toolbox = Toolbox(workspace, settings())
    with Journal(tmp_path / "journal.jsonl", {}) as session:
        loop = ToolLoop(problem(), toolbox, print, session)
        words = loop.enter(attempt(2).run_id)
        assert "[Attempt 1: missed. Iterate: 0.5500" in words
        assert "1 of 3 used, 2 left" in words
        assert "This was attempt 1" in loop.enter(attempt(2).run_id)
        # The attempt of a person, in an error that is none of the evaluator's.
        script = f"experiments/{attempt(1).run_id}/model.py"
        arguments = {"model_script_path": script, "model_class_name": "A", "eval_config": {}}
        message = loop.execute(ToolCall("1", "pytorch_quick_evaluator", arguments))
    assert attempt(1).run_id in message["content"]
    (decided,) = loop.attempts
    assert decided.run_id == attempt(2).run_id
    assert decided.number == 1


def test_mode_tools_names_the_planner_as_the_writer_of_its_files(tmp_path: Path) -> None:
    toolbox = Toolbox(create_project(tmp_path / "one", GOAL), settings())
    source = "class A: ..."
    arguments = {"file_path": "src/models/a.py", "content": source}
    with Journal(tmp_path / "journal.jsonl", {}) as session:
        loop = ToolLoop(problem(), toolbox, print, session)
        loop.execute(ToolCall("1", "write_file", arguments))
    assert recall(toolbox, source, "A").origin == "planner"
    assert recall(toolbox, "class B: ...", "B").origin == "file"


def test_calls_and_results_are_cut_to_the_length_of_a_prompt() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "x" * 9000}}
    answer = {"role": "assistant", "content": "", "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "1", "content": "y" * 9000}
    messages = [{"role": "user", "content": "goal"}, *[answer, result] * 3]
    shortened = shorten(messages, 25_000)
    assert len(json.dumps(shortened)) < 25_000
    assert shortened[0] == messages[0]
    assert shortened[-2:] == messages[-2:]
    assert shorten(messages, 10**6) == messages


def test_a_model_with_the_code_of_an_earlier_one_takes_nothing_from_it(tmp_path: Path) -> None:
    workspace = create_project(tmp_path / "one", GOAL)
    first = attempt(1, 0.5, 0.6)
    registry = Registry(workspace)
    registry.put(first)
    toolbox = Toolbox(workspace, settings())
    loop = Loop(problem(), toolbox, print, None, planner=Planner(problem()))
    entered = [
        loop._enter(Draft(number=2, model_name="Net", config={"name": "B"}), first, [first])
        for _ in range(2)  # a resumed run finds it again
    ]
    assert entered[0] == entered[1]
    assert "the code and the training of attempt 1" in entered[0].failure
    assert registry.read_attempts() == [first, entered[0]]


def test_a_run_whose_search_ends_in_an_error_has_its_report(
    monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path
) -> None:
    def fail(*_: Any) -> None:
        raise GenlabError("no further network was found")

    needs_sandbox()
    monkeypatch.setattr("genlab.agent.run.run_search_baseline", fail)
    changes = {"base_url": server.url, "max_iterations": 1, "compare_with_search": True}
    with pytest.raises(GenlabError, match="no further network"):
        complete(settings(backend="openai", **changes), tmp_path)
    [folder] = tmp_path.glob("*/experiments")
    record = read_run(Workspace(folder.parent))
    assert record.verdict == "stopped: 1 attempts were made, as many as allowed"
    assert record.spend == record.spent != {}
    assert "No search was run" in (folder / "report.md").read_text()


def test_what_a_person_has_to_correct_ends_the_run(tmp_path: Path) -> None:
    class Typo(Toolbox):
        backend = property(lambda self: raises())  # type: ignore[assignment]

    def raises() -> None:
        raise SetupError("model 'typo' is not there")

    toolbox = Typo(create_project(tmp_path / "one", GOAL), settings())
    draft = Draft(number=1, model_name="A", origin="llm", config={"name": "A", "layers": LAYERS})
    with pytest.raises(SetupError):
        Loop(problem(), toolbox, print, None, planner=Planner(problem())).assemble(draft)
    arguments = {"model_config": draft.config, "output_script_path": "src/models/a.py"}
    with bind_toolbox(toolbox), pytest.raises(SetupError):
        call("pytorch_model_assembler", arguments)


def test_an_interrupt_ends_the_trainings_of_a_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolbox = Toolbox(create_project(tmp_path / "one", GOAL), settings())
    begun = Event()

    def train(*_: Any) -> None:
        begun.set()
        assert toolbox._cancelled.wait(30)
        raise KeyboardInterrupt

    loop = Loop(problem(), toolbox, print, None, planner=Planner(problem()))
    monkeypatch.setattr(loop, "_train", train)

    def interrupt() -> None:
        # To the main thread itself: another one's signal would not wake it. Nor does one that comes
        # just before it begins to wait, hence again.
        assert begun.wait(30)
        for _ in range(20):
            if toolbox._cancelled.wait(0.5):
                break
            signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)

    Thread(target=interrupt).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        loop.evaluate([Draft(model_name="A"), Draft(model_name="B")], [None, None])
    assert time.monotonic() - began < 20


def test_the_goal_ends_a_run_once_new_seeds_confirm_it(server: Server, tmp_path: Path) -> None:
    needs_sandbox()
    easy = replace(UNREACHABLE, threshold=100.0)
    requests_before = len(server.requests)
    record = complete(settings(easy, backend="openai", base_url=server.url), tmp_path)
    assert record.verdict == "met"
    (only,) = record.attempts
    assert only.verdict == "met"
    assert only.decision.startswith("Goal achieved: ")
    new = {result["seed"] for result in only.confirmation}
    assert len(new) == 2
    assert new.isdisjoint(result["seed"] for result in only.seeds)
    assert only.test["trainings"] == 2
    assert only.test["verdict"] == "met"
    assert record.verdict_text.startswith("Goal met: attempt 1 has val_loss <= 100")
    # A proposal and its code: nothing is asked after success.
    assert len(server.requests) - requests_before == 2
    row = json.loads((record.workspace.experiments / "registry.json").read_text())[0]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", row["timestamp"])
    assert row["experiment_dir"] == f"experiments/{only.run_id}/"


def test_a_planner_that_wants_to_stop_has_to_be_patient(tmp_path: Path) -> None:
    class Weary(Planner):
        def propose(self, *_: Any) -> None:
            self.review = Review(lesson="nothing helps")

    workspace = create_project(tmp_path / "one", GOAL)
    loop = Loop(problem(), Toolbox(workspace, settings()), print, None, planner=Weary(problem()))
    Registry(workspace).put(attempt(1, 0.5, 0.6))
    loop.attempts.append(attempt(1, 0.5, 0.6))
    assert loop.run() == NOTHING_LEFT
    assert Registry(workspace).read_attempts()[0].review == {"lesson": "nothing helps"}


def test_a_workspace_is_not_shared_by_two_runs(tmp_path: Path) -> None:
    chosen = settings()
    workspace = open_workspace(tmp_path, chosen.goal, chosen.key)
    with workspace.lock(), pytest.raises(GenlabError, match="another run"):
        run(chosen, workspace)


def test_a_generative_run_shows_samples_of_its_best_model(tmp_path: Path) -> None:
    needs_sandbox()
    drawing = parse_goal("dummy stripes, bits per dimension at most 7.9")
    record = complete(settings(drawing, max_iterations=1, max_parameters=400_000), tmp_path)
    folder = record.workspace.experiments
    assert record.attempts[0].seeds, record.attempts[0].failure
    assert (folder / "samples.png").read_bytes().startswith(b"\x89PNG")
    assert "Samples of the best model" in (folder / "report.md").read_text()
    page = (folder / "report.html").read_text()
    page = re.sub(r'(src="[^"]*") (alt="[^"]*")', r"\2 \1", page)
    assert 'alt="Samples of the best model" src="data:image/png' in page

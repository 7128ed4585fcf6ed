"""The runner: nothing that arrived is lost or paid for twice, whatever happens to it."""

import asyncio
import errno
import io
import json
import shutil
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_benchmark as small
from loopback import encoded
from PIL import Image
from refusals import refused
from small_benchmark import Bench, Turned, change_items

from genlab.benchmark.cases import Case, load_case
from genlab.benchmark.cases.files import write_case
from genlab.benchmark.plugins.base import Picture, ToolFailure
from genlab.benchmark.plugins.registry import make_contenders
from genlab.benchmark.run import images
from genlab.benchmark.run.events import EventLog
from genlab.benchmark.run.runner import is_locked, lock_of
from genlab.benchmark.run.score_pool import ScoringError, ScoringPool
from genlab.benchmark.run.threads import complete
from genlab.benchmark.store.items import ItemResult
from genlab.benchmark.terminal import _follow
from genlab.core.io import write_bytes

pytestmark = pytest.mark.slow

SCORED = ("scored", "")
SMALL = Image.new("RGB", (64, 64))
NOISE = encoded(Image.effect_noise((64, 64), 50))


def kinds(items: list[ItemResult]) -> list[tuple[str, str]]:
    return [(item.status, item.failure_kind) for item in items]


def test_an_image_is_scored_marked_as_synthetic_and_recorded(bench: Bench) -> None:
    [case] = bench.cases(1)
    with_ideal = write_case(case.folder, **{**dict(case), "ideal": SMALL})
    assert with_ideal.ideal == case.folder / "ideal.jpg"
    tool = Turned()
    [item] = bench.run([with_ideal], tool)
    assert tool.ideals == {None}  # tools do not see it
    assert (item.status, item.score) == ("scored", 1.0)
    assert bench.store.run(item.run_id).ending == "finished"
    path = bench.runs / item.image
    assert item.image == f"{item.run_id}/turned/case-000.png"
    with Image.open(path) as image:
        text = image.text  # type: ignore[attr-defined]
    assert (text["synthetic"], text["tool"], text["case"]) == ("yes", "turned", "case-000")
    assert item.run_id.startswith(text["date"])
    assert json.loads(path.with_suffix(".json").read_text()) == {"image_sha256": item.image_sha256}


# What a tool returns or raises, and the failure of its item.
OUTCOMES: dict[str, tuple[Any, str]] = {
    "array": (lambda case: np.zeros((64, 64, 3), np.uint8), "no_image"),
    "path": (lambda case: "made/image.png", "no_image"),
    "none": (lambda case: None, "no_image"),
    # A PNG that is cut short, opened and not yet read.
    "truncated": (lambda case: Image.open(io.BytesIO(NOISE[:-900])), "no_image"),
    "empty": (lambda case: Image.new("RGB", (0, 0)), "wrong_size"),
    "shape": (lambda case: Image.new("RGB", (64, 48)), "wrong_size"),
    "cost": (lambda case: Picture(SMALL, cost=float("nan")), "error"),
    "note": (lambda case: Picture(SMALL, note=[7]), "error"),  # type: ignore
    "part": (lambda case: Picture(b"x", canvas=(0, 64)), "error"),
    "scale": (lambda case: Image.new("RGBA", (129, 128)), ""),
    "bug": (KeyError("a\nline"), "error"),
    "refused": (ToolFailure("refused", "no"), "refused"),
}


def test_a_faulty_tool_costs_its_own_items_and_no_others(bench: Bench) -> None:
    tools = [Turned(tool_id="unknown"), Turned()]
    tools[0].unavailable = None  # it raises where it should say whether it can be used
    for name, (outcome, _) in OUTCOMES.items():
        key = "fails" if isinstance(outcome, Exception) else "make"
        cost = 0.5 if name == "array" else 0.0
        tools.append(Turned(tool_id=name, cost=cost, **{key: outcome}))
    expected = [("skipped", "unavailable"), SCORED]
    expected += [("failed", kind) if kind else SCORED for _, kind in OUTCOMES.values()]
    items = bench.run(bench.cases(1), *tools, max_cost=9)
    assert kinds(items) == expected
    by_tool = {item.tool_id: item for item in items}
    assert by_tool["array"].cost >= 0.5  # it may have been paid for
    assert all((item.score is None) == (item.status != "scored") for item in items)
    with Image.open(bench.runs / by_tool["scale"].image) as image:
        assert (image.size, image.mode) == ((64, 64), "RGB")
    assert not any("\n" in item.failure for item in items)
    assert kinds(bench.resume(items[0].run_id, *tools, again=True, max_cost=9)) == expected


def test_a_faulty_case_is_no_tools_fault(bench: Bench) -> None:
    cut, *_, shaped = bench.cases(3)
    Image.effect_noise((64, 64), 50).save(cut.template, "JPEG")
    cut.template.write_bytes(cut.template.read_bytes()[:-900])
    shaped = write_case(shaped.folder, **{**dict(shaped), "ideal": Image.new("RGB", (64, 96))})
    items = bench.run([load_case(cut.folder), shaped], Turned(cost=1.0), max_cost=9)
    assert kinds(items) == [("failed", "case_fault")] * 2
    assert ("template.png" in items[0].failure, "ideal.jpg" in items[1].failure) == (True, True)
    assert not any(item.cost for item in items)


def test_a_tool_whose_threads_hang_stops_no_other(bench: Bench) -> None:
    release = threading.Event()

    class Hanging(Turned):
        async def swap(self, case: Case, options: Mapping[str, Any]) -> Any:
            await asyncio.to_thread(release.wait)

    tools = [Hanging(tool_id="hanging", concurrency=99), Turned()]
    runner = bench.runner(*tools, timeout=0.2, retries=0, concurrency=99)
    run_id = bench.start(runner, bench.cases(40), tools)

    complete(asyncio.wait_for(runner.run(run_id), 30))  # waits for the loop's threads, too
    release.set()
    assert Counter(kinds(bench.store.items(run_id))) == {SCORED: 40, ("failed", "timeout"): 40}


def test_a_full_disk_is_no_tools_fault(bench: Bench) -> None:
    full = Turned(fails=OSError(errno.ENOSPC, "No space left on device"), times=1)
    [case] = bench.cases(1)
    with pytest.raises(OSError):  # noqa: PT011
        bench.run([case], full)
    [run] = bench.store.runs()
    assert kinds(bench.resume(run.run_id, full)) == [SCORED]


def test_no_more_images_are_made_at_a_time_than_allowed(bench: Bench) -> None:
    narrow = Turned(0.2, concurrency=2)
    wide = Turned(0.2, tool_id="wide", concurrency=99)
    bench.run(bench.cases(8), narrow, wide, concurrency=5)
    assert narrow.most_active == 2
    assert 2 < wide.most_active <= 5


def test_passing_failures_are_tried_again_and_others_are_not(bench: Bench) -> None:
    limited = ToolFailure("rate_limited", "later", passing=True, retry_after=7.0)
    tools = [
        Turned(tool_id="passing", fails=ToolFailure("unavailable", "", passing=True), times=2),
        Turned(tool_id="lasting", fails=ToolFailure("refused", "no")),
        Turned(tool_id="limited", fails=limited),
        Turned(60.0, tool_id="hanging"),
    ]
    items = bench.run(bench.cases(1), *tools, timeout=0.5, retries=2)
    expected = [("", 3), ("refused", 1), ("rate_limited", 3), ("timeout", 3)]
    assert [(item.failure_kind, item.attempts) for item in items] == expected
    assert bench.slept.count(7.0) == 2  # as long as the service asked for


@pytest.mark.parametrize(
    ("scorer", "expected"),
    [
        (small.faceless_score, [("failed", "no_face")] * 3),
        (small.crashing_score, [SCORED, ("failed", "scorer_failed"), SCORED]),
        (small.raising_score, [("failed", "scorer_failed")] * 3),
    ],
)
def test_a_failing_scorer_costs_scores_alone(bench: Bench, scorer: Any, expected: Any) -> None:
    items = bench.run(bench.cases(3), Turned(), scorer=scorer, scorers=2)
    assert kinds(items) == expected
    assert all((bench.runs / item.image).is_file() for item in items)


def test_a_scorer_that_hangs_is_ended(bench: Bench) -> None:
    pool = ScoringPool(small.sleeping_score, 1, seconds=0.5)
    [case] = bench.cases(1)
    with pytest.raises(ScoringError):
        complete(pool.score(case, case.template))


def test_the_ceiling_is_never_passed_and_a_higher_one_takes_the_skipped(bench: Bench) -> None:
    tool = Turned(0.001, cost=0.4, concurrency=5)
    items = bench.run(bench.cases(5), tool, max_cost=1.0)
    assert sorted(kinds(items)) == [SCORED] * 2 + [("skipped", "over_budget")] * 3
    assert sum(item.cost for item in items) == pytest.approx(0.8)
    assert len(tool.requested_cases) == 2
    assert kinds(bench.resume(items[0].run_id, tool, max_cost=9.0)) == [SCORED] * 5
    assert len(tool.requested_cases) == 5


def test_a_cost_that_a_tool_does_not_declare_ends_at_the_ceiling(bench: Bench) -> None:
    dear = Turned(make=lambda case: Picture(NOISE, cost=5.0), tool_id="dear", concurrency=1)
    items = bench.run(bench.cases(3), dear, Turned())
    assert sorted(kinds(items[::2])) == [SCORED] + [("skipped", "over_budget")] * 2
    assert kinds(items[1::2]) == [SCORED] * 3  # what is free goes on
    assert sum(item.cost for item in items) == 5.0


def test_what_a_recovered_answer_cost_counts_toward_the_ceiling(bench: Bench) -> None:
    tool = Turned(cost=0.4)
    runner = bench.runner(tool)
    run_id = bench.start(runner, bench.cases(2), [tool], max_cost=1.0)
    change_items(bench.store, [(1, {"status": "generating", "cost": 0.4})])
    answer = bench.runs / run_id / "turned" / ".case-000.answer"
    answer.parent.mkdir()
    answer.write_bytes(b'{"cost": 0.9}\n' + NOISE)
    complete(runner.run(run_id))
    items = bench.store.items(run_id)
    assert kinds(items) == [SCORED, ("skipped", "over_budget")]
    assert items[0].cost == pytest.approx(0.9)


def test_every_value_of_an_option_and_every_repeat_is_drawn(bench: Bench) -> None:
    tool = Turned()
    options = {"turned": {"model": ["a", "b"], "seconds": 0}}
    contenders = make_contenders([tool], options)
    assert [contender.label for contender in contenders] == [
        f"turned ({m}, seconds=0)" for m in "ab"
    ]
    runner = bench.runner(tool)
    run_id = runner.start(bench.cases(2), contenders, repeats=3)
    complete(runner.run(run_id))
    items = bench.store.items(run_id)
    assert kinds(items) == [SCORED] * 12
    assert len({item.image for item in items}) == 12
    assert all((bench.runs / item.image).is_file() for item in items)


def test_images_that_are_damaged_are_made_again_and_no_others(bench: Bench) -> None:
    tool = Turned(cost=0.1)
    items = bench.run(bench.cases(5), tool, max_cost=1.0)
    paths = [bench.runs / item.image for item in items]
    for path in paths[:2]:
        path.write_bytes(path.read_bytes()[:-40])
    paths[2].unlink()
    shutil.copy(paths[4], paths[3])
    unknown = {"status": "generating", "image": "", "image_sha256": "", "score": None}
    change_items(bench.store, [(items[n].item_id, unknown) for n in (1, 4)])  # as a kill leaves it
    resumed = bench.resume(items[0].run_id, tool, max_cost=1.0)
    assert kinds(resumed) == [SCORED] * 5
    assert [tool.requested_cases.count(item.case_id) for item in items] == [2, 2, 2, 2, 1]
    assert resumed[4].image_sha256 == items[4].image_sha256


def test_a_run_needs_cases_that_have_not_changed(bench: Bench) -> None:
    with refused():
        bench.start(bench.runner(), [], [Turned()])
    assert bench.store.runs() == []
    [item] = bench.run(bench.cases(1), Turned())
    newer = Turned(version="2")
    with refused("turned", "2", item.run_id):
        bench.resume(item.run_id, newer)
    text = bench.folder / "cases" / "case-000" / "case.yaml"
    text.write_text(text.read_text().replace("consent: true", "consent: false"))
    with refused("consent"):
        bench.resume(item.run_id, Turned())
    SMALL.save(text.with_name("template.png"))
    with refused(item.run_id):
        bench.resume(item.run_id, Turned())


def test_cases_of_runs_that_are_never_run_are_not_kept(bench: Bench) -> None:
    runner = bench.runner(Turned())
    cases = bench.cases(1)
    first, second = (bench.start(runner, cases, [Turned()]) for _ in range(2))
    assert list(runner._cases) == [second]
    complete(runner.run(first))
    complete(runner.run(second))
    assert runner._cases == {}
    assert bench.store.run(first).ending == bench.store.run(second).ending == "finished"


def test_a_run_goes_on_after_the_project_was_moved(tmp_path: Path) -> None:
    failing = Turned(fails=ToolFailure("refused", "no"), times=1)
    old = Bench(tmp_path / "old")
    with old.store:
        [item] = old.run(old.cases(1), failing)
    old.folder.rename(tmp_path / "new")
    moved = Bench(tmp_path / "new")
    with moved.store:
        assert kinds(moved.resume(item.run_id, failing)) == [("failed", "refused")]
        assert kinds(moved.resume(item.run_id, failing, again=True)) == [SCORED]


def test_a_run_has_one_process_at_a_time(bench: Bench) -> None:
    tool = Turned(0.3)
    runner = bench.runner(tool)
    second_runner = bench.runner(tool)

    async def run_both() -> None:
        run_id = bench.start(runner, bench.cases(1), [tool])
        first = asyncio.create_task(runner.run(run_id))
        await asyncio.sleep(0.05)
        assert is_locked(bench.runs, run_id)
        with refused(run_id):
            await second_runner.run(run_id)
        await first
        assert not is_locked(bench.runs, run_id)

    complete(run_both())
    run_id = bench.store.runs()[0].run_id
    with lock_of(bench.runs, run_id), refused(run_id):
        complete(asyncio.wait_for(_follow(second_runner, run_id, False), 30))


@pytest.mark.parametrize("target", ["store", "image"])
def test_a_full_disk_ends_the_run_and_an_answer_is_kept(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    def fail(path: Any, *content: Any) -> None:
        if target == "store" or path.suffix == ".png":
            raise OSError(errno.ENOSPC, "disk full")
        write_bytes(path, *content)

    tool = Turned(make=lambda case: Picture(NOISE, cost=0.3), cost=0.5)
    runner = bench.runner(tool)
    run_id = bench.start(runner, bench.cases(1), [tool], max_cost=0.5)
    with monkeypatch.context() as patch:
        if target == "store":
            patch.setattr(bench.store, "save_items", fail)
        else:
            patch.setattr(images, "write_bytes", fail)
        with pytest.raises(OSError):  # noqa: PT011
            complete(runner.run(run_id))
    [item] = bench.resume(run_id, tool)
    assert (item.status, item.cost) == ("scored", pytest.approx(0.3))
    assert len(tool.requested_cases) == 1


def test_a_cancelled_run_keeps_what_arrived_and_is_resumed_later(bench: Bench) -> None:
    tool = Turned(0.05, concurrency=1)
    runner = bench.runner(tool)

    async def cancel_after_the_first() -> str:
        run_id = bench.start(runner, bench.cases(6), [tool])
        log = runner.log(run_id)
        task = asyncio.create_task(runner.run(run_id))
        async for event in log.follow():
            if event.get("status") == "generated":
                runner.cancel(run_id)
        assert (await task).ending == "cancelled"
        return run_id

    run_id = complete(cancel_after_the_first())
    items = bench.store.items(run_id)
    assert all(item.finished for item in items)
    assert "cancelled" in {item.failure_kind for item in items}
    arrived = {item.case_id for item in items if item.image}
    assert arrived
    complete(runner.run(run_id))
    assert kinds(bench.store.items(run_id)) == [SCORED] * 6
    assert all(tool.requested_cases.count(case) == 1 for case in arrived)


def test_listeners_receive_every_step(bench: Bench) -> None:
    tool = Turned()
    runner = bench.runner(tool)

    async def run_and_follow() -> list[Mapping[str, Any]]:
        run_id = bench.start(runner, bench.cases(2), [tool])
        log = runner.log(run_id)
        running = asyncio.create_task(runner.run(run_id))
        received = [event async for event in log.follow()]
        await running
        return received

    state, *received = complete(run_and_follow())
    assert [item["status"] for item in state["items"]] == ["queued", "queued"]
    first = [event for event in received if event.get("case_id") == "case-000"]
    steps = ["generating", "generated", "evaluating", "scored"]
    assert [event["status"] for event in first] == steps
    assert first[-1]["image_url"].startswith("/runs/")
    assert (received[-1]["type"], received[-1]["status"]) == ("run", "finished")


def test_every_listener_gets_the_state_and_then_each_event_once_in_order() -> None:
    async def follow_all() -> list[list[Mapping[str, Any]]]:
        log = EventLog("r")

        async def follow() -> list[Mapping[str, Any]]:
            return [event async for event in log.follow()]

        listeners = []
        for number in range(1000):
            item = ItemResult(item_id=number % 3, case_id="one", failure=str(number))
            log.update(item)
            log.update(item)  # dropped
            if number % 25 == 0:
                listeners.append(asyncio.create_task(follow()))
                await asyncio.sleep(0)
        log.close("finished")
        return await asyncio.gather(*listeners)

    received = complete(follow_all())
    for listener, (state, *events) in enumerate(received):
        joined = 25 * listener  # the number of the last event before this listener came
        in_state = sorted(int(item["failure"]) for item in state["items"])
        assert in_state == [*range(max(0, joined - 2), joined + 1)]
        later = [str(number) for number in range(joined + 1, 1000)]
        failures = [event.get("failure", event["status"]) for event in events]
        assert failures == [*later, "finished"]
        sequences = [message["sequence"] for message in (state, *events)]
        assert sequences == [*range(sequences[0], sequences[0] + len(sequences))]

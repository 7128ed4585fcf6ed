"""The runner: nothing that arrived is lost or paid for twice, whatever happens to it."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from small_benchmark import (
    Failing,
    Giving,
    Raising,
    Turned,
    crashing_score,
    faceless_score,
    make_case,
    make_cases,
    raising_score,
    small_score,
)

import genlab.benchmark.events as events
import genlab.benchmark.work as work
from genlab.benchmark.arrivals import Arrival, Place
from genlab.benchmark.cases import Case
from genlab.benchmark.plugins import Picture, ToolFailure
from genlab.benchmark.runner import Runner
from genlab.benchmark.store.repository import Item, Store
from genlab.core.errors import GenlabError

pytestmark = pytest.mark.slow


class World:
    """A folder of runs, its store, and what the runner waited."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = folder / "runs"
        self.store = Store(self.runs / "genlab.sqlite3")
        self.slept: list[float] = []

    def runner(self, **options: Any) -> Runner:
        values = {"scorers": 1, "scorer": small_score, "sleep": self.sleep, "timeout": 20.0}
        return Runner(self.store, self.runs, **{**values, **options})

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)

    def done(self, cases: list[Case], *tools: Any, **options: Any) -> list[Item]:
        """The items of a run of these cases and tools."""
        runner = self.runner(tools={tool.tool_id: tool for tool in tools}, **options)
        run_id = runner.start(cases, list(tools))
        asyncio.run(runner.run(run_id))
        return self.store.items(run_id)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def kinds(items: list[Item]) -> list[tuple[str, str]]:
    return [(item.status, item.failure_kind) for item in items]


def test_a_run_scores_every_case_with_every_tool(world: World) -> None:
    cases = make_cases(world.folder / "cases", 3)
    items = world.done(cases, Turned(), Failing(ToolFailure("refused", "no")))
    turned = [item for item in items if item.tool_id == "turned"]
    assert [(item.status, item.score) for item in turned] == [("scored", 1.0)] * 3
    assert (
        kinds([item for item in items if item.tool_id == "failing"]) == [("failed", "refused")] * 3
    )
    assert all(item.score is None for item in items if item.tool_id == "failing")
    (run,) = world.store.runs()
    assert run.ending == "finished"


def test_images_are_marked_as_synthetic_and_have_a_record_beside_them(world: World) -> None:
    (item,) = world.done(make_cases(world.folder / "cases", 1), Turned())
    path = world.runs / item.image
    assert item.image == f"{item.run_id}/turned/case-000.png"
    with Image.open(path) as image:
        text = image.text  # type: ignore[attr-defined]
    assert text["synthetic"] == "yes"
    assert (text["tool"], text["case"]) == ("turned", "case-000")
    assert item.run_id.startswith(text["date"])
    record = json.loads(path.with_suffix(".json").read_text())
    assert (record["score"], record["image_sha256"]) == (1.0, item.image_sha256)


def truncated() -> Image.Image:
    """A PNG that is cut short, opened and not yet read, as a tool might return it."""
    buffer = io.BytesIO()
    Image.effect_noise((64, 64), 50).save(buffer, "PNG")
    return Image.open(io.BytesIO(buffer.getvalue()[:-900]))


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        (np.zeros((64, 64, 3), np.uint8), "no_image", "gave a numpy.ndarray, no PIL image"),
        ("made/image.png", "no_image", "gave a str, no PIL image"),
        (None, "no_image", "gave a NoneType"),
        (truncated(), "no_image", "cut short"),
        (Image.new("RGB", (0, 0)), "wrong_size", "none at all"),
        (Picture(Image.new("RGB", (64, 64)), cost=float("nan")), "error", "Picture is not what"),
        (Picture(Image.new("RGB", (64, 64)), note=7), "error", "Picture is not what"),  # type: ignore[arg-type]
        (Picture(b"x", part=(0.5, 0, 0.5, 1)), "error", "Picture is not what"),
    ],
)
def test_what_is_no_picture_costs_its_item_and_no_other(
    world: World, given: Any, kind: str, words: str
) -> None:
    cases = make_cases(world.folder / "cases", 1)
    tools = [Giving(given, cost=0.5), Turned()]
    wrong, right = world.done(cases, *tools, max_cost=9)
    assert kinds([wrong, right]) == [("failed", kind), ("scored", "")]
    assert words in wrong.failure
    assert wrong.cost >= 0.5  # it may have been paid for
    runner = world.runner(tools={tool.tool_id: tool for tool in tools}, max_cost=9)
    asyncio.run(runner.run(wrong.run_id, again=True))
    assert kinds(world.store.items(wrong.run_id)) == [("failed", kind), ("scored", "")]


def test_a_tool_that_raises_when_asked_whether_it_can_be_used_can_not(world: World) -> None:
    raising, right = world.done(make_cases(world.folder / "cases", 1), Raising(), Turned())
    assert kinds([raising, right]) == [("skipped", "unavailable"), ("scored", "")]
    assert "KeyError: 'a key of its own'" in raising.failure


def test_no_more_at_a_time_than_allowed(world: World) -> None:
    cases = make_cases(world.folder / "cases", 8)
    narrow, wide = Turned(0.01, concurrency=2), Turned(0.01, concurrency=99)
    wide.tool_id = "wide"
    world.done(cases, narrow, wide, concurrency=5)
    assert narrow.most_active == 2
    assert 2 < wide.most_active <= 5


def test_passing_faults_are_tried_again_and_others_are_not(world: World) -> None:
    cases = make_cases(world.folder / "cases", 1)
    passing = Failing(ToolFailure("unavailable", "HTTP 500", passing=True), times=2)
    lasting = Failing(ToolFailure("refused", "no"))
    lasting.tool_id = "lasting"
    items = world.done(cases, passing, lasting, retries=4)
    assert [(item.status, item.attempts) for item in items] == [("scored", 3), ("failed", 1)]
    assert len(world.slept) == 2


def test_tries_end(world: World) -> None:
    tool = Failing(ToolFailure("rate_limited", "later", passing=True, retry_after=7.0))
    (item,) = world.done(make_cases(world.folder / "cases", 1), tool, retries=3)
    assert (item.status, item.failure_kind, item.attempts) == ("failed", "rate_limited", 4)
    assert world.slept.count(7.0) == 3  # as long as the service asked for


def test_a_tool_that_hangs_times_out(world: World) -> None:
    (item,) = world.done(
        make_cases(world.folder / "cases", 1), Turned(60.0), timeout=0.05, retries=1
    )
    assert (item.status, item.failure_kind, item.attempts) == ("failed", "timeout", 2)


def test_what_a_tool_raises_is_an_outcome(world: World) -> None:
    tool = Failing(KeyError("oh\nno"))
    (item,) = world.done(make_cases(world.folder / "cases", 1), tool)
    assert (item.status, item.failure_kind) == ("failed", "error")
    assert "KeyError" in item.failure
    assert "\n" not in item.failure


def test_images_of_another_shape_fail_and_of_another_scale_are_fitted(world: World) -> None:
    cases = make_cases(world.folder / "cases", 1)
    (wrong,) = world.done(cases, Giving(Image.new("RGB", (64, 48))))
    assert kinds([wrong]) == [("failed", "wrong_size")]
    (fitted,) = world.done(cases, Giving(Image.new("RGBA", (129, 128))))
    assert fitted.status == "scored"
    assert "resized from 129 × 128" in fitted.details["tool"]
    with Image.open(world.runs / fitted.image) as image:
        assert (image.size, image.mode) == ((64, 64), "RGB")


def test_a_scorer_that_finds_no_face_is_an_outcome_of_its_own(world: World) -> None:
    (item,) = world.done(make_cases(world.folder / "cases", 1), Turned(), scorer=faceless_score)
    assert (item.status, item.failure_kind, item.score) == ("failed", "no_face", None)
    assert (world.runs / item.image).is_file()


def test_a_scorer_that_crashes_costs_one_image_its_score(world: World) -> None:
    items = world.done(
        make_cases(world.folder / "cases", 3), Turned(), scorer=crashing_score, scorers=2
    )
    assert kinds(items) == [("scored", ""), ("failed", "error"), ("scored", "")]


def test_a_bug_of_the_scorer_is_reported(world: World) -> None:
    (item,) = world.done(make_cases(world.folder / "cases", 1), Turned(), scorer=raising_score)
    assert "ZeroDivisionError: one by none" in item.failure


# money


def test_the_ceiling_is_never_passed(world: World) -> None:
    cases = make_cases(world.folder / "cases", 5)
    tool = Turned(0.001, cost=0.4, concurrency=5)
    items = world.done(cases, tool, max_cost=1.0)
    assert sorted(item.status for item in items) == ["scored"] * 2 + ["skipped"] * 3
    assert {item.failure_kind for item in items} == {"", "over_budget"}
    assert world.store.spent(items[0].run_id) == pytest.approx(0.8)
    assert len(tool.asked) == 2


def test_who_can_be_asked_is_asked_before_the_ceiling_is_passed(world: World) -> None:
    asked: list[tuple[float, float]] = []

    def ask(ceiling: float, wanted: float) -> float | None:
        asked.append((ceiling, wanted))
        return 1.0 if len(asked) == 1 else None

    cases = make_cases(world.folder / "cases", 5)
    items = world.done(cases, Turned(cost=0.5), ask=ask)
    assert asked == [(0.0, 0.5), (1.0, 1.5)]  # after a no, never again
    assert sum(item.status == "scored" for item in items) == 2


# coming back


def test_skipped_items_are_tried_again_and_failed_ones_when_asked(world: World) -> None:
    cases = make_cases(world.folder / "cases", 1)
    failing, paid = Failing(ToolFailure("refused", "no"), times=1), Turned(cost=0.1)
    items = world.done(cases, failing, paid)
    assert kinds(items) == [("failed", "refused"), ("skipped", "over_budget")]
    runner = world.runner(tools={"failing": failing, "turned": paid}, max_cost=1.0)
    asyncio.run(runner.run(items[0].run_id))
    assert kinds(world.store.items()) == [("failed", "refused"), ("scored", "")]
    asyncio.run(runner.run(items[0].run_id, again=True))
    assert kinds(world.store.items()) == [("scored", ""), ("scored", "")]


def test_no_answer_waits_for_its_turn_to_be_put_on_the_disk(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = make_cases(world.folder / "cases", 6)
    kept = work.keep
    waited: list[bool] = []

    def busy(picture: Picture, place: Place) -> Arrival:
        until = time.monotonic() + 10
        while not waited and time.monotonic() < until:
            if len(list(world.runs.glob("*/giving/.*.answer"))) == len(cases):
                waited.append(True)
            time.sleep(0.01)
        return kept(picture, place)

    monkeypatch.setattr(work, "keep", busy)
    buffer = io.BytesIO()
    cases[0].open_template().save(buffer, "PNG")
    items = world.done(cases, Giving(buffer.getvalue(), concurrency=6), concurrency=6)
    assert waited, "answers waited for the two pictures in the making"
    assert {item.status for item in items} == {"scored"}
    assert not list(world.runs.glob("*/giving/.*.answer"))


def test_an_image_the_store_was_not_reported_of_is_found_again(world: World) -> None:
    tool = Turned(cost=0.1)
    items = world.done(make_cases(world.folder / "cases", 2), tool, max_cost=1.0)
    for item in items:  # as a process that was killed in the middle leaves it
        world.store.set_item(
            item.item_id, status="generating", image="", image_sha256="", score=None
        )
    asyncio.run(world.runner(tools={"turned": tool}).run(items[0].run_id))
    assert len(tool.asked) == 2
    assert [item.image_sha256 for item in world.store.items()] == [
        item.image_sha256 for item in items
    ]
    assert kinds(world.store.items()) == [("scored", "")] * 2


@pytest.mark.parametrize("fault", ["truncated", "gone", "foreign", "truncated and unknown"])
def test_a_damaged_image_is_made_again(world: World, fault: str) -> None:
    tool = Turned()
    one, other = world.done(make_cases(world.folder / "cases", 2), tool)
    path = world.runs / one.image
    if fault.startswith("truncated"):
        path.write_bytes(path.read_bytes()[:-40])
        if "unknown" in fault:  # the store was not reported of it before the kill
            world.store.set_item(one.item_id, status="generating", image="", image_sha256="")
    elif fault == "gone":
        path.unlink()
    else:
        shutil.copy(world.runs / other.image, path)
    asyncio.run(world.runner(tools={"turned": tool}).run(one.run_id))
    assert tool.asked == ["case-000", "case-001", "case-000"]
    assert world.store.item(one.item_id).status == "scored"


def test_a_case_that_changed_is_not_gone_on_with(world: World) -> None:
    (case,) = make_cases(world.folder / "cases", 1)
    (item,) = world.done([case], Turned())
    Image.new("RGB", (64, 64)).save(case.template)
    with pytest.raises(GenlabError, match="has changed since run"):
        asyncio.run(world.runner(tools={"turned": Turned()}).run(item.run_id))


def test_a_case_without_consent_is_refused_with_the_line_to_change(world: World) -> None:
    case = make_case(world.folder / "cases", 1, consent="false")
    with pytest.raises(GenlabError, match=r"case\.yaml, line 3"):
        world.runner().start([case], [Turned()])
    assert world.store.runs() == []


def test_two_at_one_run_are_one_too_many(world: World) -> None:
    runner, other = world.runner(), world.runner(tools={"turned": Turned()})

    async def both() -> None:
        run_id = runner.start(make_cases(world.folder / "cases", 1), [Turned(0.3)])
        first = asyncio.create_task(runner.run(run_id))
        await asyncio.sleep(0.05)
        with pytest.raises(GenlabError, match="in the hands of another"):
            await other.run(run_id)
        await first

    asyncio.run(both())


def test_cancel_keeps_what_arrived_and_the_run_goes_on_later(world: World) -> None:
    cases = make_cases(world.folder / "cases", 6)
    tool = Turned(0.05, concurrency=1)
    runner = world.runner(tools={"turned": tool})

    async def cancelled() -> str:
        run_id = runner.start(cases, [tool])
        task = asyncio.create_task(runner.run(run_id))
        async for event in runner.subscribe(run_id):
            if event.get("status") == "generated":
                runner.cancel(run_id)
        assert (await task).ending == "cancelled"
        return run_id

    run_id = asyncio.run(cancelled())
    items = world.store.items(run_id)
    assert all(item.finished for item in items)
    assert "cancelled" in {item.failure_kind for item in items}
    arrived = {item.case_id for item in items if item.image}
    assert arrived
    asyncio.run(runner.run(run_id))
    assert kinds(world.store.items(run_id)) == [("scored", "")] * 6
    assert all(tool.asked.count(case) == 1 for case in arrived)


# listeners


async def _heard(runner: Runner, run_id: str) -> list[Mapping[str, Any]]:
    return [event async for event in runner.subscribe(run_id)]


def test_listeners_hear_every_step_in_order(world: World) -> None:
    runner = world.runner()

    async def both() -> list[Mapping[str, Any]]:
        run_id = runner.start(make_cases(world.folder / "cases", 2), [Turned()])
        listening = asyncio.create_task(_heard(runner, run_id))
        await asyncio.sleep(0)
        await runner.run(run_id)
        return await listening

    heard = asyncio.run(both())
    first = [event["status"] for event in heard if event.get("case_id") == "case-000"]
    assert first == ["queued", "generating", "generated", "evaluating", "scored"]
    assert heard[-1]["type"] == "run"
    assert heard[-1]["status"] == "finished"
    numbers = [event["sequence"] for event in heard]
    assert numbers == sorted(numbers)
    scored = next(event for event in heard if event["status"] == "scored")
    assert scored["image_url"].startswith("/runs/")
    assert scored["score"] == 1.0


def test_a_slow_listener_gets_the_state_again_and_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "BACKLOG", 4)
    channel = events.Channel("r")

    async def slow() -> list[Any]:
        stream = channel.listen()
        channel.publish({"type": "update", "run_item_id": 0, "status": "queued"})
        seen = [await anext(stream)]
        for number in range(100):
            channel.publish({"type": "update", "run_item_id": number % 3, "status": str(number)})
        channel.close("finished")
        return seen + [event async for event in stream]

    heard = asyncio.run(slow())
    assert [event["status"] for event in heard] == ["queued", "99", "97", "98", "finished"]

"""Reuse of images: nothing that was paid for is requested again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_benchmark import Bench, Turned, change_items, faceless_score, make_case

from genlab.benchmark import snapshot
from genlab.benchmark.leaderboard.standings import rank_contenders, read_tables
from genlab.benchmark.plugins.registry import make_contenders
from genlab.benchmark.run.rescore import rescore
from genlab.benchmark.run.threads import complete
from genlab.benchmark.store.items import ItemResult, Reused, ScoreDetails

pytestmark = pytest.mark.slow


class World(Bench):
    """Two installed tools, one of which costs money."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.chosen = self.cases(2)
        self.paid = Turned(tool_id="paid", version="1", cost=0.5)
        self.free = Turned(tool_id="free", version="1")

    def follow(self, *tools: Turned, **options: Any) -> tuple[str, dict[str, ItemResult]]:
        """Finish the stage's run; return its id, and its items by `tool/case`."""
        chosen = list(tools) or [self.paid, self.free]
        for tool in chosen:
            tool.requested_cases.clear()
        runner = self.runner(*chosen, reuse=True, **options)
        contenders = make_contenders(chosen, {})
        run_id = snapshot.find_run(self.store, self.chosen, contenders, 1)
        if run_id is None:
            run_id = runner.start(self.chosen, contenders, max_cost=10.0)
        complete(runner.run(run_id))
        return run_id, {f"{i.tool_id}/{i.case_id}": i for i in self.store.items(run_id)}

    def outs(self, run_id: str) -> dict[str, Any]:
        items = self.store.items(run_id)
        return snapshot.list_standings(rank_contenders(read_tables(self.store, run_id)), items)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.store.close()


def test_another_version_of_one_tool_asks_no_other_tool_again(world: World) -> None:
    first, before = world.follow()
    outs = world.outs(first)
    assert [len(world.paid.requested_cases), len(world.free.requested_cases)] == [2, 2]
    image = before["paid/case-000"]
    world.store.rate("run_item", image.image_sha256, "ada", 4, "blind")

    world.free.version = "2"
    second, after = world.follow()
    assert second != first
    assert [len(world.paid.requested_cases), len(world.free.requested_cases)] == [0, 2]
    assert {item.status for item in after.values()} == {"scored"}

    copy = after["paid/case-000"]
    assert (copy.score, copy.components, copy.cost) == (image.score, image.components, 0)
    assert copy.reused == Reused(run_id=first, cost=0.5)
    assert not any(item.cost for item in world.store.items(second))
    for suffix in (".png", ".json"):
        old_file = (world.runs / image.image).with_suffix(suffix)
        new_file = (world.runs / copy.image).with_suffix(suffix)
        assert new_file.read_bytes() == old_file.read_bytes()
    # Over all runs the image and its copy are one draw.
    [both] = [row for row in rank_contenders(read_tables(world.store)) if row.tool_id == "paid"]
    assert (both.spread, both.cases, both.score) == (None, 2, 1.0)
    # The images' costs and ratings are unchanged.
    assert world.outs(second) == outs
    standings = rank_contenders(read_tables(world.store, second))
    stars = {row.label: [rating.mean for rating in row.stars.values()] for row in standings}
    assert stars == {"paid": [4.0], "free": []}

    # Reused from a run that had reused it, too: the run that made it, and its cost, are recorded.
    world.free.version = "3"
    _, again = world.follow()
    assert world.paid.requested_cases == []
    assert again["paid/case-000"].reused == Reused(run_id=first, cost=0.5)
    assert world.outs(world.store.runs()[0].run_id) == outs


def test_only_what_is_new_is_asked_for(world: World) -> None:
    first, _ = world.follow()
    world.chosen.append(make_case(world.folder / "cases", 2))
    world.follow()
    assert [world.paid.requested_cases, world.free.requested_cases] == [["case-002"], ["case-002"]]
    added = Turned(tool_id="added", version="1", cost=0.5)
    world.follow(world.paid, added)
    assert [len(world.paid.requested_cases), len(added.requested_cases)] == [0, 3]
    del world.chosen[2]
    assert world.follow()[0] == first  # as it was: that run is still there
    assert world.paid.requested_cases == world.free.requested_cases == []
    world.paid.version = "2"
    world.follow()
    assert [len(world.paid.requested_cases), len(world.free.requested_cases)] == [2, 0]


def test_images_are_reused_and_what_is_damaged_or_missing_is_not(world: World) -> None:
    world.chosen.append(make_case(world.folder / "cases", 2))
    _, items = world.follow()
    unknown, damaged, refused = (items[f"paid/case-00{n}"] for n in range(3))
    # Killed after the image was on the disk and before the store knew of it.
    lost = {"image": "", "image_sha256": "", "score": None}
    killed = (unknown.item_id, {**lost, "status": "generating"})
    failed = (refused.item_id, {**lost, "status": "failed", "failure_kind": "refused"})
    change_items(world.store, [killed, failed])
    (world.runs / damaged.image).write_bytes(b"half a picture")
    (world.runs / refused.image).unlink()
    world.free.version = "2"
    _, after = world.follow()
    assert sorted(world.paid.requested_cases) == ["case-001", "case-002"]
    assert {item.status for item in after.values()} == {"scored"}
    assert after["paid/case-000"].image_sha256 == unknown.image_sha256
    assert after["paid/case-001"].reused is None


def test_another_version_of_the_score_scores_the_same_images_again(world: World) -> None:
    first, items = world.follow()
    old = {"scoring": ScoreDetails(versions={"constants": "0"})}
    change_items(world.store, [(item.item_id, old) for item in items.values()])
    (world.runs / items["free/case-001"].image).write_bytes(b"half a picture")
    runner = world.runner(scorer=faceless_score)  # it knows no tool
    *messages, summary = complete(rescore(runner, first, {"constants": "1"}))
    assert len(messages) == 1
    assert "free/case-001.png is gone or has changed" in messages[0]
    assert summary == f"{first}: 3 of 4 images are scored again"
    after = {item.item_id: item for item in world.store.items(first)}
    untouched = after.pop(items["free/case-001"].item_id)
    assert {(item.failure_kind, item.score) for item in after.values()} == {("no_face", None)}
    assert (untouched.status, untouched.score) == ("scored", items["free/case-001"].score)

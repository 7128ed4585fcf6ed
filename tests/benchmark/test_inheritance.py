"""What a new run of the stage takes over: nothing that was paid for is asked for again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_benchmark import Bench, Turned, faceless_score, make_case

from genlab.benchmark import snapshot
from genlab.benchmark.inheritance import paid
from genlab.benchmark.leaderboard import leaderboard
from genlab.benchmark.store.repository import Item

pytestmark = pytest.mark.slow


class World(Bench):
    """Two installed tools, one of which costs money."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.chosen = self.cases(2)
        self.paid, self.free = tool("paid", cost=0.5), tool("free")

    def follow(self, *tools: Turned, **options: Any) -> tuple[str, dict[str, Item]]:
        """The stage's run brought to its end: its name, and its items by `tool/case`."""
        chosen = list(tools) or [self.paid, self.free]
        for tool in chosen:
            tool.asked.clear()
        runner = self.runner(*chosen, max_cost=10.0, **options)
        run_id = snapshot.own_run(runner, self.runs, self.chosen, chosen)
        asyncio.run(runner.run(run_id))
        return run_id, {f"{i.tool_id}/{i.case_id}": i for i in self.store.items(run_id)}

    def outs(self, run_id: str) -> tuple[dict[str, Any], dict[str, Any]]:
        items = self.store.items(run_id)
        standings = leaderboard(self.store, run_id=run_id)
        return snapshot.results(standings, items), snapshot.listed(items)


def tool(tool_id: str, **needs: Any) -> Turned:
    """A tool of version 1."""
    made = Turned(**needs)
    made.tool_id, made.version = tool_id, "1"
    return made


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.store.close()


def test_another_version_of_one_tool_asks_no_other_tool_again(world: World) -> None:
    first, before = world.follow()
    outs = world.outs(first)
    assert [len(world.paid.asked), len(world.free.asked)] == [2, 2]
    image = before["paid/case-000"]
    world.store.rate("run_item", image.image_sha256, "ada", 4, blind=True)

    world.free.version = "2"
    second, after = world.follow()
    assert second != first
    assert [len(world.paid.asked), len(world.free.asked)] == [0, 2]
    assert {item.status for item in after.values()} == {"scored"}

    kept = after["paid/case-000"]
    assert (kept.score, kept.components, kept.cost) == (image.score, image.components, 0)
    assert kept.details["carried"] == {"run_id": first, "cost": 0.5}
    assert not any(item.cost for item in world.store.items(second))
    assert (world.runs / kept.image).read_bytes() == (world.runs / image.image).read_bytes()
    # What the images cost, and what people said of them, is unchanged.
    assert world.outs(second) == outs
    stars = {s.tool: s.stars for s in leaderboard(world.store, run_id=second)}
    assert stars == {"paid": 4.0, "free": None}

    # From a run that had taken over itself: where it was made, and for how much, is not lost.
    world.free.version = "3"
    _, again = world.follow()
    assert world.paid.asked == []
    assert again["paid/case-000"].details["carried"] == {"run_id": first, "cost": 0.5}
    assert paid(again["paid/case-000"]) == 0.5


def test_only_what_is_new_is_asked_for(world: World) -> None:
    first, _ = world.follow()
    world.chosen.append(make_case(world.folder / "cases", 2))
    world.follow()
    assert [world.paid.asked, world.free.asked] == [["case-002"], ["case-002"]]
    other = tool("other", cost=0.5)
    world.follow(world.paid, other)
    assert [len(world.paid.asked), len(other.asked)] == [0, 3]
    del world.chosen[2]
    assert world.follow()[0] == first  # as it was: that run is still there
    assert world.paid.asked == world.free.asked == []
    world.paid.version = "2"
    world.follow()
    assert [len(world.paid.asked), len(world.free.asked)] == [2, 0]


def test_what_a_run_came_to_is_taken_over_and_what_it_lacks_is_not(world: World) -> None:
    world.chosen += [make_case(world.folder / "cases", number) for number in (2, 3)]
    _, items = world.follow()
    unknown, damaged, refused, lacking = (items[f"paid/case-00{n}"] for n in range(4))
    # Killed after the image was on the disk and before the store knew of it.
    lost = {"image": "", "image_sha256": "", "score": None}
    world.store.set_items(
        [
            (unknown.item_id, {**lost, "status": "generating"}),
            (refused.item_id, {**lost, "status": "failed", "failure_kind": "refused"}),
            (lacking.item_id, {**lost, "status": "skipped", "failure_kind": "no_key"}),
        ]
    )
    (world.runs / damaged.image).write_bytes(b"half a picture")
    for item in (refused, lacking):
        (world.runs / item.image).unlink()
    world.free.version = "2"
    _, after = world.follow()
    assert world.paid.asked == ["case-001", "case-003"]
    statuses = [after[f"paid/case-00{n}"].status for n in range(4)]
    assert statuses == ["scored", "scored", "failed", "scored"]
    assert after["paid/case-000"].image_sha256 == unknown.image_sha256
    assert "carried" not in after["paid/case-001"].details
    assert after["paid/case-002"].failure_kind == "refused"


@pytest.mark.parametrize("edited", [False, True])
def test_another_version_of_the_score_scores_the_same_images_again(
    world: World, edited: bool
) -> None:
    first, _ = world.follow()
    sidecar = world.runs / first / snapshot.SIDECAR
    sidecar.write_text(json.dumps({**json.loads(sidecar.read_text()), "scoring": "older"}))
    if edited:
        world.free.version = "2"
    second, after = world.follow(scorer=faceless_score)
    assert (second != first) == edited
    assert world.paid.asked == []
    assert {(item.failure_kind, item.score) for item in after.values()} == {("no_face", None)}

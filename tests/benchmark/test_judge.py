"""A vision model's column: beside the score, recorded, bounded, and never paid for twice."""

from __future__ import annotations

import asyncio
import base64
import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from image_server import ImageServer, Reply, html, payload, said, status
from PIL import Image
from small_benchmark import Turned, make_cases, small_score

from genlab.benchmark import snapshot
from genlab.benchmark.judge import PROMPT, Judge
from genlab.benchmark.judging import judge_of
from genlab.benchmark.leaderboard import as_csv, leaderboard
from genlab.benchmark.plugins import ToolFailure
from genlab.benchmark.report import page
from genlab.benchmark.runner import Runner
from genlab.benchmark.store.repository import Item, Store
from genlab.core.params import load_params

pytestmark = pytest.mark.slow

STARS = '{"stars": 4, "reason": "a <b>soft</b> seam"}'
ROOT = Path(__file__).resolve().parents[2]


class World:
    """A run of a free tool over three cases, with a judge on loopback."""

    def __init__(self, folder: Path) -> None:
        self.runs = folder / "runs"
        self.store = Store(self.runs / "genlab.sqlite3")
        self.cases = make_cases(folder / "cases", 3)
        self.tool = Turned()
        self.run_id = ""

    def done(self, *, again: bool = False, **options: Any) -> dict[str, Item]:
        """The items after a pass over the run, which is begun where there is none."""
        limits: dict[str, Any] = {"scorers": 1, "retries": 2, "timeout": 5.0, **options}
        known = {"turned": self.tool}
        runner = Runner(
            self.store, self.runs, scorer=small_score, tools=known, sleep=_at_once, **limits
        )
        self.run_id = self.run_id or runner.start(self.cases, [self.tool])
        asyncio.run(runner.run(self.run_id, again=again))
        return {item.case_id: item for item in self.store.items(self.run_id)}


async def _at_once(seconds: float) -> None:
    await asyncio.sleep(0)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.store.close()


def judge(server: ImageServer, monkeypatch: pytest.MonkeyPatch, cost: float = 0.0) -> Judge:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-judge-0123456789")
    return Judge("eye-1", cost)


def verdicts(items: dict[str, Item]) -> list[tuple[Any, ...]]:
    said = [item.details["judge"] for item in items.values()]
    return [(one["status"], one["stars"], one["failure_kind"]) for one in said]


def test_none_is_asked_unless_params_name_one() -> None:
    params = load_params(ROOT / "params.yaml").benchmark
    assert judge_of(params) is None
    named = judge_of(params.model_copy(update={"judge": "eye-1"}))
    assert named is not None
    assert (named.model, named.needs.cost) == ("eye-1", 0.02)


def test_its_stars_stand_beside_the_score(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = world.done()
    before = leaderboard(world.store, run_id=world.run_id)
    assert "judge" not in page(world.store, world.run_id)

    with ImageServer([said(f"I see.\n```json\n{STARS}\n```")]) as server:
        items = world.done(judge=judge(server, monkeypatch))
    assert verdicts(items) == [("given", 4, "")] * 3
    for name, item in items.items():
        assert (item.score, item.components) == (plain[name].score, plain[name].components)
        assert item.image_sha256 == plain[name].image_sha256
    kept = items["case-000"].details["judge"]
    assert (kept["model"], kept["prompt"]) == ("eye-1", PROMPT)
    assert kept["answer"].startswith("I see.")
    record = json.loads((world.runs / world.run_id / "turned" / "case-000.json").read_text())
    assert record["details"]["judge"] == kept

    [standing] = leaderboard(world.store, run_id=world.run_id)
    assert (standing.score, standing.components) == (before[0].score, before[0].components)
    assert standing.as_dict()["judge"]["stars"] == 4.0
    [row] = csv.DictReader(io.StringIO(as_csv([standing])))
    assert row["judge"] == "stars:4;pictures:3;by:eye-1, prompt 1;failures:;cost:0"
    listed = snapshot.listed(list(items.values()))["items"][0]
    assert listed["judge"]["stars"] == 4
    assert "run_id" not in listed["judge"]
    measured = snapshot.results([standing], list(items.values()))["tools"]["turned"]
    assert measured["judge"] == {"stars": 4.0, "pictures": 3}
    shown = page(world.store, world.run_id)
    assert "a &lt;b&gt;soft&lt;/b&gt; seam" in shown
    assert "<b>soft" not in shown


def test_it_sees_template_result_and_avatar(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with ImageServer([said(STARS)]) as server:
        world.done(judge=judge(server, monkeypatch))
    assert {request.path for request in server.requests} == {"/v1/chat/completions"}
    request = server.requests[0]
    assert request.headers["authorization"] == "Bearer sk-judge-0123456789"
    [message] = json.loads(request.fields["messages"])
    words, *shown = message["content"]
    assert "at 38% of the width" in words["text"]
    assert "image 3" in words["text"]
    images = [_opened(part["image_url"]["url"]) for part in shown]
    assert [image.size for image in images] == [(64, 64)] * 3
    corner = [image.getpixel((2, 2)) for image in images]
    assert len(set(corner)) == 3


def _opened(url: str) -> Image.Image:
    kind, _, data = url.partition(",")
    assert kind == "data:image/jpeg;base64"
    return Image.open(io.BytesIO(base64.b64decode(data)))


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (said("Rather good."), "error"),
        (said('{"stars": 9, "reason": "off the scale"}'), "error"),
        (said('{"stars": ' + "[" * 1_900 + "}"), "error"),
        (payload({"choices": [{"message": "words"}]}), "error"),
        (said(None, refusal="I don't judge faces."), "refused"),
        (html(), "error"),
        (status(401, message="wrong key sk-judge-0123456789"), "no_key"),
        (status(404, message="no such model", code="model_not_found"), "retired"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_holds_no_stars_is_an_outcome_with_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reply: Reply, kind: str
) -> None:
    [case] = make_cases(tmp_path, 1)
    with ImageServer([reply]) as server, pytest.raises(ToolFailure) as failure:
        asyncio.run(judge(server, monkeypatch, cost=0.4).verdict(case, case.template))
    assert (failure.value.kind, failure.value.passing) == (kind, False)
    assert "sk-judge" not in failure.value.reason
    # What it answered was paid for; what it turned away was not.
    assert failure.value.cost == (None if reply.status >= 400 else 0.4)


@pytest.mark.parametrize(
    ("reply", "kind"), [(status(500), "unavailable"), (Reply(hang=True), "timeout")]
)
def test_its_failure_costs_the_score_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, reply: Reply, kind: str
) -> None:
    del world.cases[1:]
    with ImageServer([reply, reply, reply, said(STARS)]) as server:
        eye = judge(server, monkeypatch)
        timeout = 0.3 if reply.hang else 5.0
        items = world.done(judge=eye, timeout=timeout)
        assert verdicts(items) == [("failed", None, kind)]
        assert len(server.requests) == 3  # it is tried as a tool is
        item = items["case-000"]
        assert (item.status, item.score, item.failure_kind) == ("scored", 1.0, "")
        [standing] = leaderboard(world.store, run_id=world.run_id)
        assert standing.judge is not None
        assert standing.judge.failures == {kind: 1}
        # It is asked about again when that is wanted, and not otherwise.
        assert verdicts(world.done(judge=eye)) == [("failed", None, kind)]
        assert verdicts(world.done(judge=eye, again=True)) == [("given", 4, "")]


def test_it_keeps_to_the_ceiling_and_goes_on_without_paying_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ImageServer([said(STARS)]) as server:
        paid = judge(server, monkeypatch, cost=0.4)
        items = world.done(judge=paid, max_cost=1.0)
        assert sorted(verdicts(items)) == [
            ("given", 4, ""),
            ("given", 4, ""),
            ("skipped", None, "over_budget"),
        ]
        assert all(item.cost == 0 and item.score is not None for item in items.values())
        assert len(server.requests) == 2
        world.done(judge=paid, max_cost=1.0)  # what was spent before counts
        assert len(server.requests) == 2
        items = world.done(judge=paid, max_cost=1.2)
        assert verdicts(items) == [("given", 4, "")] * 3
        assert len(server.requests) == 3
        assert len(world.tool.asked) == 3


def test_without_a_key_it_is_skipped_with_that_reason(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    items = world.done(judge=Judge("eye-1", 0.0))
    assert verdicts(items) == [("skipped", None, "no_key")] * 3
    assert {item.status for item in items.values()} == {"scored"}

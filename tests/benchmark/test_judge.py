"""Stars of a vision model: beside the score, recorded, limited in cost, never paid for twice."""

import asyncio
import base64
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from loopback import Reply, Server, html, status
from PIL import Image
from replies import good, refusal
from small_benchmark import Bench, Turned

from genlab.benchmark import snapshot
from genlab.benchmark.judge import StarJudge
from genlab.benchmark.leaderboard.standings import rank_contenders, read_tables
from genlab.benchmark.leaderboard.table import tabulate
from genlab.benchmark.plugins.base import ToolFailure
from genlab.benchmark.report import render_report
from genlab.benchmark.run.runner import Runner
from genlab.benchmark.store.items import ItemResult
from genlab.benchmark.store.repository import Store
from genlab.core.params import load_params

pytestmark = pytest.mark.slow

JudgeOf = Callable[..., StarJudge]
STARS = '{"stars": 4, "reason": "a <b>soft</b> seam at the {left} ear"}'
GIVEN = (4, "")
MODEL = "@cf/meta/eye\n"  # of any name, though no rating's rater begins with @


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> JudgeOf:
    """A function that makes a judge whose model is behind a server."""

    def made(server: Server, cost: float = 0.0) -> StarJudge:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-judge-0123456789")
        return StarJudge(MODEL, cost)

    return made


def verdicts(store: Store, items: list[ItemResult]) -> list[tuple[Any, ...]]:
    """List stars and failure of each item; stars are ratings of the context `judge`."""
    stars = {rating.subject_hash: rating.stars for rating in store.ratings(context="judge")}
    return [(stars.get(i.image_sha256), i.judging.failure_kind) for i in items]


def test_none_is_asked_unless_params_name_one_and_there_is_a_key(
    root: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = load_params(root / "params.yaml").benchmark
    assert Runner.configured(bench.store, bench.runs, params).options.judge is None
    asking = params.model_copy(update={"judge": "=" + "x" * 99})
    named = Runner.configured(bench.store, bench.runs, asking).options.judge
    assert named is not None
    assert (named.name, named.needs.cost) == ("x" * 70 + ", prompt 3", 0.02)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    [item] = bench.run(bench.cases(1), Turned(), judge=named)
    assert verdicts(bench.store, [item]) == [(None, "no_key")]
    assert item.status == "scored"


def test_its_stars_are_shown_beside_the_score(bench: Bench, judge: JudgeOf) -> None:
    tool = Turned()
    plain = bench.run(bench.cases(3), tool)
    run_id = plain[0].run_id
    [before] = rank_contenders(read_tables(bench.store, run_id))
    assert "judge" not in render_report(bench.store, run_id)

    answer = "I {see}. " * 300 + f"\n```json\n{STARS}\n```"
    with Server([good(answer)]) as server:
        items = bench.resume(run_id, tool, judge=judge(server))
    request = server.requests[0]
    assert (request.path, request.fields["model"]) == ("/v1/chat/completions", MODEL)
    assert request.headers["authorization"] == "Bearer sk-judge-0123456789"
    words, *image_parts = json.loads(request.fields["messages"])[0]["content"]
    assert "38%" in words["text"]  # where the face is
    data = [
        image_part["image_url"]["url"].removeprefix("data:image/png;base64,")
        for image_part in image_parts
    ]
    images = [Image.open(io.BytesIO(base64.b64decode(image))) for image in data]
    assert len({image.getpixel((2, 2)) for image in images}) == 3  # template, avatar, result
    assert verdicts(bench.store, items) == [GIVEN] * 3
    unchanged = {"score", "components", "image_sha256"}
    for item, plain_item in zip(items, plain, strict=True):
        assert item.model_dump(include=unchanged) == plain_item.model_dump(include=unchanged)
    judging = items[0].judging
    assert judging.judge == "cf/meta/eye, prompt 3"
    assert judging.answer.startswith("I {see}.")
    [standing] = rank_contenders(read_tables(bench.store, run_id))
    assert (standing.score, standing.components) == (before.score, before.components)
    assert (standing.stars["judge"].mean, standing.stars["judge"].ratings) == (4, 3)
    assert "judge's stars" in tabulate([standing])[0]
    measured = snapshot.list_standings([standing], items)["contenders"]["turned"]
    assert measured["judge_stars"] == 4
    report = render_report(bench.store, run_id)
    assert "a &lt;b&gt;soft&lt;/b&gt; seam" in report
    assert "<b>soft" not in report


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (good("Rather good."), "error"),
        (good('{"stars": 9, "reason": "off the scale"}'), "error"),
        (good('{"stars": ' + "[" * 1_900 + "}"), "error"),
        (refusal("I don't judge faces."), "refused"),
        (html(), "error"),
        (status(401, message="wrong key sk-judge-0123456789"), "no_key"),
    ],
)
def test_an_answer_without_stars_is_an_outcome_of_its_kind(
    bench: Bench, judge: JudgeOf, reply: Reply, kind: str
) -> None:
    [case] = bench.cases(1)
    with Server([reply]) as server, pytest.raises(ToolFailure) as failure:
        asyncio.run(judge(server, cost=0.4).rate(case, case.template))
    assert (failure.value.kind, failure.value.passing) == (kind, False)
    assert "sk-judge" not in failure.value.reason
    # What it answered was paid for; what it turned away was not.
    assert failure.value.cost == (None if reply.status >= 400 else 0.4)


@pytest.mark.parametrize(
    ("reply", "kind"), [(status(500), "unavailable"), (Reply(hang=True), "timeout")]
)
def test_its_failure_costs_no_score(bench: Bench, judge: JudgeOf, reply: Reply, kind: str) -> None:
    tool = Turned()
    with Server([reply, reply, reply, good(STARS)]) as server:
        options = {"judge": judge(server), "retries": 2}
        timeout = 0.3 if reply.hang else 5.0
        [item] = bench.run(bench.cases(1), tool, timeout=timeout, **options)
        assert verdicts(bench.store, [item]) == [(None, kind)]
        assert len(server.requests) == 3  # it is tried as a tool is
        assert (item.status, item.score, item.failure_kind) == ("scored", 1.0, "")
        assert "judge: 1 of 1 pictures have no stars: " in render_report(bench.store, item.run_id)
        [standing] = rank_contenders(read_tables(bench.store, item.run_id))
        assert standing.stars == {}
        # It is asked again when the run is resumed, until it has answered.
        for _ in range(2):
            assert verdicts(bench.store, bench.resume(item.run_id, tool, **options)) == [GIVEN]
        assert len(server.requests) == 4


def test_it_keeps_to_the_ceiling_and_is_not_paid_twice(bench: Bench, judge: JudgeOf) -> None:
    tool = Turned()
    with Server([good(STARS)]) as server:
        paid = judge(server, cost=0.4)
        items = bench.run(bench.cases(3), tool, judge=paid, max_cost=1.0)
        answers = sorted(verdicts(bench.store, items), key=str)
        assert answers == [GIVEN, GIVEN, (None, "over_budget")]
        assert sorted(item.cost for item in items) == [0.0, 0.4, 0.4]
        assert all(item.score is not None for item in items)
        run_id = items[0].run_id
        bench.resume(run_id, tool, judge=paid, max_cost=1.0)  # what was spent before counts
        assert len(server.requests) == 2
        items = bench.resume(run_id, tool, judge=paid, max_cost=1.2)
        assert verdicts(bench.store, items) == [GIVEN] * 3
        assert len(server.requests) == len(tool.requested_cases) == 3
        assert rank_contenders(read_tables(bench.store))[0].cost == pytest.approx(1.2)
        (bench.runs / items[0].image).unlink()  # another image, which it has seen already
        assert bench.resume(run_id, tool, judge=paid)[0].cost == 0.4
        assert {item.status for item in bench.resume(run_id, tool, judge=paid)} == {"scored"}


@pytest.mark.parametrize("reply", [refusal("No faces."), good("Rather good.")])
def test_its_refusal_is_paid_once(bench: Bench, judge: JudgeOf, reply: Reply) -> None:
    tool = Turned()
    with Server([reply, good(STARS)]) as server:
        paid = judge(server, cost=0.4)
        [item] = bench.run(bench.cases(1), tool, judge=paid, max_cost=1.0)
        for again, stars in ((False, None), (True, 4)):
            [item] = bench.resume(item.run_id, tool, judge=paid, again=again)
            assert verdicts(bench.store, [item])[0][0] == stars
        assert len(server.requests) == 2
        assert item.cost == pytest.approx(0.8)

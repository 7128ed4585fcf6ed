"""Image endpoints: what is asked of them, and what becomes of everything they do wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from image_server import (
    ImageServer,
    Reply,
    answer,
    bomb,
    encoded,
    html,
    packed,
    payload,
    refused,
    rotated,
    status,
    turned,
)
from PIL import Image
from pydantic import ValidationError
from small_benchmark import make_case

from genlab.benchmark.arrivals import Arrival, Place, keep, put_down, recovered
from genlab.benchmark.cases import Case
from genlab.benchmark.plugins import openai_images
from genlab.benchmark.plugins.base import Picture, ToolFailure
from genlab.benchmark.plugins.openai_images import DALLE3, GPT, OpenAITool

KEY = "test-key-of-nobody"
BLANK = Image.new("RGB", (64, 64))


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setenv("SMALL_KEY", KEY)
    return make_case(tmp_path / "cases", 1)


def ask(server: ImageServer, case: Case, **entry: Any) -> Picture:
    values = {"id": "small", "model": "small-1", "key_env": "SMALL_KEY", "cost": 0.5, **entry}
    return asyncio.run(OpenAITool(base_url=server.url, **values).swap(case, {}))


def place_of(case: Case, size: tuple[int, int] = (64, 64)) -> Place:
    marks = {"run": "r", "tool": "t", "case": case.case_id, "date": "d"}
    return Place(case.folder / "out.png", size, marks)


def kept(picture: Picture, case: Case, size: tuple[int, int] = (64, 64)) -> Image.Image:
    """The image as it is written to the disk."""
    place = place_of(case, size)
    keep(picture, place)
    return Image.open(place.path)


def test_template_and_avatars_are_sent_and_the_image_comes_back(case: Case) -> None:
    with ImageServer([turned()]) as server:
        picture = ask(server, case)
    [request] = server.requests
    assert request.path == "/v1/images/edits"
    assert len(request.images) == 2
    assert request.fields["model"] == "small-1"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    wanted = case.open_template().rotate(180)
    assert kept(picture, case).tobytes() == wanted.tobytes()
    with pytest.raises(ToolFailure) as failure:  # nobody answers any more
        ask(server, case)
    assert (failure.value.kind, failure.value.passing) == ("unavailable", True)


@pytest.mark.parametrize(
    ("reply", "kind", "passing"),
    [
        (status(429, {"Retry-After": "7"}), "rate_limited", True),
        (status(429, {"Retry-After": "Thu, 01 Jan 2099 00:00:00 GMT"}), "rate_limited", True),
        (status(429, {"Retry-After": "soon"}), "rate_limited", True),
        (status(429, code="insufficient_quota"), "quota", False),
        (status(500), "unavailable", True),
        (status(401, message=f"Incorrect API key provided: {KEY}"), "no_key", False),
        (status(403, message="your organization must be verified"), "unavailable", False),
        (status(404, code="model_not_found"), "retired", False),
        (status(400, message="The model `small-1` has been deprecated"), "retired", False),
        (status(418), "error", False),
        (refused(), "refused", False),
        (html(), "no_image", False),
        (packed(), "no_image", False),
        (payload({"created": 0, "data": [{"b64_json": "%%%"}]}), "no_image", False),
        (payload({"data": [{"url": "file:///etc/passwd"}]}), "no_image", False),
        (payload({"data": [{"url": "https://127.0.0.1:9/image.png"}]}), "no_image", False),
        (answer(b""), "no_image", False),
        (answer(b"GIF89a no image"), "no_image", False),
        (answer(encoded(BLANK, "JPEG")[:-200]), "no_image", False),
        (answer(encoded(BLANK.crop((0, 0, 64, 32)))), "wrong_size", False),
        (answer(bomb()), "wrong_size", False),
        (answer(bytes(100_000), tear=True), "unavailable", True),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_every_fault_is_an_outcome_of_its_kind(
    case: Case, reply: Reply, kind: str, passing: bool
) -> None:
    with ImageServer([reply]) as server, pytest.raises(ToolFailure) as failure:
        kept(ask(server, case), case)
    assert (failure.value.kind, failure.value.passing) == (kind, passing)
    assert KEY not in failure.value.reason
    assert "\n" not in failure.value.reason


def test_an_image_on_its_side_is_turned_upright(case: Case) -> None:
    left = Image.new("RGB", (64, 64), "white")
    left.paste("black", (0, 0, 32, 64))
    with ImageServer([answer(rotated(left))]) as server:
        image = kept(ask(server, case), case)
    assert image.getpixel((8, 32)) < (40, 40, 40)
    assert image.getpixel((56, 32)) > (215, 215, 215)
    assert not image.getexif()


def test_an_answer_that_a_killed_process_kept_becomes_the_image(case: Case) -> None:
    place = place_of(case)
    put_down(Picture(encoded(BLANK), cost=0.3, note="n"), place)
    found = recovered(place, "")
    assert found is not None
    assert (found.cost, found.note) == (0.3, "n")
    assert not place.answer.exists()
    assert recovered(place, "") == Arrival(found.sha256)  # by the JSON beside the image
    place.path.unlink()
    place.answer.write_bytes(b"{\nno image")
    assert recovered(place, "") is None


def test_an_image_by_address_is_fetched_and_words_alone_are_sent_where_asked(case: Case) -> None:
    def script(request: Any) -> Reply:
        return payload({"data": [{"url": f"http://{request.headers['host']}/image.png"}]})

    with ImageServer(script) as server:
        assert kept(ask(server, case, method="generate"), case).getpixel((0, 0)) == (0, 0, 128)
    [request] = server.requests
    assert (request.path, request.images) == ("/v1/images/generations", ())
    assert case.title in request.fields["prompt"]


def test_a_template_is_letterboxed_to_a_size_of_the_model_and_cut_out_again(case: Case) -> None:
    Image.new("RGB", (96, 64), "red").save(case.template)

    def same(request: Any) -> Reply:
        assert request.template().size == (64, 64)
        assert request.template().getpixel((32, 2)) == (128, 128, 128)
        return answer(request.images[0])

    with ImageServer(same) as server:
        image = kept(ask(server, case, size=["64x64", "20x90"]), case, (96, 64))
    assert server.requests[0].fields["size"] == "64x64"
    assert image.getcolors() == [(96 * 64, (255, 0, 0))]  # nothing of the border is left


def test_tokens_are_paid_for_at_the_models_price(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = {
        "input_tokens": 1100,
        "input_tokens_details": {"text_tokens": 100, "image_tokens": 1000},
        "output_tokens": 2000,
        "total_tokens": 3100,
    }
    with ImageServer([answer(encoded(BLANK), usage=usage)]) as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        picture = asyncio.run(GPT.swap(case, {"quality": "low"}))
        other = asyncio.run(GPT.swap(case, {"model": "gpt-image-unknown"}))
    assert picture.cost == pytest.approx((100 * 5 + 1000 * 8 + 2000 * 32) / 1e6)
    assert other.cost is None
    assert server.requests[0].fields["quality"] == "low"
    assert "response_format" not in server.requests[0].fields


def test_fidelity_and_extra_fields_are_sent_where_the_model_knows_them(case: Case) -> None:
    with ImageServer([turned()]) as server:
        ask(server, case, extra={"output_format": "webp"})
        ask(server, case, model="gpt-image-2.5-flare", quality="high")
    plain, newer = (request.fields for request in server.requests)
    assert (plain["input_fidelity"], plain["output_format"]) == ("high", "webp")
    assert ("input_fidelity" in newer, newer["quality"]) == (False, "high")


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ({"extra": {"n": 4}}, "n is set by a key of its name; remove it from extra"),
        ({"size": ["1024x1024", "large"]}, "such as 1024x1024"),
    ],
)
def test_an_entry_that_contradicts_itself_is_refused(entry: dict[str, Any], line: str) -> None:
    with pytest.raises(ValidationError, match=line):
        OpenAITool(id="small", model="small-1", **entry)


def test_more_images_than_a_request_takes_are_not_sent(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_images, "MAX_IMAGES", 1)
    with ImageServer([turned()]) as server, pytest.raises(ToolFailure, match="accepts 1 per"):
        ask(server, case)
    assert server.requests == []


def test_the_retired_model_is_named_and_another_can_be_asked(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ToolFailure, match="name another model") as failure:
        asyncio.run(DALLE3.swap(case, {}))
    assert failure.value.kind == "retired"
    with ImageServer([answer(encoded(BLANK))]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        asyncio.run(DALLE3.swap(case, {"model": "words-1"}))
    assert server.requests[0].fields["model"] == "words-1"

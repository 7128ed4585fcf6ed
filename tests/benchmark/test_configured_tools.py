"""Tools of every kind in tools.yaml: sound, slow and wrong answers, and faults of the file."""

import asyncio
import base64
import io
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from loopback import Reply, Server, encoded, html, payload, raw, status
from PIL import Image
from refusals import refused
from replies import Comfy, bomb, moderated, packed, turned
from replies import image as answer
from small_benchmark import make_case

from genlab.benchmark.cases import Case
from genlab.benchmark.plugins import http as http_tools
from genlab.benchmark.plugins import openai_images
from genlab.benchmark.plugins.base import ToolFailure, check_available
from genlab.benchmark.plugins.openai_images import DALLE3, GPT
from genlab.benchmark.plugins.registry import make_contenders, read_tools, write_sample
from genlab.benchmark.run.images import Destination, SavedImage, recover_image, save_image
from genlab.benchmark.store.schema import Contender

KEY = "test-key-of-nobody"
BLANK = Image.new("RGB", (64, 64))
WIDE = answer(encoded(Image.new("RGB", (128, 64), "red")))
BODY = {"prompt": "{prompt}", "image": "{template}", "faces": ["{avatar}"], "steps": "{steps}"}
WORKFLOW = {
    "1": {"class_type": "LoadImage", "inputs": {"image": "{template}"}},
    "2": {"class_type": "LoadImage", "inputs": {"image": "{avatar}"}},
    "3": {"class_type": "KSampler", "inputs": {"seed": "{seed}", "text": "{prompt}"}},
    "9": {"class_type": "SaveImage", "inputs": {"filename_prefix": "a", "images": ["3", 0]}},
}
TURN = """
import json, sys
from PIL import Image
case = json.load(open(sys.argv[1]))
Image.open(case["template"]).rotate(180).save(sys.argv[2])
"""


@pytest.fixture(autouse=True)
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    """A case beside the working directory's tools.yaml; repeated downloads do not wait."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SMALL_KEY", KEY)
    monkeypatch.setattr(http_tools, "FETCH_WAITS", (0.0, 0.0))
    return make_case(tmp_path / "cases", 1)


def write_tool(**entry: Any) -> Any:
    path = Path("tools.yaml")
    path.write_text(json.dumps({"tools": [{"id": "mine", "cost": 0.5, **entry}]}))  # also YAML
    [tool] = read_tools(path)
    return tool


def openai(server: Server, **entry: Any) -> Any:
    values = {"kind": "openai", "base_url": server.url, "model": "small-1", "key_env": "SMALL_KEY"}
    return write_tool(**{**values, **entry})


def http(server: Server, **entry: Any) -> Any:
    values: dict[str, Any] = {
        "kind": "http",
        "url": f"{server.url}/images/edits",
        "headers": {"Authorization": "Bearer ${SMALL_KEY}"},
        "options": {"steps": 30},
        "body": BODY,
        "image": "data.0.b64_json",
    }
    return write_tool(**{**values, **entry})


def comfy(server: Server, **entry: Any) -> Any:
    Path("workflow.json").write_text(json.dumps(WORKFLOW))
    return write_tool(kind="comfyui", url=server.root, workflow="workflow.json", **entry)


def program(text: str, **entry: Any) -> Any:
    Path("swap.py").write_text(text)
    argv = [sys.executable, "swap.py", "{case}", "{output}"]
    return write_tool(kind="command", argv=argv, **entry)


def make_destination(case: Case) -> Destination:
    marks = {"run": "r", "tool": "t", "case": case.case_id, "date": "d"}
    return Destination(case.folder / "out.png", case.open_template().size, marks)


def save_answer(tool: Any, case: Case, **options: Any) -> tuple[Image.Image, str]:
    """Save the image of the tool; return the saved file's image, and its note."""
    arrival = save_image(asyncio.run(tool.swap(case, options)), make_destination(case))
    return Image.open(make_destination(case).path), arrival.note


def expect_failure(tool: Any, case: Case) -> ToolFailure:
    with pytest.raises(ToolFailure) as failure:
        save_answer(tool, case)
    assert KEY not in failure.value.reason
    assert "\n" not in failure.value.reason
    return failure.value


def is_turned(image: Image.Image, case: Case) -> bool:
    return image.tobytes() == case.open_template().rotate(180).tobytes()


@pytest.mark.parametrize("make", [openai, http])
@pytest.mark.parametrize(
    ("reply", "kind", "passing"),
    [
        (status(429, {"Retry-After": "7"}), "rate_limited", True),
        (status(429, {"Retry-After": "Thu, 01 Jan 2099 00:00:00 GMT"}), "rate_limited", True),
        (status(429, code="insufficient_quota"), "quota", False),
        (status(402, message="no credit"), "quota", False),
        (status(500), "unavailable", True),
        (status(401, message=f"Incorrect API key provided: {KEY}"), "no_key", False),
        (status(403, message="your organization must be verified"), "unavailable", False),
        (status(400, message="The model `small-1` has been deprecated"), "retired", False),
        (status(418), "error", False),
        (moderated(), "refused", False),
        (html(), "no_image", False),
        (packed(), "no_image", False),
        (payload({"error": "busy"}), "no_image", False),
        (payload({"data": [{"b64_json": "file:///etc/passwd"}]}), "no_image", False),
        (payload({"data": [{"b64_json": "https://127.0.0.1:9/image.png"}]}), "unavailable", False),
        (payload({"data": [{"b64_json": "https://example.org/a.png"}]}), "no_image", False),
        (answer(b""), "no_image", False),
        (answer(encoded(BLANK, "JPEG")[:-200]), "no_image", False),
        (WIDE, "wrong_size", False),
        (answer(bomb()), "wrong_size", False),
        (answer(bytes(100_000), tear=True), "unavailable", True),
        (Reply(hang=True), "timeout", True),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_every_fault_of_a_service_is_an_outcome_of_its_kind(
    case: Case, make: Any, reply: Reply, kind: str, passing: bool
) -> None:
    with Server([reply]) as server:
        failure = expect_failure(make(server, timeout=0.4 if reply.hang else 60.0), case)
    assert (failure.kind, failure.passing) == (kind, passing)
    if (kind, passing) == ("unavailable", False) and reply.status == 200:
        assert failure.cost == 0.5  # the answer that named the image was paid for
    # A date is left to the caller's own back-off.
    wait = reply.headers.get("Retry-After")
    assert (failure.retry_after is None) == (wait is None)
    assert wait != "7" or failure.retry_after == 7


def test_http_fills_the_request_and_reads_the_image(case: Case) -> None:
    def turn(request: Any) -> Reply:
        files = request.images or [base64.b64decode(request.body["image"])]
        image = encoded(Image.open(io.BytesIO(files[0])).convert("RGB").rotate(180))
        if request.images:
            return raw(image, kind="image/png")
        return payload({"data": [{"b64_json": base64.encodebytes(image).decode()}]})  # with lines

    with Server(turn) as server:
        image, note = save_answer(http(server), case, steps="50", seed="7")
        form = {"image": "{template}", "faces": ["{avatar}"], "swaps": "{swaps}"}
        form_image, _ = save_answer(http(server, body={}, form=form, image=""), case)
    assert is_turned(image, case)
    assert is_turned(form_image, case)
    assert note == "seed 7"
    sent, multipart = server.requests
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert (sent.body["steps"], len(sent.body["faces"])) == ("50", 1)
    assert len(multipart.images) == 2
    assert json.loads(multipart.fields["swaps"])[0]["region"]["width"] == 32


@pytest.mark.parametrize(("fit", "corner"), [("letterbox", (0, 0, 0)), ("crop", (255, 0, 0))])
def test_another_shape_is_fitted_and_noted(case: Case, fit: str, corner: tuple[int, ...]) -> None:
    with Server([WIDE]) as server:
        image, note = save_answer(http(server, fit=fit), case)
    assert (image.size, image.getpixel((1, 1))) == ((64, 64), corner)
    assert note.endswith(f"{fit} from 128 × 64 pixels")


def test_an_image_by_address_is_fetched_and_words_alone_are_sent_where_asked(case: Case) -> None:
    def script(request: Any) -> Reply:
        return payload({"data": [{"url": f"http://{request.headers['host']}/image.png"}]})

    with Server(script) as server:
        server.images = [status(503), status(429)]  # fetching it again is free
        image, _ = save_answer(openai(server, method="generate"), case)
    assert image.getpixel((0, 0)) == (0, 0, 128)
    [request] = server.requests
    assert (request.path, request.images) == ("/v1/images/generations", ())
    assert case.title in request.fields["prompt"]


def test_openai_is_sent_the_images_and_the_fields_that_its_model_knows(case: Case) -> None:
    with Server([turned()]) as server:
        image, _ = save_answer(openai(server, extra={"output_format": "webp"}), case)
        save_answer(openai(server, model="gpt-image-2.5-flare", quality="high"), case)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(openai_images, "MAX_IMAGES", 1)
            assert "accepts 1 per" in expect_failure(openai(server), case).reason
    assert is_turned(image, case)
    first, second = server.requests
    assert (first.path, len(first.images)) == ("/v1/images/edits", 2)
    assert first.headers["authorization"] == f"Bearer {KEY}"
    plain = first.fields
    newer = second.fields
    assert (plain["model"], plain["response_format"]) == ("small-1", "b64_json")
    assert (plain["input_fidelity"], plain["output_format"]) == ("high", "webp")
    assert newer.keys().isdisjoint({"input_fidelity", "response_format"})
    assert newer["quality"] == "high"
    gone = expect_failure(openai(server), case)  # nobody answers any more
    assert (gone.kind, gone.passing) == ("unavailable", True)


def test_a_template_is_letterboxed_to_a_size_of_the_model_and_cut_out_again(case: Case) -> None:
    Image.new("RGB", (96, 64), "red").save(case.template)

    def same(request: Any) -> Reply:
        assert request.template().size == (64, 64)
        assert request.template().getpixel((32, 2)) == (128, 128, 128)
        return answer(request.images[0])

    with Server(same) as server:
        image, _ = save_answer(openai(server, size=["64x64", "20x90"]), case)
    assert server.requests[0].fields["size"] == "64x64"
    assert image.getcolors() == [(96 * 64, (255, 0, 0))]  # nothing of the border is left


def test_tokens_are_paid_for_at_the_models_price_and_a_retired_model_is_named(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    retired = expect_failure(DALLE3, case)
    assert (retired.kind, "name another model" in retired.reason) == ("retired", True)
    usage = {
        "input_tokens_details": {"text_tokens": 100, "image_tokens": 1000},
        "output_tokens": 2000,
    }
    with Server([answer(encoded(BLANK), usage=usage)]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        priced = asyncio.run(GPT.swap(case, {"quality": "low"}))
        unpriced = asyncio.run(DALLE3.swap(case, {"model": "words-1"}))
    assert priced.cost == pytest.approx((100 * 5 + 1000 * 8 + 2000 * 32) / 1e6)
    assert unpriced.cost is None
    assert [request.fields.get("quality") for request in server.requests] == ["low", None]
    assert server.requests[1].fields["model"] == "words-1"


def test_an_answer_that_a_killed_process_kept_becomes_the_image(case: Case) -> None:
    place = make_destination(case)
    place.answer.write_bytes(b'{"cost": 0.3, "note": "n"}\n' + encoded(BLANK))
    recovered = recover_image(place, "")
    assert recovered is not None
    assert (recovered.cost, recovered.note) == (0.3, "n")
    assert not place.answer.exists()
    assert recover_image(place, "") == SavedImage(recovered.sha256)  # by the JSON beside the image
    place.path.with_suffix(".json").write_text("")
    assert recover_image(place, recovered.sha256) == SavedImage(recovered.sha256)
    assert recover_image(place, "") is None
    place.path.unlink()
    place.answer.write_bytes(b"{\nno image")
    assert recover_image(place, "") is None


def test_a_program_gets_files_and_writes_one(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_SECRET", "x" * 20)
    check = "import os\nassert 'OTHER_SECRET' not in os.environ and os.environ['SMALL_KEY']\n"
    image, _ = save_answer(program(check + TURN, env=["SMALL_KEY"]), case)
    assert is_turned(image, case)


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("raise SystemExit('no face found\\n\\n')", "error", "exit status 1: no face found"),
        ("import os; raise SystemExit(os.environ['LOGIN'])", "error", "exit status 1: [redacted]"),
        ("pass", "no_image", "no file"),
        ("import sys; open(sys.argv[2], 'w').write('<html>')", "no_image", "<html>"),
    ],
)
def test_a_wrong_program_is_an_outcome(
    case: Case, monkeypatch: pytest.MonkeyPatch, text: str, kind: str, reason: str
) -> None:
    monkeypatch.setenv("LOGIN", KEY)
    failure = expect_failure(program(text, env=["LOGIN"]), case)
    assert (failure.kind, reason in failure.reason) == (kind, True)
    assert failure.cost == (None if "html" in text else 0.5)  # None: the charge stays


def test_a_hanging_program_is_killed_with_its_children(case: Case) -> None:
    pid = Path("pid")
    fork = "import os, time\nchild = os.fork()\nif child: open('pid', 'w').write(str(child))"
    failure = expect_failure(program(fork + "\ntime.sleep(600)", timeout=1.5), case)
    assert failure.kind == "timeout"
    state = Path(f"/proc/{pid.read_text()}/stat")
    for _ in range(50):
        if not state.exists() or state.read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    os.kill(int(pid.read_text()), 9)
    pytest.fail("the child still runs")


@pytest.mark.parametrize("fault", ["", "busy"])
def test_a_workflow_is_queued_once_and_its_image_fetched(case: Case, fault: str) -> None:
    queue = Comfy(fault)
    with Server(comfy=queue) as server:
        image, _ = save_answer(comfy(server), case, seed="5")
    assert is_turned(image, case)
    [prompt] = queue.prompts
    assert prompt["3"]["inputs"]["seed"] == 5
    assert {prompt["1"]["inputs"]["image"], prompt["2"]["inputs"]["image"]} == {*queue.uploads}


def test_a_workflow_that_the_server_did_before_yields_its_image_again(case: Case) -> None:
    queue = Comfy("cached")
    with Server(comfy=queue) as server:
        tool = comfy(server)
        assert all(is_turned(save_answer(tool, case, seed="5")[0], case) for _ in range(2))
    first, second = (prompt["9"]["inputs"] for prompt in queue.prompts)
    assert first["filename_prefix"] != second["filename_prefix"]
    assert first["images"] == second["images"] == ["3", 0]


@pytest.mark.parametrize("links", [[], [[1, 1, 0, 2, 0, "IMAGE"]]])
def test_a_workflow_of_comfyuis_page_is_named_with_its_fix(links: list[Any]) -> None:
    node = {"id": 1, "type": "LoadImage", "widgets_values": ["a.png", "image"]}
    saved = {"version": 0.4, "last_node_id": 1, "nodes": [node], "links": links}
    Path("page.json").write_text(json.dumps(saved))
    tool = write_tool(kind="comfyui", url="http://127.0.0.1:1", workflow="page.json")
    assert "of ComfyUI's page" in tool.unavailable()
    assert "Export (API)" in tool.unavailable()


@pytest.mark.parametrize(
    ("fault", "kind", "reason"),
    [
        ("rejected", "error", "node 4 (CheckpointLoaderSimple): Value not in list ckpt_name"),
        ("node", "error", "node 3 (KSampler): out of memory"),
        ("two", "no_image", "saved 2 images"),
        ("html", "no_image", "JSON"),
        ("endless", "timeout", "1 seconds"),
    ],
)
def test_a_wrong_workflow_is_an_outcome(case: Case, fault: str, kind: str, reason: str) -> None:
    queue = Comfy(fault)
    with Server(comfy=queue) as server:
        failure = expect_failure(comfy(server, timeout=1.0 if fault == "endless" else 60.0), case)
    assert (failure.kind, reason in failure.reason) == (kind, True)
    assert queue.deleted == (["p1"] if fault in ("endless", "html") else [])


def test_the_sample_is_valid_and_every_example_in_it() -> None:
    path = Path("runs/tools.yaml")
    write_sample(path)
    assert read_tools(path) == []
    lines = path.read_text().splitlines()
    examples = [line[1:] for line in lines if line.startswith("#  ")]
    path.write_text("\n".join(["tools:", *examples]) + "\n")
    kinds = [getattr(tool, "kind", "") for tool in read_tools(path)]
    assert kinds == ["openai", "http", "command", "comfyui"]
    with refused(path):
        write_sample(path)


GOOD = """\
tools:
  - id: mine
    kind: http
    url: http://127.0.0.1:9/swap
    headers: {Authorization: "Bearer ${SMALL_KEY}"}
    body: {prompt: "{prompt}"}
"""
OPENAI = "tools: [{id: mine, kind: openai, model: m, %s}]"


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("url:", "urll:", "tools.0.http.urll"),
        ("http://127.0.0.1:9", "http://[", "url must start"),
        ("${SMALL_KEY}", "abc", "headers.Authorization"),
        ("{prompt}", "{promt}", "prompt"),
        ("mine", "My Tool", "id"),
        ("{prompt: ", "{day: 2026-01-31, prompt: ", "body.day"),
        ("{prompt: ", "{weight: .nan, prompt: ", "body.weight"),
        ("body:", "options: {weight: .inf}\n    body:", "options.weight"),
        (GOOD, OPENAI % "extra: {n: 4}", "extra"),
        (GOOD, OPENAI % "size: [1024x1024, large]", "large"),
    ],
)
def test_a_fault_of_the_file_is_one_line_with_its_place(old: str, new: str, named: str) -> None:
    path = Path("tools.yaml")
    path.write_text(GOOD.replace(old, new))
    with refused(path, named):
        read_tools(path)


def test_a_number_may_have_an_exponent_and_text_may_look_like_a_switch() -> None:
    path = Path("tools.yaml")
    path.write_text(
        f"{GOOD}    cost: 1e-3\n    title: on\n    options: {{upscale: off, level: 010}}\n"
    )
    [tool] = read_tools(path)
    assert (tool.cost, tool.title) == (0.001, "on")
    assert tool.model_dump()["options"] == {"upscale": "off", "level": 10}


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        ("cost: '1e-3'", "without quotes"),
        ("concurrency: '2'", "without quotes"),
        ("title: 12", "in quotes"),
        ("version: 2026-01-31", "in quotes"),
        ("title: true", "in quotes"),
    ],
)
def test_a_value_with_quotes_too_many_or_too_few_is_refused_with_the_fix(
    line: str, fix: str
) -> None:
    path = Path("tools.yaml")
    path.write_text(f"{GOOD}    {line}\n")
    with refused(path, line.partition(":")[0], fix):
        read_tools(path)


PASTED = "words-of-a-key"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (OPENAI % f"key_env: {PASTED}", "key_env"),
        (GOOD.replace("{Auth", f"{{X: [{PASTED}], Auth"), "headers.X"),
        (GOOD.replace("http\n", "htttp\n").replace("${SMALL_KEY}", PASTED), "htttp"),
        (f"{GOOD}    key_env: {PASTED}: x\n", "YAML"),
        (OPENAI % f"size: {KEY}", "size"),
    ],
)
def test_a_fault_of_the_file_never_quotes_a_key(text: str, named: str) -> None:
    Path("tools.yaml").write_text(text)
    with refused(named) as error:
        read_tools(Path("tools.yaml"))
    assert not any(key in str(error.value) for key in (PASTED, KEY))


def test_a_contender_changes_with_options_and_configuration() -> None:
    def made(tool: Any, **options: str) -> Contender:
        [contender] = make_contenders([tool], {"mine": options})
        return contender

    plain = made(program(TURN))
    renamed = made(program(TURN, title="Another title", cost=9.0))
    edited = made(program(TURN + "\n"))
    seeded = made(program(TURN), seed="3")
    assert plain.contender_id == renamed.contender_id
    assert len({entrant.contender_id for entrant in (plain, renamed, edited, seeded)}) == 3
    assert seeded.label == "mine (seed=3)"
    service = {
        "kind": "http",
        "url": "http://127.0.0.1:9",
        "options": {"steps": 30, "words": "x", "w": 1.5},
    }
    numbered = write_tool(body=BODY, **service)
    with_options = made(numbered, steps="50", words="7")
    assert with_options.options == {"steps": 50, "words": "7"}
    for name, value in (("steps", "many"), ("w", "nan")):
        with refused(name, "mine", value):
            made(numbered, **{name: value})


@pytest.mark.parametrize(
    ("variable", "value", "kind"),
    [
        ("SMALL_KEY", "", "no_key"),
        ("SMALL_KEY", "two words", "no_key"),
        ("OPENAI_BASE_URL", "nowhere", "unavailable"),
    ],
)
def test_a_key_or_address_that_cannot_be_used_is_no_fault_of_the_model(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, kind: str
) -> None:
    monkeypatch.setenv(variable, value)
    tool = write_tool(kind="openai", model="m", key_env="SMALL_KEY")
    faulty = check_available(tool if value else program(TURN, env=[variable]))
    assert faulty is not None
    assert (faulty.kind, variable in faulty.reason) == (kind, True)


def test_a_tilde_before_a_program_or_a_workflow_is_the_home_folder(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (home / "swap.py").write_text(TURN)
    argv = [sys.executable, "~/swap.py", "{case}", "{output}"]
    assert is_turned(save_answer(write_tool(kind="command", argv=argv), case)[0], case)
    (home / "workflow.json").write_text(json.dumps(WORKFLOW))
    tool = write_tool(kind="comfyui", url="http://127.0.0.1:1", workflow="~/workflow.json")
    assert tool.nodes == WORKFLOW

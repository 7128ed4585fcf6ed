"""The kinds http, command and comfyui of tools.yaml, sound, slow and wrong; faults of the file."""

from __future__ import annotations

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
from comfy_server import ComfyServer
from image_server import ImageServer, Reply, answer, bomb, encoded, html, payload, raw, status
from PIL import Image
from small_benchmark import make_case

from genlab.benchmark.arrivals import Place, keep
from genlab.benchmark.cases import Case
from genlab.benchmark.plugins.base import ToolFailure, absence
from genlab.benchmark.plugins.registry import contender_of, read_tools, write_sample
from genlab.core.errors import GenlabError

KEY = "test-key-of-nobody"
BLANK = Image.new("RGB", (64, 64))
WIDE = answer(encoded(Image.new("RGB", (128, 64), "red")))
BODY = {"prompt": "{prompt}", "image": "{template}", "faces": ["{avatar}"], "steps": "{steps}"}
WORKFLOW = {
    "1": {"class_type": "LoadImage", "inputs": {"image": "{template}"}},
    "2": {"class_type": "LoadImage", "inputs": {"image": "{avatar}"}},
    "3": {"class_type": "KSampler", "inputs": {"seed": "{seed}", "text": "{prompt}"}},
}
TURN = """
import json, sys
from PIL import Image
case = json.load(open(sys.argv[1]))
Image.open(case["template"]).rotate(180).save(sys.argv[2])
"""


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setenv("SMALL_KEY", KEY)
    return make_case(tmp_path / "cases", 1)


def tool_of(folder: Path, **entry: Any) -> Any:
    path = folder / "tools.yaml"
    path.write_text(json.dumps({"tools": [{"id": "mine", "cost": 0.5, **entry}]}))  # also YAML
    [tool] = read_tools(path)
    return tool


def http(server: ImageServer, folder: Path, **entry: Any) -> Any:
    values: dict[str, Any] = {
        "kind": "http",
        "url": f"{server.url}/images/edits",
        "headers": {"Authorization": "Bearer ${SMALL_KEY}"},
        "options": {"steps": 30},
        "body": BODY,
        "image": "data.0.b64_json",
    }
    return tool_of(folder, **{**values, **entry})


def comfy(server: ComfyServer, folder: Path, **entry: Any) -> Any:
    (folder / "workflow.json").write_text(json.dumps(WORKFLOW))
    return tool_of(folder, kind="comfyui", url=server.url, workflow="workflow.json", **entry)


def program(folder: Path, text: str, **entry: Any) -> Any:
    (folder / "swap.py").write_text(text)
    argv = [sys.executable, "swap.py", "{case}", "{output}"]
    return tool_of(folder, kind="command", argv=argv, **entry)


def kept(tool: Any, case: Case, **options: Any) -> tuple[Image.Image, str]:
    """The image as it is written to disk, and its note."""
    marks = {"run": "r", "tool": "t", "case": case.case_id, "date": "d"}
    place = Place(case.folder / "out.png", (64, 64), marks)
    arrival = keep(asyncio.run(tool.swap(case, options)), place)
    return Image.open(place.path), arrival.note


def failure_of(tool: Any, case: Case) -> ToolFailure:
    with pytest.raises(ToolFailure) as failure:
        kept(tool, case)
    assert KEY not in failure.value.reason
    return failure.value


def is_turned(image: Image.Image, case: Case) -> bool:
    return image.tobytes() == case.open_template().rotate(180).tobytes()


def test_http_fills_the_request_and_reads_the_image(tmp_path: Path, case: Case) -> None:
    def turn(request: Any) -> Reply:
        files = request.images or [base64.b64decode(request.body["image"])]
        image = Image.open(io.BytesIO(files[0])).convert("RGB")
        return answer(encoded(image.rotate(180)))

    with ImageServer(turn) as server:
        image, note = kept(http(server, tmp_path), case, steps="50", seed="7")
        form = {"image": "{template}", "faces": ["{avatar}"], "swaps": "{swaps}"}
        other, _ = kept(http(server, tmp_path, body={}, form=form), case)
    assert is_turned(image, case)
    assert is_turned(other, case)
    assert note == "seed 7"
    sent, multipart = server.requests
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert (sent.body["steps"], len(sent.body["faces"])) == ("50", 1)
    assert len(multipart.images) == 2
    assert json.loads(multipart.fields["swaps"])[0]["region"]["width"] == 32


@pytest.mark.parametrize(
    ("reply", "kind", "retry"),
    [
        (status(429, {"Retry-After": "7"}), "rate_limited", 7.0),
        (status(402, message="no credit"), "quota", None),
        (status(401, message=f"wrong key {KEY}"), "no_key", None),
        (status(400, code="content_filter"), "refused", None),
        (status(503), "unavailable", None),
        (html(), "no_image", None),
        (payload({"error": "busy"}), "no_image", None),
        (payload({"data": [{"b64_json": "https://example.org/a.png"}]}), "no_image", None),
        (answer(encoded(BLANK)[:-40]), "no_image", None),
        (answer(bomb()), "wrong_size", None),
        (WIDE, "wrong_size", None),
        (Reply(hang=True), "timeout", None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_service_is_an_outcome_of_its_kind(
    tmp_path: Path, case: Case, reply: Reply, kind: str, retry: float | None
) -> None:
    with ImageServer([reply]) as server:
        limit = 0.4 if reply.hang else 10.0
        failure = failure_of(http(server, tmp_path, timeout=limit), case)
    assert (failure.kind, failure.retry_after) == (kind, retry)


@pytest.mark.parametrize(("fit", "corner"), [("letterbox", (0, 0, 0)), ("crop", (255, 0, 0))])
def test_another_aspect_ratio_is_fitted_and_noted(
    tmp_path: Path, case: Case, fit: str, corner: tuple[int, ...]
) -> None:
    with ImageServer([WIDE]) as server:
        image, note = kept(http(server, tmp_path, fit=fit), case)
    assert (image.size, image.getpixel((1, 1))) == ((64, 64), corner)
    assert note.endswith(f"{fit} from 128 × 64 pixels")


def test_an_answer_without_json_is_the_image(tmp_path: Path, case: Case) -> None:
    with ImageServer([raw(encoded(BLANK), kind="image/png")]) as server:
        image, _ = kept(http(server, tmp_path, image=""), case)
    assert image.getcolors() == [(64 * 64, (0, 0, 0))]


def test_a_program_gets_files_and_writes_one(
    tmp_path: Path, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_SECRET", "x" * 20)
    check = "import os\nassert 'OTHER_SECRET' not in os.environ and os.environ['SMALL_KEY']\n"
    image, _ = kept(program(tmp_path, check + TURN, env=["SMALL_KEY"]), case)
    assert is_turned(image, case)


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("raise SystemExit('no face found\\n\\n')", "error", "exit status 1: no face found"),
        ("pass", "no_image", "no file"),
        ("import sys; open(sys.argv[2], 'w').write('<html>')", "no_image", "<html>"),
    ],
)
def test_a_wrong_program_is_an_outcome(
    tmp_path: Path, case: Case, text: str, kind: str, reason: str
) -> None:
    failure = failure_of(program(tmp_path, text), case)
    assert failure.kind == kind
    assert reason in failure.reason


def test_a_hanging_program_is_killed_with_its_children(tmp_path: Path, case: Case) -> None:
    pid = tmp_path / "pid"
    fork = (
        f"import os, time\nchild = os.fork()\nif child: open({str(pid)!r}, 'w').write(str(child))"
    )
    failure = failure_of(program(tmp_path, fork + "\ntime.sleep(600)", timeout=1.5), case)
    assert failure.kind == "timeout"
    state = Path(f"/proc/{pid.read_text()}/stat")
    for _ in range(50):
        if not state.exists() or state.read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    os.kill(int(pid.read_text()), 9)
    pytest.fail("the child still runs")


def test_a_workflow_is_queued_and_its_image_fetched(tmp_path: Path, case: Case) -> None:
    with ComfyServer() as server:
        image, _ = kept(comfy(server, tmp_path), case, seed="5")
    assert is_turned(image, case)
    [prompt] = server.prompts
    assert prompt["3"]["inputs"]["seed"] == 5
    assert {prompt["1"]["inputs"]["image"], prompt["2"]["inputs"]["image"]} == {*server.uploads}


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
def test_a_wrong_workflow_is_an_outcome(
    tmp_path: Path, case: Case, fault: str, kind: str, reason: str
) -> None:
    with ComfyServer(fault) as server:
        failure = failure_of(comfy(server, tmp_path, timeout=1.0), case)
    assert failure.kind == kind
    assert reason in failure.reason
    assert server.deleted == (["p1"] if fault == "endless" else [])


def test_the_sample_is_valid_and_every_example_in_it(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "tools.yaml"
    write_sample(path)
    assert read_tools(path) == []
    lines = path.read_text().splitlines()
    examples = [line[1:] for line in lines if line.startswith("#  ")]
    path.write_text("\n".join(["tools:", *examples]) + "\n")
    kinds = [getattr(tool, "kind", "") for tool in read_tools(path)]
    assert kinds == ["openai", "http", "command", "comfyui"]
    with pytest.raises(GenlabError, match="exists"):
        write_sample(path)


GOOD = """\
tools:
  - id: mine
    kind: http
    url: http://127.0.0.1:9/swap
    headers: {Authorization: "Bearer ${SMALL_KEY}"}
    body: {prompt: "{prompt}"}
"""


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("url:", "urll:", "tools.0.http.urll"),
        ("kind: http", "kind: htttp", "tools.0"),
        ("http://", "ftp://", "url must start"),
        ("http://127.0.0.1:9", "http://[", "url must start"),
        ("${SMALL_KEY}", "abc", "headers.Authorization"),
        ("{prompt}", "{promt}", "did you mean prompt"),
        ("body:", "timeout: -1\n    body:", "timeout"),
        ("body: {prompt: ", "fit: {x: ", "fit"),
        ("mine", "My Tool", "id"),
        ("tools:", "tools: [", "YAML"),
        ("mine", "\udcff", "UTF-8"),
        (GOOD, "[]", "keys and values"),
    ],
)
def test_a_fault_of_the_file_is_one_line_with_its_place(
    tmp_path: Path, old: str, new: str, named: str
) -> None:
    path = tmp_path / "tools.yaml"
    path.write_bytes(GOOD.replace(old, new).encode("utf-8", "surrogateescape"))
    with pytest.raises(GenlabError, match=named) as error:
        read_tools(path)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_a_contender_changes_with_model_options_and_configuration(
    tmp_path: Path, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = contender_of(program(tmp_path, TURN), {})
    renamed = contender_of(program(tmp_path, TURN, title="Another title", cost=9.0), {})
    edited = contender_of(program(tmp_path, TURN + "\n"), {})
    seeded = contender_of(program(tmp_path, TURN), {"seed": "3"})
    assert plain.contender_id == renamed.contender_id
    assert len({one.contender_id for one in (plain, renamed, edited, seeded)}) == 3
    assert seeded.label == "mine (seed=3)"
    tool = program(tmp_path, TURN, env=["SMALL_KEY"])
    monkeypatch.delenv("SMALL_KEY")
    missing = absence(tool)
    assert missing is not None
    assert (missing.kind, "SMALL_KEY" in missing.reason) == ("no_key", True)

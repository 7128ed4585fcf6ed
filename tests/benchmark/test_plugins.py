"""Image tools: installed ones, those of a file, and classes that are no valid tool."""

import asyncio
import zlib
from pathlib import Path
from typing import Any

import PIL
import pytest
from PIL import ImageOps
from refusals import refused
from small_benchmark import Turned, make_case, write_package

from genlab.benchmark.plugins.base import ToolFailure
from genlab.benchmark.plugins.registry import convert_options, load_tools, tool_version


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the runs/tools.yaml of whoever runs the tests; import packages from the folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_the_example_adds_a_tool(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = root / "examples" / "image_tool_plugin"
    assert 'mirror = "mirror_tool:Mirror"' in (example / "pyproject.toml").read_text()
    write_package(Path(), "mirror", "", "mirror = mirror_tool:Mirror")
    monkeypatch.syspath_prepend(str(example / "src"))
    tool = load_tools()["mirror"]
    case = make_case(Path("cases"), 1)
    for options, mirrored in (({}, ImageOps.mirror), ({"axis": "vertical"}, ImageOps.flip)):
        image = asyncio.run(tool.swap(case, convert_options(tool, options)))
        assert image.tobytes() == mirrored(case.open_template()).tobytes()


@pytest.mark.parametrize(
    "body",
    [
        "import nothing_of_that_name",
        "Tool = dict",
        "from small_benchmark import Turned\nclass Tool(Turned):\n    tool_id = 'Bad Id'",
        "from small_benchmark import Turned\nclass Tool(Turned):\n    tool_id = 'baseline_local'",
    ],
)
def test_a_faulty_tool_is_reported_with_its_package(body: str) -> None:
    name = f"faulty{zlib.crc32(body.encode())}"
    write_package(Path(), name, body, f"{name} = {name}:Tool")
    with refused(name):
        load_tools()


def test_a_file_adds_tools_and_gives_a_baseline_an_address() -> None:
    Path("runs").mkdir()
    entry = "{id: %s, kind: openai, model: m, base_url: 'http://127.0.0.1:9/v1'}"
    text = f"tools: [{entry % 'mine'}, {entry % 'baseline_dalle3'}]\n"
    Path("runs/tools.yaml").write_text(text)
    tools = load_tools()
    assert tools["mine"].needs.network
    assert tools["mine"].needs.cost == 0.25  # never free by an omission
    assert tools["baseline_dalle3"].unavailable() == ""
    second = Path("other.yaml")
    gpt = entry % "baseline_gpt"
    for entries, named in ((entry % "control_pasted", "pasted"), (f"{gpt}, {gpt}", "baseline_gpt")):
        second.write_text(f"tools: [{entries}]\n")
        with refused(named):
            load_tools(second)


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [("sad", {}), ("refused", {"cost": -1.0}), ("refused", {"retry_after": float("nan")})],
)
def test_a_failure_of_no_kind_is_a_fault_of_the_tool(kind: Any, numbers: dict[str, float]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        ToolFailure(kind, "why", **numbers)


def test_a_tool_without_a_version_has_that_of_its_package() -> None:
    class Installed(Turned):
        pass

    assert tool_version(Installed()) == ""
    Installed.__module__ = "PIL.tool"
    assert tool_version(Installed()) == f"pillow {PIL.__version__}"
    assert tool_version(Installed(version="2 with settings")) == "2 with settings"

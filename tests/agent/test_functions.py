"""The tools as a language model sees them: schemas from signatures, and calls that answer."""

import inspect
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_runs import GOAL, settings
from jsonschema import Draft202012Validator

from genlab.agent import tools
from genlab.agent.library.toolbox import Toolbox, bind_toolbox
from genlab.agent.tools.functions import MAX_RESULT, call, function_schemas
from genlab.agent.workspace import create_project


@pytest.fixture
def _tools(tmp_path: Path) -> Iterator[None]:
    workspace = create_project(tmp_path / "demo", GOAL)
    with Toolbox(workspace, settings(GOAL)) as toolbox, bind_toolbox(toolbox):
        yield


@pytest.mark.parametrize("task", ["classify", "generate"])
def test_schemas_are_those_of_the_signatures(task: str) -> None:
    schemas = function_schemas(task)
    assert [schema["function"]["name"] for schema in schemas] == list(tools.TOOLS)
    for schema in schemas:
        function = schema["function"]
        signature = inspect.signature(tools.TOOLS[function["name"]])
        Draft202012Validator.check_schema(function["parameters"])
        assert list(function["parameters"]["properties"]) == list(signature.parameters)
        assert len(function["description"]) > 40
    functions = [schema["function"] for schema in schemas]
    parameters = {function["name"]: function["parameters"] for function in functions}
    assert parameters["read_file"]["required"] == ["file_path"]
    assert parameters["python_run"]["required"] == ["script_path"]  # and *args, which may be empty
    assert "required" not in parameters["list_directory"]
    model_config = parameters["pytorch_model_assembler"]["properties"]["model_config"]
    assert ("latent_dim" in model_config["properties"]) == (task == "generate")


@pytest.mark.usefixtures("_tools")
def test_calls_return_text_or_json_of_bounded_length() -> None:
    assert call("write_file", {"file_path": "a.txt", "content": "\x1b[31mred\u202e"}) == "done"
    assert call("read_file", {"file_path": "a.txt"}) == "red"
    assert "src/" in json.loads(call("list_directory", {}))
    call("write_file", {"file_path": "a.txt", "content": "x" * (MAX_RESULT + 1)})
    assert call("read_file", {"file_path": "a.txt"}).endswith(f"cut at {MAX_RESULT} characters]")


@pytest.mark.usefixtures("_tools")
@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("rm", {}, "no tool is called 'rm'; name one of read_file"),
        ("read_file", {}, "read_file: file_path is missing"),
        ("read_file", {"file_paht": "a"}, "did you mean file_path?"),
        ("write_file", {"file_path": "numpy.py", "content": ""}, "source code belongs in src"),
        ("python_run", {"script_path": "x.py", "args": "word"}, "args"),
    ],
)
def test_what_a_caller_did_wrong_is_an_error_of_one_line(
    name: str, arguments: dict[str, object], words: str
) -> None:
    result = call(name, arguments)
    assert result.startswith("error: ")
    assert "\n" not in result
    assert words in result

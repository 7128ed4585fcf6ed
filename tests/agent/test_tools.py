"""Nine tools with the issue's signatures, on a workspace that nothing they leave can subvert."""

import contextvars
import inspect
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_runs import GOAL, ScriptedModel, settings, write_params
from sandboxes import MODES, needs_sandbox

from genlab.agent import tools
from genlab.agent.evaluator.model_evaluator import ModelEvaluator
from genlab.agent.library.toolbox import Toolbox, bind_toolbox
from genlab.agent.registry import Registry
from genlab.agent.tools import functions
from genlab.agent.tools.files import find_fault
from genlab.agent.workspace import CONFIG, MODEL, PROJECT, Workspace, create_project
from genlab.core.errors import GenlabError
from genlab.llm.chat import BudgetSpentError

SIGNATURES = """
read_file(file_path: str) -> str
write_file(file_path: str, content: str) -> None
bash_run(command: str) -> str
python_run(script_path: str, *args: str) -> str
list_directory(path: str = '.', recursive: bool = False) -> list[str]
create_pytorch_project_scaffold(project_name: str, base_dir: str = '.') -> None
pytorch_model_assembler(model_config: dict[str, Any], output_script_path: str) -> None
pytorch_model_summary(model_script_path: str, model_class_name: str, input_size: tuple[int, ...]) -> dict[str, Any]
pytorch_quick_evaluator(model_script_path: str, model_class_name: str, eval_config: dict[str, Any]) -> dict[str, Any]
"""
LIMITS = {"examples": 600, "subset": 300, "validation": 100, "max_parameters": 20_000}
LAYERS = [{"type": "Conv2d", "out_channels": 4, "kernel_size": 5}, {"type": "ReLU"}]
CODE = """from torch import nn
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(256, 4)
    def forward(self, x):
        return self.head(x.flatten(1))
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolbox]:
    needs_sandbox()
    base = tmp_path_factory.mktemp("base")
    chosen = replace(settings(GOAL, **LIMITS), data=base / "data")
    with Toolbox(create_project(base / "workspaces/demo", GOAL), chosen) as toolbox:
        yield toolbox


@pytest.fixture
def box(shared: Toolbox) -> Iterator[Toolbox]:
    with bind_toolbox(shared):
        yield shared


@pytest.fixture
def place(box: Toolbox) -> Path:
    return box.workspace.root


def _refused(call: Callable[[], object], words: str) -> None:
    with pytest.raises(GenlabError, match=words):
        call()


def _tree(folder: Path) -> dict[Path, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {path: path.read_bytes() for path in files}


def change(box: Toolbox, **params: Any) -> Toolbox:
    """A toolbox on the same workspace with other parameters."""
    changed = box.params.model_copy(update=params)
    return Toolbox(box.workspace, replace(box.settings, params=changed))


def test_signatures_are_the_promised_ones() -> None:
    signatures = [f"{name}{inspect.signature(tool)}" for name, tool in tools.TOOLS.items()]
    assert "\n".join(signatures).replace("'", "") == SIGNATURES.strip().replace("'", "")


def test_what_is_written_is_read_and_listed(place: Path) -> None:
    tools.write_file("notes/a.txt", "one ½\r\n")
    assert tools.read_file("notes/a.txt") == "one ½\r\n"
    assert tools.read_file(str(place / "notes/a.txt")) == "one ½\r\n"
    assert tools.list_directory("notes") == ["notes/a.txt"]
    assert "experiments/" in tools.list_directory()
    assert str(MODEL) in tools.list_directory(recursive=True)


@pytest.mark.parametrize("path", ["../x", "src/../../x", "/etc/passwd", "link/x", "a\0b"])
def test_no_path_leads_out(place: Path, path: str) -> None:
    if not (place / "link").is_symlink():
        (place / "link").symlink_to(place.parent)
    for call in (
        lambda: tools.read_file(path),
        lambda: tools.write_file(path, "x"),
        lambda: tools.list_directory(path),
        lambda: tools.python_run(path),
        lambda: tools.pytorch_model_assembler({"layers": LAYERS}, path),
        lambda: tools.pytorch_model_summary(path, "M", (1, 16, 16)),
        lambda: tools.pytorch_quick_evaluator(path, "M", {}),
    ):
        _refused(call, "leads out of the workspace|is no path")
    (place / "link").unlink()


WRITABLE = (
    "src/a.py", "src/models/own.py", "src/run.sh", "a.txt", "logs/b.json", "requirements.txt",
)  # fmt: skip
FORBIDDEN = (
    "experiments/registry.json", "experiments", PROJECT, "transcript.jsonl", "params.yaml",
    "search/x.txt", ".packages/x.txt", ".", "numpy.py", "genlab.py", "torch/__init__.py",
    "src/numpy.py", "src/torch/__init__.py", "src/models/genlab.py", "src/sitecustomize.py",
    "src/PIL/__init__.py", "src/models/numpy/__init__.py", "a.so", "a.pyc", "a.pth", "src/__pycache__/a.py", "a/.git/config.txt", "Makefile",
    "sub/dvc.yaml", "src/a/project.json", "configs/x.pkl", "a\x1b[2J.txt", "a\u202e.txt",
)  # fmt: skip


@pytest.mark.usefixtures("box")
def test_nothing_is_written_that_runs_by_itself_or_is_the_evaluators() -> None:
    assert [path for path in WRITABLE if find_fault(Path(path))] == []
    for path in FORBIDDEN:
        _refused(lambda path=path: tools.write_file(path, "x"), "choose|may be written")


def test_a_project_is_made_once_and_never_over_another(place: Path) -> None:
    tools.create_pytorch_project_scaffold("second")
    assert (place.parent / "second/experiments/registry.json").read_text() == "[]\n"
    models = ("src/models/current_model.py", "configs/models/current_model_config.yaml")
    for name in (*models, "requirements.txt", PROJECT):
        assert (place.parent / "second" / name).is_file()
    _refused(lambda: tools.create_pytorch_project_scaffold("second"), "isn't empty")
    _refused(lambda: tools.create_pytorch_project_scaffold("x", "docs"), "leave it out")


def test_tools_find_the_nearest_workspace_with_the_parameters_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unbound = contextvars.Context()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GenlabError, match="create_pytorch_project_scaffold"):
        unbound.run(tools.list_directory)
    unbound.run(tools.create_pytorch_project_scaffold, "alone")
    write_params(tmp_path, backend="openai", base_url="http://127.0.0.1:9/v1")
    monkeypatch.chdir(tmp_path / "alone/src")
    assert "src/" in unbound.run(tools.list_directory)
    with Toolbox.from_workspace(Workspace(tmp_path / "alone")) as toolbox:
        assert toolbox.goal.dataset == "fashion_mnist"
        assert toolbox.settings.data == tmp_path / "data"
        assert toolbox.backend is not None
        assert toolbox.without_backend().backend is None
    assert (tmp_path / "alone/tools.jsonl").exists()


def test_a_command_works_on_files_of_the_workspace(place: Path) -> None:
    assert tools.bash_run("echo out; echo err >&2; exit 3") == "out\nerr\n[exit code 3]"
    tools.write_file("old.txt", "old")
    tools.write_file("kind/of.txt", "folder")
    assert tools.bash_run("mkdir -p a/b; pwd > a/b/c.txt; rm old.txt; rm -r kind") == (
        "[exit code 0]"
    )
    assert (place / "a/b/c.txt").exists()
    assert not (place / "old.txt").exists()
    assert not (place / "kind").exists()
    assert "genlab-command" not in tools.bash_run("cat missing; pwd")
    assert tools.bash_run("printf 'a\\033[31mb\\u202ec\\n'") == "abc\n[exit code 0]"


@pytest.mark.usefixtures("box")
def test_a_script_runs_with_its_arguments_and_neighbours() -> None:
    tools.write_file("src/scripts/near.py", "WORD = 'near'\n")
    tools.write_file("src/far.py", "WORD = 'far'\n")
    tools.write_file(
        "src/scripts/go.py", "import sys, near, far\nprint(near.WORD, far.WORD, sys.argv)\n"
    )
    output = tools.python_run("src/scripts/go.py", "a b", "$HOME")
    assert output == "near far ['src/scripts/go.py', 'a b', '$HOME']\n[exit code 0]"
    tools.write_file("src/bad.py", "1 / 0\n")
    assert "ZeroDivisionError" in tools.python_run("src/bad.py")


LOADER = """
import sys, torch
from torch.utils.data import DataLoader
for batch in DataLoader(torch.arange(6), 2, num_workers=int(sys.argv[1])):
    print(batch.tolist())
"""


@pytest.mark.parametrize("mode", MODES)
def test_a_script_loads_data_without_workers(shared: Toolbox, mode: str) -> None:
    needs_sandbox(mode)
    with bind_toolbox(change(shared, sandbox=mode)):
        tools.write_file("src/load.py", LOADER)
        batches = "[0, 1]\n[2, 3]\n[4, 5]\n[exit code 0]"
        assert tools.python_run("src/load.py", "0") == batches
        warning = "DataLoader: num_workers=0, the sandbox has no workers\n"
        assert tools.bash_run("python src/load.py 2").endswith(warning + batches)


PLANTED = """
import os
import socket
for name in ("numpy", "genlab", "torch", "os", "sitecustomize"):
    for place in (".", "src", "src/scripts"):
        os.makedirs(f"{place}/{name}", exist_ok=True)
        for path in (f"{name}.py", f"{name}.pyc", f"{name}.so", f"{name}.pth", f"{name}/__init__.py"):
            open(f"{place}/{path}", "w").write("print('planted')")
os.makedirs("__pycache__")
open("__pycache__/numpy.cpython-311.pyc", "w").write("x")
"""


@pytest.mark.parametrize("mode", MODES)
def test_a_script_leaves_nothing_that_is_imported_later(shared: Toolbox, mode: str) -> None:
    needs_sandbox(mode)
    place = shared.workspace.root
    with bind_toolbox(change(shared, sandbox=mode)):
        tools.write_file("src/plant.py", PLANTED)
        assert "not kept" in tools.python_run("src/plant.py")
        tools.write_file("src/scripts/use.py", "import numpy, os\nprint(numpy.ones(1))\n")
        assert tools.python_run("src/scripts/use.py") == "[1.]\n[exit code 0]"
        assert "planted" not in tools.bash_run("python -c 'import numpy, sitecustomize'")
    code = "import numpy, genlab.agent.goals; print('fine')"
    env = {**os.environ, "PYTHONPATH": f"{Path(tools.__file__).parents[3]}"}
    for folder in (place, place / "src"):
        host = subprocess.run(
            [sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, text=True
        )
        assert host.stdout == "fine\n", host.stderr


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf experiments project.json; rm -f *",
        "mkdir -p experiments; echo '[]' > experiments/registry.json; touch experiments/new",
        "ln -s /etc experiments; echo '{}' > project.json",
        "echo x > transcript.jsonl; mkdir search; echo x > search/project.json",
    ],
)
def test_the_evaluators_files_survive_whatever_a_command_does(place: Path, command: str) -> None:
    before = _tree(place / "experiments"), (place / PROJECT).read_bytes()
    tools.bash_run(command)
    assert (_tree(place / "experiments"), (place / PROJECT).read_bytes()) == before
    assert not any((place / name).exists() for name in ("transcript.jsonl", "search"))
    assert not (place / "experiments").is_symlink()
    assert "registry" not in tools.bash_run("find . -name 'reg*'; cat project.json")


def test_links_lead_nowhere_and_do_not_come_back(place: Path, tmp_path: Path) -> None:
    output = tools.bash_run("ln -s /etc/passwd stolen.txt; ln -s .. up; mkfifo pipe.txt")
    assert "not kept: stolen.txt" in output
    assert not {"stolen.txt", "up", "pipe.txt"} & set(os.listdir(place))
    (tmp_path / "mine.txt").write_text("mine")
    (place / "linked").symlink_to(tmp_path)
    output = tools.bash_run("cat linked/mine.txt; mkdir linked; echo x > linked/mine.txt")
    assert "No such file" in output
    assert (tmp_path / "mine.txt").read_text() == "mine"
    (place / "linked").unlink()


DEEP = "import os\nfor _ in range(3000):\n    os.mkdir('d' * 9)\n    os.chdir('d' * 9)\n"


def test_folders_without_end_stop_nobody_but_their_maker(place: Path) -> None:
    tools.write_file("src/deep.py", DEEP)
    output = tools.python_run("src/deep.py")
    assert "[stopped by the sandbox: files" in output
    assert "nothing is kept" in output
    tools.write_file("src/deeper.py", DEEP.replace("import os", f"import os\n{CODE}"))
    with pytest.raises(tools.EvaluationFailedError):
        tools.pytorch_quick_evaluator("src/deeper.py", "M", {})
    assert tools.bash_run("echo fine") == "fine\n[exit code 0]"
    assert not any("ddd" in name for name in os.listdir(place))


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("pip install einops", r"agent\.allow_pip"),
        ("python3 -m pip install einops", r"agent\.allow_pip"),
        ("pip install --index-url http://x y", "Expected package name .* --index-url"),
        ("pip install 'y @ http://127.0.0.1/y.whl'", "an address"),
        ("pip install y; rm -r src", "with names and versions alone"),
        ("pip3 install ./y", "Expected package name"),
        ("pip install", "no package is named"),
    ],
)
def test_pip_takes_packages_where_it_is_allowed(box: Toolbox, command: str, fault: str) -> None:
    with bind_toolbox(change(box, allow_pip="allow_pip" not in fault)):
        _refused(lambda: tools.bash_run(command), fault)


def test_an_allowed_package_goes_into_the_workspace_alone(
    box: Toolbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "genlabdemo"
    info = "genlabdemo-1.0.dist-info"
    (tmp_path / name).mkdir()
    file = f"{name}-1.0-py3-none-any.whl"
    (tmp_path / name / "index.html").write_text(f'<a href="{file}">{file}</a>')
    contents = {
        f"{name}.py": "WORD = 'from a wheel'\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n",
    }
    with zipfile.ZipFile(tmp_path / name / file, "w") as wheel:
        for path, text in contents.items():
            wheel.writestr(path, text)
    monkeypatch.setenv("PIP_INDEX_URL", tmp_path.as_uri())
    with bind_toolbox(change(box, allow_pip=True)):
        output = tools.bash_run("pip install 'genlabdemo>=1'")
        assert output.endswith("[exit code 0]"), output
        output = tools.bash_run("python -c 'import genlabdemo as g; print(g.WORD)'")
        assert output == "from a wheel\n[exit code 0]"
    assert not any(name in path for path in tools.list_directory(recursive=True))


def test_a_config_becomes_a_measured_attempt(place: Path, box: Toolbox) -> None:
    tools.pytorch_model_assembler({"name": "Small", "layers": LAYERS}, str(MODEL))
    code = tools.read_file(str(MODEL))
    assert code.startswith("# Written by: template\n")
    assert "out_channels: 4" in (place / CONFIG).read_text()
    summary = tools.pytorch_model_summary(str(MODEL), "Small", (1, 16, 16))
    assert summary["parameters"] > 104
    assert summary["analysis"] == ""
    config = {"lr": 5e-3, "epochs": 50, "dataset": "mnist"}
    measured = tools.pytorch_quick_evaluator(str(MODEL), "Small", config)
    assert {"accuracy", "val_loss", "train_loss", "run_id", "seeds"} <= set(measured)
    assert len(measured["seeds"]) == 2
    assert measured["notes"] == [
        "the run's data are dummy, not 'mnist'",
        "50 epochs are 15,000 examples, the budget is 600",
    ]
    attempt = Registry(box.workspace).read_attempts()[-1]
    assert attempt.mean("accuracy") == pytest.approx(measured["accuracy"])
    assert attempt.code_origin == "template"
    assert attempt.config["name"] == "Small"
    folder = place / attempt.experiment_dir
    assert set(os.listdir(folder)) == {
        "model_config.yaml", "model_code.py", "summary.json", "results.json", "weights.safetensors"
    }  # fmt: skip
    assert (folder / "model_code.py").read_text() == code
    repeated = tools.pytorch_quick_evaluator(str(MODEL), "Small", {"lr": 5e-3})
    assert repeated["run_id"] == measured["run_id"]


def test_data_and_epochs_of_an_eval_config_mean_what_they_say(box: Toolbox) -> None:
    tools.write_file("src/said.py", CODE + "# said\n")
    eval_config = {"dataset": "Dummy", "num_classes": 4, "epochs": 2}
    explicit = tools.pytorch_quick_evaluator("src/said.py", "M", eval_config)
    assert explicit["notes"] == []  # two epochs of 300 items are the budget
    default = tools.pytorch_quick_evaluator("src/said.py", "M", {})
    assert default["run_id"] == explicit["run_id"]
    fewer = tools.pytorch_quick_evaluator("src/said.py", "M", {"epochs": 1, "num_classes": 10})
    assert fewer["run_id"] != explicit["run_id"]
    assert fewer["notes"] == [
        "the run's data have 4 classes, not '10'",
        "1 epochs are 300 examples, the budget is 600",
    ]
    assert len(fewer["curve"]) == 4  # batches of 64


def test_a_seed_that_the_clock_cut_is_trained_again_when_asked_again(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools.write_file("src/cut.py", CODE + "# cut\n")
    evaluate = ModelEvaluator.evaluate
    seeds = list[int]()

    def cut_the_first(evaluator: ModelEvaluator, *args: Any) -> Any:
        seeds.append(args[3])
        result, weights = evaluate(evaluator, *args)
        return replace(result, cut=len(seeds) == 1), weights

    monkeypatch.setattr(ModelEvaluator, "evaluate", cut_the_first)
    first = tools.pytorch_quick_evaluator("src/cut.py", "M", {})["run_id"]
    registry = Registry(box.workspace)
    (attempt,) = (stored for stored in registry.read_attempts() if stored.run_id == first)
    assert attempt.cut_seeds == [0]
    registry.put(attempt.model_copy(update={"number": 1}))  # a run decides on it
    second = tools.pytorch_quick_evaluator("src/cut.py", "M", {})["run_id"]
    assert second != first
    assert seeds == [0, 1, 0, 1]
    assert tools.pytorch_quick_evaluator("src/cut.py", "M", {})["run_id"] == second
    monkeypatch.setattr(box, "returned_run_ids", set())  # the run is resumed, and asks the same
    resumed = [tools.pytorch_quick_evaluator("src/cut.py", "M", {})["run_id"] for _ in range(2)]
    assert resumed == [first, second]
    assert seeds == [0, 1, 0, 1]


def test_hopeless_models_stop_after_a_seed_and_failed_ones_are_recorded(box: Toolbox) -> None:
    tools.write_file("src/m.py", CODE)
    hopeless = tools.pytorch_quick_evaluator("src/m.py", "M", {"stop_below": "1.1"})
    assert len(hopeless["seeds"]) == 1
    assert hopeless["notes"][0].startswith("hopeless")
    completed = tools.pytorch_quick_evaluator("src/m.py", "M", {})  # goes on in the same attempt
    assert completed["run_id"] == hopeless["run_id"]
    assert len(completed["seeds"]) == 2
    assert completed["notes"] == []
    tools.write_file("src/broken.py", CODE.replace("256", "255"))
    run_ids = []
    for _ in range(2):
        with pytest.raises(tools.EvaluationFailedError, match="M: ") as caught:
            tools.pytorch_quick_evaluator("src/broken.py", "M", {})
        run_ids.append(caught.value.run_id)
    assert run_ids[0] == run_ids[1]
    attempt = Registry(box.workspace).read_attempts()[-1]
    assert attempt.run_id == run_ids[0]
    assert attempt.verdict == "failed"
    assert attempt.parameters is None
    assert attempt.code_origin == "file"
    _refused(lambda: tools.pytorch_model_summary("src/broken.py", "M", (1, 16, 16)), "M fails")


def test_a_language_model_writes_is_corrected_and_replaced_by_the_template(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def assemble(*answers: dict[str, Any], layers: list[dict[str, Any]] = LAYERS) -> str:
        """Assemble a model with these answers; returns the first line of its file."""
        monkeypatch.setattr(box, "_backend", ScriptedModel(*answers))
        tools.pytorch_model_assembler({"name": "M", "layers": layers}, "src/llm.py")
        return tools.read_file("src/llm.py").splitlines()[0]

    broken = {"code": CODE.replace("256", "255")}
    assert assemble({"code": CODE}) == "# Written by: llm"
    assert assemble(broken, {"code": CODE}) == "# Written by: llm+repaired(1)"
    assert assemble(broken, broken, {"code": CODE}) == "# Written by: template"
    assert assemble() == "# Written by: template"
    custom = [{"type": "custom", "description": "a flat layer"}]
    assert assemble({"code": CODE}, layers=custom) == "# Written by: llm"
    with pytest.raises(GenlabError, match="the custom layer of M was not written: no answer"):
        assemble(layers=custom)


def test_a_spent_budget_ends_a_run_or_is_an_error_outside_of_one(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = BudgetSpentError("5 of 5 tokens are spent")
    monkeypatch.setattr(box, "_backend", ScriptedModel(spent, spent))
    arguments = {"model_config": {"layers": LAYERS}, "output_script_path": "src/x.py"}
    with pytest.raises(BudgetSpentError):
        functions.call("pytorch_model_assembler", arguments)
    with pytest.raises(GenlabError, match="tokens are spent; raise the limit"):
        functions.run("pytorch_model_assembler", arguments)


def test_a_summary_has_a_text_and_an_analysis_that_is_asked_for_once(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools.write_file("src/m.py", CODE)
    words = "All 1,028 parameters are in head."
    backend = ScriptedModel({"analysis": words})
    monkeypatch.setattr(box, "_backend", backend)
    summaries = [tools.pytorch_model_summary("src/m.py", "M", (8, 1, 16, 16)) for _ in range(2)]
    assert [summary["analysis"] for summary in summaries] == [words, words]
    assert len(backend.questions) == 1
    assert "parameters 1,028, trainable 1,028" in summaries[0]["text"]
    tools.write_file("src/m.py", f"{CODE}\n# another file")
    summary = tools.pytorch_model_summary("src/m.py", "M", (1, 16, 16))
    assert summary["analysis"] == "[no analysis: it is gone]"


@pytest.mark.parametrize(
    ("tool", "arguments", "fault"),
    [
        ("read_file", ("src",), "src: no such file"),
        ("read_file", ("experiments/registry.json",), "numbers of the test set"),
        ("write_file", ("src/x.py/y.txt", "x"), "y.txt"),
        ("list_directory", ("none",), "none: no such folder"),
        ("python_run", ("none.py",), "none.py: no such script"),
        ("pytorch_model_assembler", ({"layers": 3}, "src/x.py"), "layers"),
        ("pytorch_model_assembler", ({"layers": LAYERS}, "x.txt"), "output_script_path"),
        ("pytorch_model_summary", (str(MODEL), "M", (1, 2)), "input_size"),
        ("pytorch_quick_evaluator", (str(MODEL), "M", {"colour": 1}), "colour"),
        ("pytorch_quick_evaluator", (str(MODEL), "M", {"stop_below": "x"}), "stop_below"),
        ("pytorch_quick_evaluator", (str(MODEL), "M", {"epochs": 0}), "epochs must be a number"),
    ],
)
def test_a_call_that_cannot_work_is_one_line_and_writes_nothing(
    place: Path, tool: str, arguments: tuple[Any, ...], fault: str
) -> None:
    (place / "src/x.py").write_text("")
    before = _tree(place)
    _refused(lambda: tools.TOOLS[tool](*arguments), fault)
    assert _tree(place) == before


def test_a_killed_evaluation_trains_no_finished_seed_again(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools.write_file("src/killed.py", CODE + "# killed\n")
    evaluate = ModelEvaluator.evaluate
    seeds = list[int]()

    def stop_at_the_second(evaluator: ModelEvaluator, *args: Any) -> Any:
        seeds.append(args[3])
        if seeds == [0, 1]:
            raise KeyboardInterrupt
        return evaluate(evaluator, *args)

    monkeypatch.setattr(ModelEvaluator, "evaluate", stop_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        tools.pytorch_quick_evaluator("src/killed.py", "M", {})
    resumed = tools.pytorch_quick_evaluator("src/killed.py", "M", {})
    assert seeds == [0, 1, 1]
    assert [result["seed"] for result in resumed["seeds"]] == [0, 1]
    folder = box.workspace.experiments / resumed["run_id"]
    assert (folder / "weights.safetensors").exists()


def test_runs_with_different_seeds_share_no_seed_of_training(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools.write_file("src/seeded.py", CODE + "# seeded\n")
    seeds = set[int]()
    for seed in range(3):
        monkeypatch.setattr(box, "settings", replace(box.settings, seed=seed))
        measured = tools.pytorch_quick_evaluator("src/seeded.py", "M", {})
        seeds |= {result["seed"] for result in measured["seeds"]}
    assert len(seeds) == 3 * box.params.seeds

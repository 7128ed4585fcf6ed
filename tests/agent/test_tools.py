"""Nine tools with the signatures of the prompt, and a workspace that holds."""

from __future__ import annotations

import contextvars
import hashlib
import inspect
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sandboxes import needs_sandbox

from genlab.agent import tools
from genlab.agent.packages import pip_words
from genlab.agent.registry import Registry
from genlab.agent.space import Block, ModelConfig
from genlab.agent.template import source
from genlab.agent.toolbox import Toolbox, using
from genlab.agent.workspace import MODEL, Workspace, scaffold
from genlab.core.errors import GenlabError
from genlab.core.io import read_json

pytestmark = pytest.mark.slow

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
QUICK = {"dataset": "dummy", "epochs": 2, "subset": 300, "validation": 100, "lr": 5e-3}
LONGER = {**QUICK, "subset": 600, "epochs": 4, "seeds": (0, 1)}
SMALL = {"blocks": [{"kind": "plain", "channels": 8, "kernel": 5, "halve": True}]}
CONFIG = ModelConfig(blocks=(Block(kind="plain", channels=8, kernel=5, halve=True),))
CODE = source(CONFIG, (1, 16, 16), 4)
GOAL = "dummy, accuracy > 60 %"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolbox]:
    needs_sandbox()
    folder = tmp_path_factory.mktemp("base")
    with Toolbox(scaffold("demo", folder, GOAL), folder / "data") as found, using(found):
        yield found


@pytest.fixture
def root(box: Toolbox) -> Path:
    return box.workspace.root


def _refused(call: Callable[[], object], words: str) -> None:
    with pytest.raises(GenlabError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("line", SIGNATURES.strip().splitlines())
def test_signatures_are_those_that_were_promised(line: str) -> None:
    name = line.partition("(")[0]
    found = str(inspect.signature(getattr(tools, name))).replace("'str'", "str")
    reported = f"{name}{found}".replace("'", "")
    assert reported == line.replace("'", "")


# --- files -----------------------------------------------------------------------------------


def test_what_is_written_is_read_and_listed(root: Path) -> None:
    tools.write_file("notes/a.txt", "one ½\n")
    assert tools.read_file("notes/a.txt") == "one ½\n"
    assert tools.read_file(str(root / "notes/a.txt")) == "one ½\n"
    assert tools.list_directory("notes") == ["notes/a.txt"]
    assert "experiments/" in tools.list_directory()
    assert str(MODEL) in tools.list_directory(recursive=True)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "src/../../x", "link/x", "a\0b"])
def test_no_path_leads_out(root: Path, path: str) -> None:
    link = root / "link"
    if not link.is_symlink():
        link.symlink_to(root.parent)
    for call in (
        lambda: tools.read_file(path),
        lambda: tools.write_file(path, "x"),
        lambda: tools.list_directory(path),
        lambda: tools.python_run(path),
        lambda: tools.pytorch_model_assembler(SMALL, path),
        lambda: tools.pytorch_model_summary(path, "M", (1, 16, 16)),
        lambda: tools.pytorch_quick_evaluator(path, "M", QUICK),
    ):
        _refused(call, "leads out of the workspace|zero byte")
    link.unlink()


@pytest.mark.parametrize(
    "path", ["experiments/registry.json", "experiments", "project.json", "transcript.jsonl", "."]
)
def test_what_is_the_judges_is_not_written(root: Path, path: str) -> None:
    before = tools.list_directory(recursive=True)
    _refused(lambda: tools.write_file(path, "[]"), "the judge's|the workspace itself")
    _refused(lambda: tools.pytorch_model_assembler(SMALL, path), "the judge's|workspace itself")
    assert tools.list_directory(recursive=True) == before


def test_without_a_workspace_a_line_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing_bound = contextvars.Context()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GenlabError, match="create_pytorch_project_scaffold"):
        nothing_bound.run(tools.list_directory)
    nothing_bound.run(tools.create_pytorch_project_scaffold, "alone")
    monkeypatch.chdir(tmp_path / "workspaces/alone/src")
    assert "src/" in nothing_bound.run(tools.list_directory)


def test_a_project_is_made_once_and_never_over_another(root: Path) -> None:
    tools.create_pytorch_project_scaffold("second")
    made = root.parent / "second"
    assert (made / "experiments/registry.json").read_text() == "[]\n"
    (made / "mine.txt").write_text("kept")
    _refused(lambda: tools.create_pytorch_project_scaffold("second"), "isn't empty")
    assert (made / "mine.txt").read_text() == "kept"
    _refused(lambda: tools.create_pytorch_project_scaffold("x", "../.."), "leads out")
    _refused(lambda: tools.create_pytorch_project_scaffold("../x"), "project name")


# --- commands --------------------------------------------------------------------------------


@pytest.mark.usefixtures("box")
def test_a_command_says_what_it_said_and_how_it_ended() -> None:
    assert tools.bash_run("echo out; echo err >&2; exit 3") == "out\nerr\n[exit code 3]"


def test_a_command_changes_files_of_the_workspace(root: Path) -> None:
    tools.write_file("old.txt", "old")
    tools.write_file("kind/of", "folder")
    command = "mkdir -p a/b && pwd > a/b/c && chmod +x a/b/c; rm old.txt; rm -r kind; echo 1 > kind"
    assert tools.bash_run(command) == "[exit code 0]"
    assert (root / "a/b/c").stat().st_mode & 0o100
    assert not (root / "old.txt").exists()
    assert tools.read_file("kind") == "1\n"
    assert "genlab-shell" not in tools.bash_run("cat missing; pwd")
    tools.bash_run("rm -r a kind")
    assert "a/" not in tools.list_directory()


@pytest.mark.usefixtures("box")
def test_a_script_runs_with_its_arguments_and_neighbours() -> None:
    tools.write_file("scripts/near.py", "WORD = 'near'\n")
    tools.write_file("scripts/run.py", "import sys\nfrom near import WORD\nprint(WORD, sys.argv)\n")
    said = tools.python_run("scripts/run.py", "a b", "$HOME")
    assert said == "near ['scripts/run.py', 'a b', '$HOME']\n[exit code 0]"
    tools.write_file("scripts/bad.py", "1 / 0\n")
    assert "ZeroDivisionError" in tools.python_run("scripts/bad.py")


def _tree(folder: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf experiments; rm -rf experiments/*; rm -f project.json",
        "echo '[]' > experiments/registry.json; touch experiments/new",
        "mv experiments gone; mkdir experiments; echo '[1]' > experiments/registry.json",
        "rm experiments; ln -s /etc experiments; echo '{}' > project.json",
        "find . -name '*.json' -exec sh -c 'echo forged > {}' ';'",
        "echo x > transcript.jsonl; mkdir search; echo x > search/project.json",
        "chmod -R 777 experiments; echo x >> $(readlink experiments)/registry.json",
    ],
)
def test_experiments_survive_whatever_a_command_does(root: Path, command: str) -> None:
    kept = [root / "project.json", root / "experiments"]
    before = _tree(root / "experiments"), kept[0].read_bytes()
    tools.bash_run(command)
    assert (_tree(root / "experiments"), kept[0].read_bytes()) == before
    assert not any((root / name).exists() for name in ("transcript.jsonl", "search"))
    assert not kept[1].is_symlink()


def test_experiments_survive_without_bubblewrap(root: Path) -> None:
    needs_sandbox("landlock")
    before = _tree(root / "experiments")
    with using(Toolbox(Workspace(root), mode="landlock")):
        said = tools.bash_run("cd experiments && echo '[1]' > registry.json; rm -rf ./* ../src/x")
    assert "denied" in said
    assert _tree(root / "experiments") == before


def test_no_link_comes_back_from_a_command(root: Path) -> None:
    said = tools.bash_run(
        "ln -s /etc/passwd stolen; ln -s .. up; mkfifo pipe; ln kind2 x; echo 1>y"
    )
    assert "stolen is a link, and was left out" in said
    assert "[left out: pipe" in said
    names = os.listdir(root)
    assert not {"stolen", "up", "pipe"} & set(names)


def test_a_persons_own_link_stays_and_leads_nowhere(root: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    (root / "linked").symlink_to(tmp_path)
    said = tools.bash_run("cat linked/mine.txt; rm linked; mkdir linked; echo x > linked/mine.txt")
    assert "No such file" in said
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert not (root / "linked").is_symlink()
    tools.bash_run("rm -r linked")


@pytest.mark.usefixtures("box")
def test_a_command_sees_no_key_and_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "squeamish-ossifrage")
    said = tools.bash_run(
        "env; cat /proc/self/environ; (exec 3<>/dev/tcp/127.0.0.1/9) && echo open"
    )
    assert "ossifrage" not in said
    assert "open" not in said


# --- pip -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "pip install einops",
        "python -m pip install einops",
        "PIP_INDEX_URL=x pip3 install -q einops",
        "/usr/bin/python3.11 -m pip --quiet install einops",
    ],
)
def test_pip_is_refused_by_a_line_that_names_the_param(command: str) -> None:
    _refused(lambda: tools.bash_run(command), r"agent\.allow_pip")


def test_pip_stands_alone() -> None:
    for command in ("cd x && pip install y", "true\npip install y", "echo | pip install y"):
        _refused(lambda command=command: tools.bash_run(command), "a command of its own")
    for command in ("echo 'pip install y'", "pip list", "pipx install y", "grep pip install"):
        assert pip_words(command) is None


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("--index-url http://x y", "'--index-url' is no package"),
        ("--extra-index-url=http://x y", "is no package"),
        ("-r ../requirements.txt", "leads out of the workspace"),
        ("-r missing.txt", "no such file"),
        ("-r sly.txt", "is no package"),
        ("'y @ http://127.0.0.1/y.whl'", "names an address"),
        ("./y", "is no package"),
        ("git+https://x/y", "is no package"),
        ("-e .", "'-e' is no package"),
        ("", "no package is named"),
    ],
)
def test_pip_takes_packages_and_nothing_else(root: Path, words: str, fault: str) -> None:
    (root / "sly.txt").write_text("# fine\n--index-url http://x\n")
    with using(Toolbox(Workspace(root), allow_pip=True)):
        _refused(lambda: tools.bash_run(f"pip install {words}"), fault)


def _wheel(folder: Path, name: str) -> None:
    info = f"{name}-1.0.dist-info"
    (folder / name).mkdir(parents=True)
    file = f"{name}-1.0-py3-none-any.whl"
    (folder / name / "index.html").write_text(f'<a href="{file}">{file}</a>')
    with zipfile.ZipFile(folder / name / file, "w") as wheel:
        wheel.writestr(f"{name}.py", "WORD = 'from a wheel'\n")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n")


def test_an_allowed_package_goes_into_the_workspace_alone(root: Path, tmp_path: Path) -> None:
    _wheel(tmp_path, "genlabdemo")
    with using(Toolbox(Workspace(root), allow_pip=True, pip_index=tmp_path.as_uri())):
        said = tools.bash_run("pip install -q 'genlabdemo>=1'")
        assert said.endswith("[exit code 0]"), said
        assert (root / ".packages/genlabdemo.py").is_file()
        found = tools.bash_run("python -c 'import genlabdemo as g; print(g.WORD, g.__file__)'")
        assert found.startswith("from a wheel")
        assert "[exit code 0]" in found
        tools.bash_run("rm -rf .packages; echo x > .packages/genlabdemo.py")
    assert "from a wheel" in (root / ".packages/genlabdemo.py").read_text()
    assert not any("genlabdemo" in name for name in tools.list_directory(recursive=True))


# --- models ----------------------------------------------------------------------------------


def test_a_config_becomes_a_model_that_says_who_wrote_it(root: Path) -> None:
    tools.pytorch_model_assembler({**SMALL, "colour": 1}, str(MODEL))
    code = tools.read_file(str(MODEL))
    assert code.startswith("# Written by: template\n# colour: no such field")
    assert "kernel: 5" in tools.read_file("configs/models/current_model_config.yaml")
    reported = tools.pytorch_model_summary(str(MODEL), "CurrentModel", (1, 16, 16))
    assert reported["parameters"] == CONFIG.parameters((1, 16, 16), 4)
    assert reported["output"] == [1, 4]
    found = tools.pytorch_quick_evaluator(str(MODEL), "CurrentModel", LONGER)
    assert {"accuracy", "val_loss", "train_loss", "seconds", "run_id"} <= set(found)
    record = next(
        each for each in Registry(Workspace(root)).records() if each.run_id == found["run_id"]
    )
    assert record.metrics_summary["accuracy"] == found["accuracy"] > 0.5
    assert (record.code_origin, record.decision) == ("template", "")
    folder = root / record.experiment_dir
    assert {"model_config.yaml", "model_code.py", "summary.json", "results.json"} <= set(
        os.listdir(folder)
    )
    assert (folder / "model_code.py").read_text() == code
    assert "channels: 8" in (folder / "model_config.yaml").read_text()


def test_a_promotion_trains_on_everything_and_is_kept(root: Path) -> None:
    tools.write_file("m.py", CODE)
    run_id = tools.pytorch_quick_evaluator("m.py", "CurrentModel", QUICK)["run_id"]
    reported = tools.promote(run_id, epochs=2, seeds=(0, 1))
    assert reported["n"] == 1200  # of the validation part, all
    assert reported["interval"][0] <= reported["accuracy"] <= reported["interval"][1]
    kept = read_json(root / "experiments" / run_id / "promoted.json", producer_command="promote")
    assert kept == reported
    assert Registry(Workspace(root)).rebuild() >= 1


@pytest.mark.parametrize(
    ("tool", "arguments", "fault"),
    [
        ("read_file", ("src",), "src: a folder"),
        ("read_file", ("none.txt",), "none.txt: no such file"),
        ("write_file", ("src", "x"), "src: that is a folder"),
        ("write_file", ("long.txt", "x" * 200_001), "long.txt: 200001 characters"),
        ("list_directory", ("none",), "none: no such folder"),
        ("python_run", ("none.py",), "none.py: no such script"),
        ("pytorch_model_assembler", ("a big one", "x.py"), "model_config"),
        ("pytorch_model_assembler", ({"layers": 3}, "x.py"), "model_config"),
        ("pytorch_model_assembler", ({**SMALL, "input_size": (1, 2)}, "x.py"), "input_size"),
        ("pytorch_model_assembler", ({**SMALL, "input_size": "big"}, "x.py"), "input_size"),
        ("pytorch_model_assembler", ({**SMALL, "num_classes": 1}, "x.py"), "num_classes"),
        ("pytorch_model_assembler", (SMALL, "x.txt"), "output_script_path"),
        ("pytorch_quick_evaluator", (str(MODEL), "M", "quick"), "eval_config"),
        ("promote", ("qe_none",), "qe_none"),
    ],
)
def test_a_call_that_cannot_work_is_one_line_and_writes_nothing(
    root: Path, tool: str, arguments: tuple[Any, ...], fault: str
) -> None:
    before = _tree(root)
    _refused(lambda: getattr(tools, tool)(*arguments), fault)
    assert _tree(root) == before


BROKEN = "import torch\nfrom torch import nn\nclass M(nn.Module):\n    def forward(self, x):\n"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("class Other: ...\n", "no class 'M' is in it .it has Other."),
        ("class M(\n", "does not parse"),
        (BROKEN + "        return nn.Linear(9, 4)(x.flatten(1))\n", "cannot be multiplied"),
    ],
)
def test_a_model_that_breaks_is_one_line_and_nothing_is_lost(
    root: Path, code: str, words: str
) -> None:
    tools.write_file("broken.py", code)
    before = Registry(Workspace(root)).records()
    _refused(lambda: tools.pytorch_model_summary("broken.py", "M", (1, 16, 16)), words)
    _refused(lambda: tools.pytorch_quick_evaluator("broken.py", "M", QUICK), words)
    after = Registry(Workspace(root)).records()
    assert after[: len(before)] == before
    assert all(each.decision == "failed" and each.failure for each in after[len(before) :])
    assert tools.read_file("broken.py") == code

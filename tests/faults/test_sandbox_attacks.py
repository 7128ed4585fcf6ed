"""Every attack on the sandbox is stopped: in both modes, as root and as an ordinary user."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import attacks
import pytest
from sandboxes import MODES, needs_sandbox, run_as_ordinary_user

from genlab.agent import tools
from genlab.agent.config import Settings
from genlab.agent.goals.parser import parse_goal
from genlab.agent.library.toolbox import Toolbox, bind_toolbox
from genlab.agent.workspace import Workspace
from genlab.core.params import load_params

FIRST = {attack.layer: attack for attack in reversed(attacks.ATTACKS)}
TRIED = attacks.ATTACKS if os.environ.get("GENLAB_FAULTS") else list(FIRST.values())
"""All attacks at full size; in the ordinary tests one per layer."""
OUTCOMES: dict[tuple[str, str], str] = {}


@pytest.fixture(scope="module", params=MODES)
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[attacks.Target]:
    needs_sandbox(request.param)
    tmp_path_factory.getbasetemp()  # made before the target has the folder for temporary files
    with attacks.make_target(request.param) as attack_target:
        yield attack_target


@pytest.mark.parametrize("attack", TRIED, ids=lambda attack: attack.name)
def test_attack_is_stopped(attack: attacks.Attack, target: attacks.Target) -> None:
    fault = attacks.judge(attack, target)
    OUTCOMES[target.sandbox.mode, attack.name] = fault
    assert fault == ""


# A command's workspace lies in /tmp, which is private in bubblewrap: `..` is no place outside.
SCRIPTS = [attack for attack in TRIED if type(attack) is attacks.Attack and ".." not in attack.name]


@pytest.mark.parametrize("attack", SCRIPTS, ids=lambda attack: attack.name)
def test_attack_by_a_script_of_the_agent_is_stopped(
    attack: attacks.Attack, target: attacks.Target, root: Path
) -> None:
    mode = target.sandbox.mode
    params = load_params(root / "params.yaml").agent.model_copy(update={"sandbox": mode})
    goal = parse_goal("dummy stripes, accuracy > 90 %")
    workspace = Workspace(target.workspace)
    folder = target.workspace / "src"
    folder.mkdir(exist_ok=True)
    environ = f"import os; os.environ.update({target.environ!r})\n"
    (folder / "attack.py").write_text(environ + attack.script)
    before = set(target.workspace.rglob("*.py"))
    with bind_toolbox(Toolbox(workspace, Settings(goal, params))):
        output = tools.python_run("src/attack.py")
    new_files = set(target.workspace.rglob("*.py")) - before
    breached = "BREACH" in output or attacks.SECRET in output or "refused" not in output
    fault = output if breached or new_files or not attacks.intact(target) else ""
    OUTCOMES[f"{mode}, python_run", attack.name] = fault
    assert fault == ""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become an ordinary user")
@pytest.mark.usefixtures("only_full_size")
@pytest.mark.parametrize("mode", MODES)
def test_attacks_of_an_ordinary_user_are_stopped(mode: str) -> None:
    needs_sandbox(mode)
    done = run_as_ordinary_user([sys.executable, attacks.__file__, mode])
    assert done.returncode == 0, done.stdout[-3000:]
    assert "attacks were tried" in done.stdout


def test_outcomes_are_recorded(record: Callable[..., None]) -> None:
    if not OUTCOMES:
        pytest.skip("no mode of the sandbox works here")
    failed = {name for (_, name), fault in OUTCOMES.items() if fault}
    record("agent.attacks", len(failed), n=len({name for _, name in OUTCOMES}))

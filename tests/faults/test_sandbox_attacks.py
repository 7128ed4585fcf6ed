"""Every attack on the sandbox is stopped: in both modes, as root and as an ordinary user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import attacks
import pytest
from ordinary import NO_PLACE, as_ordinary_user

from genlab.sandbox.runner import find_fault

ROOT = Path(__file__).resolve().parents[2]
MODES = ("bubblewrap", "landlock")
FIRST = {attack.layer: attack for attack in reversed(attacks.ATTACKS)}
TRIED = attacks.ATTACKS if os.environ.get("GENLAB_FAULTS") else list(FIRST.values())
"""All attacks at full size; in the ordinary tests one per layer."""
OUTCOMES: dict[tuple[str, str], str] = {}


@pytest.fixture(scope="module", params=MODES)
def target(request: pytest.FixtureRequest) -> Iterator[attacks.Target]:
    if fault := find_fault(request.param, shutil.which("bwrap")):
        pytest.skip(f"{request.param} does not work here: {fault}")
    with attacks.make_target(request.param) as made:
        yield made


@pytest.mark.parametrize("attack", TRIED, ids=lambda attack: attack.name)
def test_attack_is_stopped(attack: attacks.Attack, target: attacks.Target) -> None:
    fault = attacks.judge(attack, target)
    OUTCOMES[target.sandbox.mode, attack.name] = fault
    assert fault == ""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become an ordinary user")
@pytest.mark.usefixtures("only_full_size")
@pytest.mark.parametrize("mode", MODES)
def test_attacks_of_an_ordinary_user_are_stopped(mode: str) -> None:
    if fault := find_fault(mode, shutil.which("bwrap")):
        pytest.skip(f"{mode} does not work here: {fault}")
    done = subprocess.run(
        as_ordinary_user([sys.executable, attacks.__file__, mode]),
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOME": "/"},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=300,
    )
    said = done.stdout + done.stderr
    if any(sign in said for sign in NO_PLACE):
        pytest.skip(f"root cannot make a place for an ordinary user here: {said[-200:]}")
    assert done.returncode == 0, said[-3000:]
    assert "attacks were tried" in done.stdout


def test_outcomes_are_recorded(record: Callable[..., None]) -> None:
    if not OUTCOMES:
        pytest.skip("no mode of the sandbox works here")
    failed = {name for (_, name), fault in OUTCOMES.items() if fault}
    record("agent.attacks", len(failed), n=len({name for _, name in OUTCOMES}))

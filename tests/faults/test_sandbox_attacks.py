"""Every attack on the sandbox is stopped: in both modes, as root and as an ordinary user."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import attacks
import pytest
from sandboxes import MODES, needs_sandbox, run_as_ordinary_user

FIRST = {attack.layer: attack for attack in reversed(attacks.ATTACKS)}
TRIED = attacks.ATTACKS if os.environ.get("GENLAB_FAULTS") else list(FIRST.values())
"""All attacks at full size; in the ordinary tests one per layer."""
OUTCOMES: dict[tuple[str, str], str] = {}


@pytest.fixture(scope="module", params=MODES)
def target(request: pytest.FixtureRequest) -> Iterator[attacks.Target]:
    needs_sandbox(request.param)
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
    needs_sandbox(mode)
    done = run_as_ordinary_user([sys.executable, attacks.__file__, mode])
    assert done.returncode == 0, done.stdout[-3000:]
    assert "attacks were tried" in done.stdout


def test_outcomes_are_recorded(record: Callable[..., None]) -> None:
    if not OUTCOMES:
        pytest.skip("no mode of the sandbox works here")
    failed = {name for (_, name), fault in OUTCOMES.items() if fault}
    record("agent.attacks", len(failed), n=len({name for _, name in OUTCOMES}))

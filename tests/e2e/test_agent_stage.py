"""Stage agent_iterate: the same numbers from the same params, and work that outlives its outs."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import typer
from stages.agent_iterate import agent_iterate

from genlab.core.artifacts import sha256

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]
TINY = {
    "goal": "dummy stripes, 100 % accuracy", "dataset": "dummy", "backend": "search",
    "max_iterations": 2,
    "epochs": 1, "subset": 64, "validation": 20, "seeds": 2,
}  # fmt: skip
OUTS = ("data/agent", "metrics/agent.json", "plots/agent")


def _stage(place: Path, **changes: object) -> None:
    text = (ROOT / "params.yaml").read_text(encoding="utf-8")
    head, section, rest = re.split(r"(?m)^(?=agent:|# The person-swap)", text, maxsplit=2)
    for name, value in {**TINY, **changes}.items():
        section = re.sub(rf"(?m)^  {name}: .*$", f"  {name}: {json.dumps(value)}", section)
    place.mkdir(exist_ok=True)
    (place / "params.yaml").write_text(head + section + rest, encoding="utf-8")
    app = typer.Typer()
    app.command()(agent_iterate)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        app([], standalone_mode=False)


def _numbers(place: Path) -> dict[str, str]:
    """Hashes of what git keeps of the stage."""
    return {
        name: sha256(place / name) for name in ("metrics/agent.json", "plots/agent/progress.png")
    }


def test_its_numbers_depend_on_params_alone_and_its_work_outlives_its_outs(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    _stage(one)
    first = _numbers(one)
    assert {path.name for path in (one / "data/agent").iterdir()} >= {
        "model_code.py", "model_config.yaml", "report.html", "weights.safetensors",
    }  # fmt: skip
    told = json.loads((one / "metrics/agent.json").read_text())
    assert told["attempts"] == 2
    assert told["best"]["seeds"] == 2
    assert told["best"]["test_accuracy"]["low"] < told["best"]["test_accuracy"]["high"]
    registry = next(one.glob("workspaces/*/experiments/registry.json"))
    before = registry.read_bytes()
    for name in OUTS:  # as dvc does before a stage starts
        path = one / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    _stage(one)
    assert registry.read_bytes() == before
    assert _numbers(one) == first
    _stage(other)
    assert _numbers(other) == first
    _stage(other, max_iterations=1)
    assert len(list(other.glob("workspaces/*/project.json"))) == 2
    assert json.loads((other / "metrics/agent.json").read_text())["attempts"] == 1

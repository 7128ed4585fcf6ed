"""Accepting a change: what is compared, and which digests are written where."""

import json
from pathlib import Path
from typing import Any

import pytest
from clones import dvc_in, run_in
from ruamel.yaml import YAML

from scripts import accept

OLD = {"code": "old", "seed": 0}
NEW = {"code": "new", "seed": 0}
FILE = "results/x/params.json"


def lock_of(folder: Path, **stages: dict[str, Any]) -> Path:
    """A project whose stages a, b, ... were run with these values."""
    entries = {
        name: {"cmd": f"echo {name}", "params": {FILE: {name: values}}, "outs": [{"path": name}]}
        for name, values in stages.items()
    }
    project = {
        name: {"cmd": f"sh echo {name}", "params": [{FILE: [name]}], "outs": [name]}
        for name in stages
    }
    yaml = YAML()
    yaml.dump({"stages": project}, folder / "dvc.yaml")
    yaml.dump({"schema": "2.0", "stages": entries}, folder / "dvc.lock")
    run_in(folder, "git", "init", "-q")
    dvc_in(folder, "init", "-q")
    return folder / "dvc.lock"


def test_a_stage_that_was_up_to_date_gets_digest_and_command(tmp_path: Path) -> None:
    lock = lock_of(tmp_path, a=OLD, b=OLD, c={"code": "older", "seed": 0}, d=OLD)
    before = {FILE: dict.fromkeys("abcd", OLD)}
    changed = {"code": "new", "seed": 1}
    after = {FILE: {"a": NEW, "b": changed, "c": NEW, "d": OLD}}
    assert accept.accept_lock(lock, before, after) == {"a": "new", "d": "old"}
    stages = YAML(typ="safe").load(lock)["stages"]
    recorded = {name: entry["params"][FILE][name] for name, entry in stages.items()}
    # b has other values, c was stale before: both stay as they are, and are run again.
    assert recorded == {"a": NEW, "b": OLD, "c": {"code": "older", "seed": 0}, "d": OLD}
    assert [entry["cmd"].partition(" ")[0] for entry in stages.values()] == [
        "sh",
        "echo",
        "echo",
        "sh",
    ]
    assert stages["a"]["outs"] == [{"path": "a"}]


def test_rows_that_were_current_get_their_fingerprints(tmp_path: Path) -> None:
    path = tmp_path / "experiments.csv"
    header = "name,fingerprint.code,fingerprint.params,value\n"
    path.write_text(f"{header}a,1,p,0.10\nb,0,p,0.2\nc,1,p,\n")
    before = {name: {"code": "1", "params": "p"} for name in "ab"}
    after = {name: {"code": "2", "params": "q"} for name in "abc"}
    assert accept.accept_rows(path, before, after) == 1
    assert path.read_text() == f"{header}a,2,q,0.10\nb,0,p,0.2\nc,1,p,\n"


def test_workspaces_of_the_same_settings_get_their_new_key(tmp_path: Path) -> None:
    for name, key in (("run", "r1"), ("stage", "s1"), ("older", "r0")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "project.json").write_text(json.dumps({"key": key, "goal": None}))
    places = {name: str(tmp_path / name) for name in ("run", "stage", "older")}
    before = {place: ["r1", "s1"] for place in places.values()}
    after = {place: ["r2", "s2"] for place in places.values()}
    assert accept.accept_workspaces(before, after) == 2
    keys = {
        name: json.loads(Path(place, "project.json").read_text())["key"]
        for name, place in places.items()
    }
    assert keys == {"run": "r2", "stage": "s2", "older": "r0"}


def side(folder: Path, files: dict[str, str], stages: dict[str, list[str]]) -> Path:
    """A clone in which stages have run."""
    lock = {name: {"outs": [{"path": path} for path in outs]} for name, outs in stages.items()}
    table = "name,value,fingerprint.code,seconds\ngrids,1,a,{seconds}\n"
    content = {"dvc.lock": json.dumps({"stages": lock}), "results/experiments.csv": table}
    for name, text in (content | files).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.replace("{seconds}", folder.name))
    return folder


def test_every_output_is_compared_but_digests_and_new_stages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        accept,
        "list_written_files",
        lambda clone: {str(p.relative_to(clone)) for p in clone.rglob("*") if p.is_file()},
    )
    same = {"metrics/x.json": "1", "results/x/params.json": "1"}
    before = side(tmp_path / "1", same, {"train": ["metrics/x.json"]})
    stages = {"train": ["metrics/x.json"], "judges": ["data/judges"]}
    files = {"metrics/x.json": "1", "results/x/params.json": "2", "data/judges/a": "1"}
    after = side(tmp_path / "2", files, stages)
    outcomes = accept.compare_sides(before, after)
    assert outcomes["metrics/x.json"] == ("equal", "")
    assert outcomes["experiment grids"] == ("equal", "")
    assert outcomes["data/judges/a"][0] == "new"
    assert "results/x/params.json" not in outcomes
    (after / "metrics/x.json").write_text("2")
    (after / "results/experiments.csv").write_text("name,value,seconds\ngrids,2,0\n")
    outcomes = accept.compare_sides(before, after)
    assert outcomes["metrics/x.json"] == ("different", "content")
    assert outcomes["experiment grids"] == ("different", "value")


def test_the_code_of_a_commit_is_known_by_running_it() -> None:
    values = accept.read_values(accept.ROOT, ["arc_grids"])
    assert {Path(file).parent.name for file in values} == {"arc_grids", "results"}
    assert all(stage["code"] for file in values.values() for stage in file.values())
    assert accept.evaluate(accept.ROOT, accept.FINGERPRINTS)["gpu"].keys() == {
        "code", "evaluation", "params",
    }  # fmt: skip

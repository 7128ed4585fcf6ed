"""Keep results after a change of code that changes no output: compare both versions first.

    make accept COMMIT=HEAD~1

A rename or a moved function changes digests of code, and makes the results that depend on them
stale. This runs all stages at a small size, an experiment of grids, one of images, and an agent
whose language model is scripted, at COMMIT and in the working tree, and compares every output byte
for byte (except what `scripts/verify_repro.py` excepts). Only if all are equal, it writes the new
digests into dvc.lock, results/experiments.csv and the agent's workspaces, for what was up to date
at COMMIT, and a summary to results/accepted.json. Runs are kept in build/accept/: an interrupted
call resumes, and later calls reuse the run of COMMIT.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dvc.repo import Repo
from dvc.utils.serialize import modify_yaml
from scripts.smoke import SMALL, TARGETS, clone, run
from scripts.verify_repro import compare_file, list_written_files

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from loopback import Server  # noqa: E402
from scripted_llm import reply  # noqa: E402

from genlab.core import git  # noqa: E402
from genlab.core.errors import run_cli  # noqa: E402
from genlab.core.io import read_json, read_yaml, write_json, write_text  # noqa: E402
from genlab.experiments.results import RESULTS_FILE, read_table, write_rows  # noqa: E402

PLACE = ROOT / "build" / "accept"
ACCEPTED = Path("results") / "accepted.json"
DECIDING = ("src", "stages", "scripts", "cases", "examples", "dvc.yaml", "params.yaml")
EXPERIMENTS = """
grids: {why: One experiment of grids., params: {beta_max: 0.0}}
images: {why: One of images., dataset: fashion_mnist, params: {beta_max: 2.0}}
"""
"""Experiments to run, at the size of `make smoke`, in place of experiments.yaml."""
NAMES = ("--only", "grids") if TARGETS else ()  # without Fashion-MNIST on this machine
SCRIPTED = {
    "agent.backend": "openai",
    "agent.planning.model": "scripted",
    "agent.tools.model": "scripted",
    "agent.compare_with_search": True,
}
NOT_OUTPUTS = ("fingerprint.", "commit", "machine", "seconds")
"""Prefixes of the columns of an experiment that describe the run, not its outputs."""
KEYS = """
import json
from pathlib import Path
from genlab.agent.config import Settings
keys = {}
for run in Path(%r).glob("*/experiments/run.json"):
    settings = Settings.from_json(json.loads(run.read_text(encoding="utf-8"))["settings"])
    keys[str(run.parents[1])] = [settings.key, settings.stage_key]
print(json.dumps(keys))
"""
TRAINING = """
import json
from genlab.evaluation.metrics.judges import digest_training
print(json.dumps(digest_training()))
"""
FINGERPRINTS = """
import json
try:
    from genlab.experiments.definitions import load_experiments
except ImportError:  # a commit that has it elsewhere
    from genlab.experiments.run import load_experiments
experiments = load_experiments("experiments.yaml")
print(json.dumps({experiment.name: experiment.fingerprint for experiment in experiments}))
"""

Json = dict[str, Any]


def main() -> None:
    """Compare and accept; exit with status 1 if an output differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", help="commit whose results are committed")
    commit = git.resolve_commit(ROOT, parser.parse_args().commit)
    before = run_side(check_out(commit), PLACE / commit[:12] / "small")
    after = run_side(ROOT, PLACE / f"tree-{digest_tree(ROOT)[:12]}" / "small")
    outcomes = compare_sides(before, after)
    counts = Counter(kind for kind, _ in outcomes.values())
    print(f"compared {len(outcomes)} outputs: {dict(counts)}")
    different = {name: why for name, (kind, why) in outcomes.items() if kind == "different"}
    for name, why in different.items():
        print(f"different: {name}: {why}", file=sys.stderr)
    if different:
        sys.exit(f"accept: {len(different)} outputs changed since {commit[:12]}; run: make repro")
    accept(commit, outcomes)


def check_out(commit: str) -> Path:
    """Clone this repository at `commit`, unless an earlier call did; return the clone."""
    tree = PLACE / commit[:12] / "tree"
    if not (tree / ".git" / "ready").exists():
        shutil.rmtree(tree, ignore_errors=True)
        git.clone_commit(ROOT, commit, tree)
        (tree / ".git" / "ready").touch()
    return tree


def digest_tree(root: Path) -> str:
    """SHA-256 of the files that decide the outputs of stages."""
    digest = hashlib.sha256()
    for name in git.list_files(root, *DECIDING):
        digest.update(f"{name}\0".encode())
        digest.update(hashlib.sha256((root / name).read_bytes()).digest())
    return digest.hexdigest()


def run_side(source: Path, target: Path) -> Path:
    """Run experiments and pipeline of `source` at a small size in `target`, or resume there."""
    finished = target.parent / "done"
    if finished.exists():
        return target
    if not (target.parent / "cloned").exists():
        shutil.rmtree(target, ignore_errors=True)
        params = read_yaml(source / "params.yaml")
        changes = {key: v for key, v in (SMALL | SCRIPTED).items() if has_key(params, key)}
        clone(target, changes, source)
        write_text(target / "experiments.yaml", EXPERIMENTS)
        run(target, ["git", "commit", "--quiet", "--all", "--message", "Two small experiments"])
        (target.parent / "cloned").touch()
    with Server(reply) as server:
        os.environ.update(OPENAI_BASE_URL=server.url, OPENAI_API_KEY="none")
        run(target, [sys.executable, "-m", "genlab.cli", "experiments", *NAMES])
        run(target, [sys.executable, "-m", "dvc", "repro", *TARGETS])
    finished.touch()
    return target


def has_key(values: Any, key: str) -> bool:
    """Whether params have a dotted key; those of an older commit may lack it."""
    section, _, rest = key.partition(".")
    return section in values and (not rest or has_key(values[section], rest))


def compare_sides(before: Path, after: Path) -> dict[str, tuple[str, str]]:
    """Compare each output of two runs: `equal`, `exception`, `new` or `different`, and why."""
    added = list_outs(after) - list_outs(before)
    outcomes: dict[str, tuple[str, str]] = {}
    for name in sorted(list_written_files(before) | list_written_files(after)):
        if name.endswith("params.json") or name == str(RESULTS_FILE):
            continue  # digests; rows of experiments follow
        if any(name == path or name.startswith(f"{path}/") for path in added):
            outcomes[name] = "new", "COMMIT does not have it"
        elif (before / name).is_file() or (after / name).is_file():
            outcomes[name] = compare_file(before, after, name)
    rows_before = read_outputs(before)
    rows_after = read_outputs(after)
    for name, row in rows_before.items():
        other_row = rows_after.get(name, {})
        columns = row.keys() | other_row.keys()
        changed = sorted(column for column in columns if row.get(column) != other_row.get(column))
        kind = "different" if changed else "equal"
        outcomes[f"experiment {name}"] = kind, ", ".join(changed)
    return outcomes


def list_outs(side: Path) -> set[str]:
    """Return the paths of all outs in a run's dvc.lock."""
    stages = read_yaml(side / "dvc.lock")["stages"]
    return {out["path"] for stage in stages.values() for out in stage["outs"]}


def read_outputs(side: Path) -> dict[str, dict[str, str]]:
    """Read the output columns of a run's experiments, by experiment."""
    table = read_table(side / RESULTS_FILE, dtype=str)
    columns = [column for column in table if not str(column).startswith(NOT_OUTPUTS)]
    rows = table[columns].to_dict("index")
    return {
        str(name): {str(column): str(value) for column, value in row.items()}
        for name, row in rows.items()
    }


def accept(commit: str, outcomes: Mapping[str, tuple[str, str]]) -> None:
    """Replace the digests of COMMIT's code by those of the working tree."""
    tree = check_out(commit)
    datasets = read_yaml(ROOT / "params.yaml")["datasets"]
    before = read_values(tree, datasets)
    keys_before = evaluate(tree, KEYS % str(ROOT / "workspaces"))
    fingerprints_before = evaluate(tree, FINGERPRINTS)
    run(ROOT, [sys.executable, "-m", "dvc", "repro", "params", "shared_params"])
    after = read_values(ROOT, datasets)
    stages = accept_lock(ROOT / "dvc.lock", before, after)
    rows = accept_rows(ROOT / RESULTS_FILE, fingerprints_before, evaluate(ROOT, FINGERPRINTS))
    keys_after = evaluate(ROOT, KEYS % str(ROOT / "workspaces"))
    workspaces = accept_workspaces(keys_before, keys_after)
    accept_released(evaluate(tree, TRAINING), evaluate(ROOT, TRAINING))
    kinds = Counter(kind for kind, _ in outcomes.values())
    record = {
        "commit": commit,
        "outputs": dict(sorted(kinds.items())),
        "stages": stages,
        "rows": rows,
    }
    write_json(ROOT / ACCEPTED, record)
    print(
        f"accepted {len(stages)} stages, {rows} experiments, {workspaces} workspaces of the agent"
    )


def read_values(root: Path, datasets: list[str]) -> Json:
    """Compute what each stage of a repository depends on: {file: {stage: {key: value}}}.

    The code of `root` computes it; the repository's own files are not read.
    """
    values: Json = {}
    for dataset in [*datasets, ""]:
        output = PLACE / "values"
        options = ["--dataset", dataset] if dataset else []
        command = [sys.executable, "stages/params.py", *options, "--output", str(output)]
        run(root, command)
        file = str(Path("results", dataset, "params.json"))
        values[file] = read_json(output / "params.json", producer_command=" ".join(command))
    return values


def accept_lock(lock: Path, before: Json, after: Json) -> dict[str, str]:
    """Write the new digests and commands of stages that were up to date; return the digests.

    A stage with other changed values, too, stays stale.
    """
    with Repo(str(lock.parent)) as repo:
        commands = {stage.name: stage.cmd for stage in repo.index.stages}
    accepted = {}
    with modify_yaml(str(lock)) as content:
        for name, entry in content["stages"].items():
            stage = name.partition("@")[0]
            for file, recorded in entry.get("params", {}).items():
                old, new = (values.get(file, {}).get(stage) for values in (before, after))
                if not old or not new or "code" not in old or recorded.get(stage) != old:
                    continue
                if {**old, "code": new["code"]} == new:
                    recorded[stage] = new
                    entry["cmd"] = commands[name]
                    accepted[name] = new["code"]
    return accepted


def accept_rows(path: Path, before: Json, after: Json) -> int:
    """Write the new digests into rows of experiments that were current; return their number."""
    table = read_table(path, dtype=str, keep_default_na=False)
    rows = {str(name): dict(row) for name, row in table.to_dict("index").items()}
    count = 0
    for name, row in rows.items():
        old = before.get(name)
        new = after.get(name)
        if not old or not new:
            continue
        if all(row[f"fingerprint.{key}"] == digest for key, digest in old.items()):
            row.update({f"fingerprint.{key}": digest for key, digest in new.items()})
            count += 1
    write_rows(path, rows)
    return count


def accept_workspaces(before: Mapping[str, list[str]], after: Mapping[str, list[str]]) -> int:
    """Write the new keys into workspaces of the agent, so that runs resume; return their number."""
    count = 0
    for workspace, keys in before.items():
        file = Path(workspace) / "project.json"
        project = read_json(file, producer_command="genlab agent")
        if project["key"] in keys:
            key = after[workspace][keys.index(project["key"])]
            write_json(file, {**project, "key": key})
            count += 1
    return count


def accept_released(before: str, after: str) -> None:
    """Write the new digest of the code that trains judges beside released, current judges."""
    for file in (ROOT / "checkpoints").glob("*.judges.json"):
        facts = read_json(file, producer_command="make report")
        if facts["code"] == before:
            write_json(file, {**facts, "code": after})


def evaluate(root: Path, code: str) -> Any:
    """Run Python code with a repository's sources; return the JSON that it prints."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, check=True)
    return json.loads(done.stdout)


if __name__ == "__main__":
    run_cli(main)

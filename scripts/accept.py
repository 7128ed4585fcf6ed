"""Accept a change of code that changes no output: compare both versions, then keep the results.

    make accept COMMIT=HEAD~1

A rename or a moved function changes digests of code, and what depends on them is stale. This runs
all stages at a small size, an experiment of grids, one of images, and an agent whose language model
is scripted, at COMMIT and in the working tree, and compares every output byte for byte (but for
what `scripts/verify_repro.py` excepts). Only where all are equal does it write the new digests into
dvc.lock, results/experiments.csv and the agent's workspaces, for what was up to date at COMMIT, and
what was compared to results/accepted.json. Runs are kept in build/accept/: an interrupted call
resumes, and COMMIT's serve the next call.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dvc.repo import Repo
from dvc.utils.serialize import modify_yaml
from scripts.smoke import SMALL, TARGETS, clone, run
from scripts.verify_repro import compare_file, written_files

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
"""Run at the size of `make smoke`, in place of those of experiments.yaml."""
NAMES = ("--only", "grids") if TARGETS else ()  # without Fashion-MNIST on this machine
SCRIPTED = {
    "agent.backend": "openai",
    "agent.planning.model": "scripted",
    "agent.tools.model": "scripted",
    "agent.compare_with_search": True,
}
OF_THE_RUN = ("fingerprint.", "commit", "machine", "seconds")
"""Columns of an experiment that do not say what came out."""
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
    """Compare and accept; exit with 1 where an output differs."""
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
    """A clone of this repository at `commit`, made once."""
    tree = PLACE / commit[:12] / "tree"
    if not (tree / ".git" / "ready").exists():
        shutil.rmtree(tree, ignore_errors=True)
        git.clone_at(ROOT, commit, tree)
        (tree / ".git" / "ready").touch()
    return tree


def digest_tree(root: Path) -> str:
    """SHA-256 of the files that decide what stages write."""
    digest = hashlib.sha256()
    for name in git.list_files(root, *DECIDING):
        digest.update(f"{name}\0".encode())
        digest.update(hashlib.sha256((root / name).read_bytes()).digest())
    return digest.hexdigest()


def run_side(source: Path, target: Path) -> Path:
    """Run experiments and pipeline of `source` at a small size in `target`; resumes there."""
    done = target.parent / "done"
    if done.exists():
        return target
    if not (target.parent / "cloned").exists():
        shutil.rmtree(target, ignore_errors=True)
        known = read_yaml(source / "params.yaml")
        clone(target, {key: v for key, v in (SMALL | SCRIPTED).items() if has(known, key)}, source)
        write_text(target / "experiments.yaml", EXPERIMENTS)
        run(target, ["git", "commit", "--quiet", "--all", "--message", "Two small experiments"])
        (target.parent / "cloned").touch()
    with Server(reply) as server:
        os.environ.update(OPENAI_BASE_URL=server.url, OPENAI_API_KEY="none")
        run(target, [sys.executable, "-m", "genlab.cli", "experiments", *NAMES])
        run(target, [sys.executable, "-m", "dvc", "repro", *TARGETS])
    done.touch()
    return target


def has(values: Any, key: str) -> bool:
    """Whether params have a dotted key, which an older version may lack."""
    section, _, rest = key.partition(".")
    return section in values and (not rest or has(values[section], rest))


def compare_sides(before: Path, after: Path) -> dict[str, tuple[str, str]]:
    """How each output of two runs compares: equal, exception, new or different, and why."""
    locks = [read_yaml(side / "dvc.lock")["stages"] for side in (before, after)]
    outs = [{out["path"] for entry in stages.values() for out in entry["outs"]} for stages in locks]
    added = outs[1] - outs[0]
    outcomes: dict[str, tuple[str, str]] = {}
    for name in sorted(written_files(before) | written_files(after)):
        if name.endswith("params.json") or name == str(RESULTS_FILE):
            continue  # digests; rows of experiments follow
        if any(name == path or name.startswith(f"{path}/") for path in added):
            outcomes[name] = "new", "COMMIT does not have it"
        elif (before / name).is_file() or (after / name).is_file():
            outcomes[name] = compare_file(before, after, name)
    rows = [read_table(side / RESULTS_FILE, dtype=str) for side in (before, after)]
    for name in rows[0].index:
        one, other = (
            dict(outputs_of(table.loc[name])) if name in table.index else {} for table in rows
        )
        changed = sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
        kind = "different" if changed else "equal"
        outcomes[f"experiment {name}"] = kind, ", ".join(changed)
    return outcomes


def outputs_of(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The columns of an experiment that say what came out."""
    for column, value in row.items():
        if not str(column).startswith(OF_THE_RUN):
            yield str(column), str(value)


def accept(commit: str, outcomes: Mapping[str, tuple[str, str]]) -> None:
    """Write today's digests where those of COMMIT stand."""
    tree = check_out(commit)
    datasets = read_yaml(ROOT / "params.yaml")["datasets"]
    before = read_values(tree, datasets)
    keys_before = ask(tree, KEYS % str(ROOT / "workspaces"))
    fingerprints_before = ask(tree, FINGERPRINTS)
    run(ROOT, [sys.executable, "-m", "dvc", "repro", "params", "shared_params"])
    after = read_values(ROOT, datasets)
    stages = accept_lock(ROOT / "dvc.lock", before, after)
    rows = accept_rows(ROOT / RESULTS_FILE, fingerprints_before, ask(ROOT, FINGERPRINTS))
    keys_after = ask(ROOT, KEYS % str(ROOT / "workspaces"))
    workspaces = accept_workspaces(keys_before, keys_after)
    accept_released(ask(tree, TRAINING), ask(ROOT, TRAINING))
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
    """What each stage of a repository depends on, by the file that holds it: {file: {stage: ...}}.

    The code of `root` computes it, whatever its files say.
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
    """Write new digests and commands of the stages that were up to date; return the digests.

    A stage whose other values changed as well stays stale.
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
    """Write new digests into the rows of experiments that were current; return their number."""
    table = read_table(path, dtype=str, keep_default_na=False)
    rows = {str(name): dict(row) for name, row in table.to_dict("index").items()}
    count = 0
    for name, row in rows.items():
        old, new = before.get(name), after.get(name)
        if old and new and all(row[f"fingerprint.{part}"] == old[part] for part in old):
            row.update({f"fingerprint.{part}": value for part, value in new.items()})
            count += 1
    write_rows(path, rows)
    return count


def accept_workspaces(before: Mapping[str, list[str]], after: Mapping[str, list[str]]) -> int:
    """Give workspaces of the agent their new keys, so that runs resume; return their number."""
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
    """Write the digest of the code that trains judges beside released ones that were current."""
    for file in (ROOT / "checkpoints").glob("*.judges.json"):
        facts = read_json(file, producer_command="make report")
        if facts["code"] == before:
            write_json(file, {**facts, "code": after})


def ask(root: Path, code: str) -> Any:
    """What Python code of a repository prints, as JSON."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, check=True)
    return json.loads(done.stdout)


if __name__ == "__main__":
    run_cli(main)

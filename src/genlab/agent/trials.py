"""Attempts that the tools make: a quick one, and a promotion to full length.

An attempt is entered in the registry with its four files, also where it failed. Who wrote its code
is known by the code's digest, from what the assembler noted in the judge's folder: a comment in a
file could say anything.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from scipy import stats

from genlab.agent.attempt import CODE, CONFIG_FILE, SUMMARY, as_yaml
from genlab.agent.candidate import Training
from genlab.agent.exam import LEVEL
from genlab.agent.quick_evaluator import EvalConfig, Evaluation, eval_config
from genlab.agent.registry import Record, Registry
from genlab.agent.summary import Summary, analysed
from genlab.agent.toolbox import Toolbox
from genlab.core.errors import GenlabError
from genlab.core.io import read_json, write_bytes, write_json, write_text

WRITTEN, WRITTEN_KIND = "written", "assembled code"
PROMOTED, PROMOTED_WEIGHTS, PROMOTED_KIND = (
    "promoted.json", "promoted.safetensors", "promoted attempt"
)  # fmt: skip
WHOLE = 10**9  # items: more than there are


def noted(box: Toolbox, code: str, origin: str, architecture: dict[str, Any]) -> None:
    """Remember who wrote `code`."""
    told = {"kind": WRITTEN_KIND, "version": 1, "origin": origin, "architecture": architecture}
    write_json(_note(box, code), told)


def _note(box: Toolbox, code: str) -> Path:
    digest = hashlib.sha256(code.encode()).hexdigest()
    return box.workspace.experiments / WRITTEN / f"{digest}.json"


def tried(box: Toolbox, code: str, class_name: str, config: EvalConfig) -> dict[str, Any]:
    """Train and mark `code`, enter the attempt, and return its numbers with its run_id.

    Raises GenlabError where the model breaks: the attempt is entered as failed by then.
    """
    registry = Registry(box.workspace)
    registry.records()  # a damaged one is told before anything is paid
    asked = box.evaluator.exam(config)
    summary = box.inspector.summary(code, class_name, asked.shape)
    if summary.parameters > box.max_parameters:
        raise GenlabError(
            f"{class_name} has {summary.parameters} parameters, at most {box.max_parameters} are"
            " allowed (agent.max_parameters); make it smaller"
        )
    if summary.failure:
        found = Evaluation(config, failure=summary.failure)
    else:
        found = box.evaluator.evaluate(code, class_name, config)
    run_id = _entered(box, registry, code, class_name, found, summary)
    if found.failure:
        raise GenlabError(f"{run_id}: {class_name}: {found.failure}; mend its code")
    return {
        **found.summary(),
        "run_id": run_id,
        "dataset": config.dataset,
        "parameters": summary.parameters,
        "multiply_adds": summary.multiply_adds,
    }


def _entered(
    box: Toolbox,
    registry: Registry,
    code: str,
    class_name: str,
    found: Evaluation,
    summary: Summary,
) -> str:
    """Write the four files of an attempt and its record; returns its run_id."""
    folder = box.workspace.new_run()
    note = {}
    if _note(box, code).is_file():
        fix = f"rm {_note(box, code)}"
        note = read_json(_note(box, code), producer_command=fix, kind=WRITTEN_KIND)
    told = {
        "architecture": note.get("architecture", {}),
        "training": found.config.model_dump(mode="json", include=set(Training.model_fields)),
        "evaluation": found.config.model_dump(mode="json"),
    }
    write_text(folder / CONFIG_FILE, as_yaml(told))
    write_text(folder / CODE, code)
    write_json(folder / SUMMARY, analysed(summary, None))
    record = Record(
        run_id=folder.name,
        timestamp=datetime.now(timezone.utc).isoformat(),
        model_name=class_name,
        dataset=found.config.dataset,
        metrics_summary={
            **found.summary(),
            "parameters": summary.parameters,
            "multiply_adds": summary.multiply_adds,
        },
        experiment_dir=box.workspace.relative(folder),
        decision="failed" if found.failure else "",
        code_origin=note.get("origin", ""),
        failure=found.failure,
    )
    registry.put(record)
    return folder.name


def promoted(
    box: Toolbox,
    run_id: str,
    *,
    epochs: int = 20,
    seeds: Sequence[int] = (0, 1, 2),
    time_limit: float = 3600.0,
    device: str = "cpu",
) -> dict[str, Any]:
    """Train an attempt on all of the training part, once a seed, and mark all of the validation's.

    interval: of the mean accuracy over seeds (Student's t, clipped to [0, 1]), None with one seed.
    cut: seeds whose training the time limit ended, before all epochs were done. Kept in the
    attempt's folder with the first seed's weights. Raises GenlabError where there is no such
    attempt, or where its model breaks.
    """
    records = {record.run_id: record for record in Registry(box.workspace).records()}
    if run_id not in records:
        known = ", ".join(list(records)[-3:]) or "none yet"
        raise GenlabError(
            f"there is no attempt {run_id!r} in {box.workspace.root}; name another (the last ones:"
            f" {known}), or another --workspace"
        )
    record = records[run_id]
    folder = box.workspace.inside(record.experiment_dir)
    config = eval_config(
        {
            **_training(folder),
            "dataset": record.dataset,
            "epochs": epochs,
            "subset": WHOLE,
            "validation": WHOLE,
            "time_limit": time_limit,
            "seeds": tuple(seeds),
            "device": device,
        }
    )
    code = folder / CODE
    if not code.is_file():
        raise GenlabError(f"{code} is missing: this attempt can't be promoted; choose another")
    found = box.evaluator.evaluate(code.read_text(encoding="utf-8"), record.model_name, config)
    if found.failure:
        raise GenlabError(f"{run_id}: {found.failure}; choose another attempt, or more time")
    told = {
        "kind": PROMOTED_KIND,
        "version": 1,
        "run_id": run_id,
        "dataset": record.dataset,
        "epochs": epochs,
        **found.summary(),
        "cut": [each.seed for each in found.seeds if each.seconds >= time_limit],
        "interval": interval([each.validation.accuracy for each in found.seeds]),
    }
    write_bytes(folder / PROMOTED_WEIGHTS, found.weights)
    write_json(folder / PROMOTED, told)
    return told


def interval(values: Sequence[float]) -> list[float] | None:
    """Student's interval of the mean of accuracies, clipped to [0, 1]; None of fewer than two."""
    if len(values) < 2:
        return None
    spread = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    reach = float(stats.t.ppf((1 + LEVEL) / 2, len(values) - 1)) * spread
    middle = float(np.mean(values))
    return [max(0.0, middle - reach), min(1.0, middle + reach)]


def _training(folder: Path) -> dict[str, Any]:
    """How the attempt was trained; the usual way where its file says nothing."""
    path = folder / CONFIG_FILE
    try:
        found = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
        told = found.get("training") or {}
        return {key: told[key] for key in Training.model_fields if key in told}
    except (OSError, YAMLError, AttributeError, TypeError) as error:
        raise GenlabError(f"{path} can't be read; choose another attempt") from error

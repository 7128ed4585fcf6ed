"""Read params files; complete and check the sections of datasets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from genlab.core.errors import GenlabError, did_you_mean, to_genlab_error
from genlab.core.io import read_json, read_yaml
from genlab.core.params.catalogue import PUBLISHED, RESERVED, join_names, suggest_model
from genlab.core.params.geometry import check_shapes
from genlab.core.params.model import PARAMS_FILE, SECTION_FIELDS, Params, merge, validate
from genlab.core.params.renamed import reject_old_keys
from genlab.core.params.sections import SourceParams

NAME = re.compile(r"[a-z][a-z0-9_]*")
"""Names of datasets, which name folders, stages and keys, too."""
IDLE = Path("data/agent/idle.json")
"""Written in place of the agent's results when it has nothing to do."""


def describe_idle() -> str:
    """Return why the agent has nothing to do, as stage shared_params found; else an empty text."""
    resolved = Path("results/params.json")
    if not resolved.is_file():
        return ""
    values = read_json(resolved, producer_command="dvc repro shared_params")["agent_iterate"]
    if not values.get("idle"):
        return ""
    return f"agent.dataset {values['dataset']} is not one of datasets: the agent has nothing to do"


def load_params(path: str | Path = PARAMS_FILE, *, complete: bool = True) -> Params:
    """Read and check a params file. Raises a `GenlabError` of one line on any error.

    complete: whether to take kinds and sizes of users' datasets, if the file leaves them open,
    from what stage params found in their files.
    """
    values = read_yaml(path)
    if complete:
        results = Path(path).parent / "results"
        for name, section in values.items():
            if isinstance(section, dict) and isinstance(section.get("source"), dict):
                values[name] = {**section, "source": _complete_source(section, name, results)}
    return parse_params(values, str(path))


def _complete_source(section: Mapping[str, Any], name: str, results: Path) -> dict[str, Any]:
    """Return the source of a dataset, with kind and size from stage params if it has none."""
    source: dict[str, Any] = section["source"]
    resolved = results / str(name) / "params.json"
    if not resolved.is_file():
        return source
    stages = read_json(resolved, producer_command=f"dvc repro params@{name}")
    detected = stages.get("generate", {}).get("source", {})
    detected = {key: detected[key] for key in ("kind", "size") if key in detected}
    stated = {key: value for key, value in source.items() if value is not None}
    return {**detected, **stated}


def parse_params(values: dict[str, Any], source: str) -> Params:
    """Check the content of a params file and of its datasets' sections; errors name `source`.

    Shapes must fit the items of every dataset that the pipeline runs over.
    """
    values = {**values, **dict(_complete_sections(values, source))}
    params = validate(values, source)
    for name in {**PUBLISHED, **params.sections}:
        dataset = params.dataset(name)
        merged = merge(values, dataset, source)
        if name in params.datasets:
            check_shapes(merged, dataset, source)
        if dataset.source and sum(dataset.source.shares(params.images).values()) >= 1:
            message = f"{source}: {name}.source: val_share + test_share must be < 1"
            raise GenlabError(message, key=f"{name}.source.val_share", path=source)
    for name in params.datasets:
        if name not in {*PUBLISHED, *params.sections}:
            message = f"{source}: {params.describe_unknown(name)}"
            raise GenlabError(message, key="datasets", path=source)
    return params


def add_source_facts(params: Params, name: str, **facts: Any) -> Params:
    """Return params in which the source of a user's dataset `name` states these facts, too."""
    values = params.model_dump()
    values[name] = {**values[name], "source": {**values[name]["source"], **facts}}
    return parse_params(values, PARAMS_FILE)


def _complete_sections(
    values: Mapping[str, Any], source: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the sections of users' datasets, checked, with a model that fits their size.

    Raises GenlabError for any other key that params do not have.
    """
    reject_old_keys(values, source)
    for name in PUBLISHED:
        if isinstance(values.get(name), dict) and "source" in values[name]:
            message = f"{source}: {name} is a published dataset; give your own another name"
            raise GenlabError(message, key=f"{name}.source")
    for name in sorted(values.keys() - Params.model_fields.keys() - PUBLISHED.keys(), key=str):
        section = values[name]
        if not isinstance(section, dict) or "source" not in section:
            keys = [*Params.model_fields, *PUBLISHED, *SECTION_FIELDS]
            suggestion = did_you_mean(str(name), keys)
            hint = "a dataset of your own has a section with source: {path: …}"
            message = f"{source}: {name} is not a known key{suggestion}; {hint}"
            raise GenlabError(message, key=str(name))
        if not NAME.fullmatch(str(name)) or name in RESERVED:
            rule = f"{NAME.pattern}, and not {join_names(RESERVED)}"
            raise GenlabError(f"{source}: a dataset's name is {rule}, got {name}", key=str(name))
        try:
            stated = SourceParams.model_validate(section["source"])
        except ValidationError as error:
            fields = SourceParams.model_fields
            raise to_genlab_error(error, f"{source}: {name}.source", fields) from error
        suggested = suggest_model(stated.size, stated.kind or "images") if stated.size else {}
        yield name, {**suggested, **section}

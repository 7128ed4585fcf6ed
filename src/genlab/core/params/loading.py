"""Read params files: find the sections of datasets, complete and check them."""

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
"""Names of datasets: of folders, stages and keys."""
IDLE = Path("data/agent/idle.json")
"""Says that the agent had nothing to do, in place of its results."""


def describe_idle() -> str:
    """Why the agent has nothing to do, by what stage shared_params wrote; empty where it has."""
    resolved = Path("results/params.json")
    if not resolved.is_file():
        return ""
    values = read_json(resolved, producer_command="dvc repro shared_params")["agent_iterate"]
    if not values.get("idle"):
        return ""
    return f"agent.dataset {values['dataset']} is not one of datasets: the agent has nothing to do"


def load_params(path: str | Path = PARAMS_FILE, *, complete: bool = True) -> Params:
    """Read and check a params file. Raises a `GenlabError` of one line on any error.

    complete: whether kinds and sizes that it leaves open are those that stage params found.
    """
    values = read_yaml(path)
    for name, section in values.items() if complete else ():
        source = section.get("source") if isinstance(section, dict) else None
        resolved = Path(path).parent / "results" / str(name) / "params.json"
        if isinstance(source, dict) and resolved.is_file():
            stages = read_json(resolved, producer_command=f"dvc repro params@{name}")
            found = stages.get("generate", {}).get("source", {})
            stated = {key: value for key, value in source.items() if value is not None}
            open_keys = {key: found[key] for key in ("kind", "size") if key in found}
            values[name] = {**section, "source": {**open_keys, **stated}}
    return parse_params(values, str(path))


def parse_params(values: dict[str, Any], source: str) -> Params:
    """Check the content of a params file, with its datasets' sections; errors name `source`.

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
            key, rule = f"{name}.source.val_share", "val_share + test_share must be < 1"
            raise GenlabError(f"{source}: {name}.source: {rule}", key=key, path=source)
    for name in params.datasets:
        if name not in {*PUBLISHED, *params.sections}:
            message = f"{source}: {params.describe_unknown(name)}"
            raise GenlabError(message, key="datasets", path=source)
    return params


def add_source_facts(params: Params, name: str, **found: Any) -> Params:
    """Params in which the source of one's own dataset `name` states what was found."""
    values = params.model_dump()
    values[name] = {**values[name], "source": {**values[name]["source"], **found}}
    return parse_params(values, PARAMS_FILE)


def _complete_sections(
    values: Mapping[str, Any], source: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The sections of one's own datasets, checked, with a model that fits their pictures' size.

    Raises GenlabError for another key that params do not have.
    """
    reject_old_keys(values, source)
    for name in PUBLISHED:
        if isinstance(values.get(name), dict) and "source" in values[name]:
            message = f"{source}: {name} is a published dataset; give your own another name"
            raise GenlabError(message, key=f"{name}.source")
    for name in sorted(values.keys() - Params.model_fields.keys() - PUBLISHED.keys(), key=str):
        section = values[name]
        if not isinstance(section, dict) or "source" not in section:
            known = [*Params.model_fields, *PUBLISHED, *SECTION_FIELDS]
            near = did_you_mean(str(name), known)
            rest = "; a dataset of your own has a section with source: {path: …}"
            raise GenlabError(f"{source}: {name} is not a known key{near}{rest}", key=str(name))
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

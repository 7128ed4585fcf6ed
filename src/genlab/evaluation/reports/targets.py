"""Targets of the benchmarks from benchmarks/targets.yaml, and the rows of their tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from genlab.core.errors import GenlabError

TARGETS_FILE = Path("benchmarks/targets.yaml")


class Target(BaseModel):
    """What a benchmark measures and what it should reach; without a target it is only reported.

    boolean: the benchmark's value is 1 for yes and 0 for no.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: str
    direction: Literal["maximize", "minimize"]
    target: float | None = None
    stretch_target: float | None = None
    boolean: bool = False

    @property
    def sign(self) -> str:
        """The comparison that a value must satisfy: ">=" or "<="."""
        return ">=" if self.direction == "maximize" else "<="

    def met(self, value: float | None) -> bool | None:
        """Whether `value` meets the target; None without a value or a target."""
        return self._satisfies(value, self.target)

    def stretch_met(self, value: float | None) -> bool | None:
        """Whether `value` meets the stretch target; None without a value or a stretch target."""
        return self._satisfies(value, self.stretch_target)

    def shown(self, value: float | None) -> float | bool | None:
        """`value` as it is printed: a bool where the benchmark says yes or no."""
        return bool(value) if self.boolean and value is not None else value

    def _satisfies(self, value: float | None, wanted: float | None) -> bool | None:
        if value is None or wanted is None:
            return None
        return value >= wanted if self.direction == "maximize" else value <= wanted


def read_targets(root: Path, *prefixes: str) -> dict[str, Target]:
    """Read the targets whose keys start with one of `prefixes` (all without any), in file order.

    Raises a GenlabError where the file is missing or malformed.
    """
    path = root / TARGETS_FILE
    try:
        content = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
        targets = TypeAdapter(dict[str, Target]).validate_python(content)
    except (OSError, UnicodeDecodeError, YAMLError, ValidationError) as error:
        raise GenlabError(
            f"{path} is missing or malformed; restore it with: git checkout {TARGETS_FILE}"
        ) from error
    return {key: targets[key] for key in targets if not prefixes or key.startswith(prefixes)}


def benchmark_prefix(dataset: str) -> str:
    """What the keys of the benchmarks about `dataset` start with."""
    jobs = {"arc_grids": "grids.", "fashion_mnist": "images."}
    return jobs.get(dataset, f"images.{dataset}_")


def target_rows(
    targets: Mapping[str, Target], benchmarks: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """The rows of the table of targets; a benchmark that was not run has no value."""
    for key, target in targets.items():
        entry = {"interval": None, "n": None, **benchmarks.get(key, {})}
        value = entry.get("value")
        yield {
            "key": key,
            "what": target.description,
            "sign": target.sign,
            "target": target.shown(target.target),
            "stretch_target": target.shown(target.stretch_target),
            "entry": entry,
            "value": target.shown(value),
            "met": target.met(value),
            "stretch_met": target.stretch_met(value),
        }

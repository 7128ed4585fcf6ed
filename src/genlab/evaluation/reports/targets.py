"""Targets of the benchmarks, read from benchmarks/targets.yaml."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from genlab.core.errors import GenlabError
from genlab.core.params.catalogue import PUBLISHED

TARGETS_FILE = Path("benchmarks/targets.yaml")


class Target(BaseModel):
    """What a benchmark measures and should reach; without a target it is only reported."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: str
    direction: Literal["maximize", "minimize"]
    target: float | None = None
    stretch_target: float | None = None
    interval_decides: bool = Field(
        default=False,
        description="Whether the interval is over what the claim is about, such as persons; that of"
        " several trainings always is.",
    )

    @property
    def sign(self) -> str:
        """The comparison that a value must satisfy: ">=" or "<="."""
        return ">=" if self.direction == "maximize" else "<="

    def met(self, value: float | None) -> bool | None:
        """Whether `value` meets the target; None without a value or a target."""
        return self._satisfies(value, self.target)

    def outcome(self, value: float | None, interval: Sequence[float] | None = None) -> str:
        """Compare `value` with both targets, in words.

        interval: over what the claim is about; if it contains the target, the outcome is undecided,
        and a stretch target that it contains is not met.
        """
        if value is None:
            return "not measured"
        if self.target is None:
            return "reported"
        if _contains(interval, self.target):
            return "undecided"
        stretch = self._satisfies(value, self.stretch_target)
        if stretch and not _contains(interval, self.stretch_target):
            return "stretch target met"
        return "met" if self.met(value) else "missed"

    def _satisfies(self, value: float | None, target: float | None) -> bool | None:
        if value is None or target is None:
            return None
        return value >= target if self.direction == "maximize" else value <= target


def _contains(interval: Sequence[float] | None, target: float | None) -> bool:
    """Whether a target lies within an interval, if there are both."""
    return interval is not None and target is not None and interval[0] < target < interval[1]


def judge_target(target: Target, entry: Mapping[str, Any]) -> str:
    """Outcome of a benchmark; an interval over the items of one training decides nothing.

    entry: of results/benchmarks.json, empty where nothing was measured.
    """
    decides = target.interval_decides or entry.get("trainings", 1) > 1
    return target.outcome(entry.get("value"), entry.get("interval") if decides else None)


def read_targets(root: Path, dataset: str | None = None) -> dict[str, Target]:
    """Read the targets of a dataset, or all, in file order.

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
    return {key: targets[key] for key in targets if dataset in (None, dataset_of(key))}


def dataset_of(key: str) -> str:
    """The dataset that a benchmark is about, empty where there is none."""
    if not key.startswith("images."):
        return "arc_grids" if key.startswith("grids.") else ""
    named = (name for name in PUBLISHED if key.startswith(f"images.{name}_"))
    return next(named, "fashion_mnist")

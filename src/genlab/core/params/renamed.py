"""Old names of what stands in users' files, read in one place, with the new name of each."""

from collections.abc import Iterable, Mapping
from typing import Any

from genlab.core.errors import GenlabError

RENAMED: Mapping[str, str] = {
    "epoch_size": "samples_per_epoch",
    "class_weight_power": "class_balance_exponent",
    "evaluate.feature_images": "evaluate.extractor_examples",
    "evaluate.importance_samples": "evaluate.iwae_samples",
    "evaluate.importance_grids": "evaluate.iwae_items",
    "evaluate.bootstrap": "bootstrap",
    "benchmark.bootstrap": "bootstrap",
}


def reject_old_keys(values: Mapping[str, Any], source: str) -> None:
    """Raise a `GenlabError` that names the new key where `values` holds an old one."""
    for key in _dotted(values):
        if key in RENAMED:
            new = RENAMED[key]
            raise GenlabError(f"{source}: {key} is now called {new}; rename it", key=key, fix=new)


def _dotted(values: Mapping[str, Any]) -> Iterable[str]:
    """Keys as they stand, and those in sections with their section's name before them too."""
    for key, value in values.items():
        yield str(key)
        if isinstance(value, Mapping):
            yield from (name for inner in value for name in (str(inner), f"{key}.{inner}"))

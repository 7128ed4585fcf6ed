"""Old names of keys in users' files, with their new names."""

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
    """Raise a `GenlabError` that names the new key if `values` has an old one."""
    for key in _list_dotted(values):
        if key in RENAMED:
            new = RENAMED[key]
            raise GenlabError(f"{source}: {key} is now called {new}; rename it", key=key, fix=new)


def _list_dotted(values: Mapping[str, Any]) -> Iterable[str]:
    """Yield all keys; those of sections both with and without the section's name."""
    for key, value in values.items():
        yield str(key)
        if isinstance(value, Mapping):
            for inner in value:
                yield str(inner)
                yield f"{key}.{inner}"

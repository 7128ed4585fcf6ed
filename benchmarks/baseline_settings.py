"""Contenders of the comparison, and the settings that are tried of each.

- `ours`: the image model of params.yaml.
- `no-latents`: its causal head without latents: the decoder's output does not depend on z.
- `no-head`: its autoencoder and prior without the causal head, under the same mixture of logistics.
- `pythae`: pythae 0.1.2's `BetaVAE` with the library's perceptrons or its convolutions for 28 x 28.
- `pythae-mixture`: the same under our mixture of logistics.
- `normflows`: normflows 1.7.3's `MultiscaleFlow` of `GlowBlock`s, built as in its example.
"""

import itertools
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

OURS = "ours"
GENLAB = (OURS, "no-latents", "no-head")
LIBRARIES = ("pythae", "pythae-mixture", "normflows")
CONTENDERS = (*GENLAB, *LIBRARIES)

Choices = dict[str, tuple[Any, ...]]

# None: the value of params.yaml.
_OF_GENLAB: Choices = {
    "lr": (None, 0.002, 0.008),
    "batch_size": (None, 16, 64),
    "beta_max": (None, 0.5),
    "likelihood_components": (None, 2, 8),
    "width": (None, 16, 32),
}
_OF_TRAINING: Choices = {"schedule": ("constant", "cosine")}
_OF_PYTHAE: Choices = {
    # Without the library's convolutions at their own width, which are slow on one thread.
    "network": ("mlp-512", "mlp-1024", "conv-32", "conv-16"),
    "kl_weight": (1.0, 0.3, 0.1),
    "latents": (10, 32, 64),
    "lr": (1e-4, 1e-3, 3e-3),
    "batch_size": (64, 32, 128),
    **_OF_TRAINING,
}
SPACE: dict[str, Choices] = {
    OURS: _OF_GENLAB,
    "no-latents": {name: _OF_GENLAB[name] for name in _OF_GENLAB if name != "beta_max"},
    "no-head": _OF_GENLAB,
    "pythae": {"likelihood": ("mse", "bce", "gaussian"), **_OF_PYTHAE},
    "pythae-mixture": {"likelihood": ("mixture",), **_OF_PYTHAE},
    "normflows": {
        # The library's example, for colour images on a GPU, has 16 and 256.
        "blocks": (8, 4, 16),
        "hidden": (64, 32, 128),
        "lr": (1e-3, 3e-3, 5e-4),
        "batch_size": (128, 64, 32),
        **_OF_TRAINING,
    },
}
"""Choices of each tuned setting; the first ones are params.yaml's or the library's."""


@dataclass(frozen=True)
class Settings:
    """One run. options: tuned settings by name; seconds: CPU seconds of its training."""

    contender: str
    options: tuple[tuple[str, Any], ...] = ()
    seconds: float = 0.0
    seed: int = 0

    @property
    def title(self) -> str:
        """Contender and tuned settings."""
        return " ".join((self.contender, *describe(dict(self.options))))


def describe(options: Mapping[str, Any]) -> list[str]:
    """Describe tuned settings in words; those of params.yaml are left out."""
    described = []
    for name, value in options.items():
        if isinstance(value, str):
            described.append(value)
        elif value is not None:
            described.append(f"{name.replace('_', ' ')} {value:g}")
    return described


def make_trials(contender: str, trials: int, seconds: float) -> list[Settings]:
    """List the first choice of every setting, then others of the space in a random order."""
    names = SPACE[contender]
    default, *variants = (
        Settings(contender, tuple(zip(names, values, strict=True)), seconds)
        for values in itertools.product(*names.values())
    )
    return [default, *random.Random(0).sample(variants, min(trials - 1, len(variants)))]

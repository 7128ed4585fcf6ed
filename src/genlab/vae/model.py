"""The VAE: encoder, prior, decoder, and its file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from genlab.core import artifacts
from genlab.core.console import GenlabError
from genlab.vae import networks, objective
from genlab.vae.priors import AutoregressivePrior, StandardPrior

FORMAT = "genlab.vae"
VERSION = 1
HEADER = "genlab"


@dataclass(frozen=True)
class Architecture:
    """Everything that shapes the weights; stored in the checkpoint."""

    network: str
    size: int
    classes: int
    patch: int
    width: int
    depth: int
    latent_dim: int
    prior: str
    prior_width: int
    prior_depth: int
    prior_components: int

    @property
    def tokens(self) -> int:
        return (self.size // self.patch) ** 2


class VAE(nn.Module):
    """q(z|x), p(z) and p(x|z) of integer grids (batch, size, size)."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        a = self.architecture = architecture
        self.encoder: nn.Module
        self.decoder: nn.Module
        if a.network == "mixer":
            shape = (a.size, a.patch, a.classes, a.width, a.depth, a.latent_dim)
            self.encoder = networks.MixerEncoder(*shape)
            self.decoder = networks.MixerDecoder(*shape)
        elif a.network == "conv":
            dense = (a.size, a.classes, a.width, a.depth, a.latent_dim)
            self.encoder = networks.ConvEncoder(*dense)
            self.decoder = networks.ConvDecoder(*dense)
        else:
            raise ValueError(f"network must be mixer or conv: {a.network!r}")
        self.prior: StandardPrior | AutoregressivePrior
        if a.prior == "standard":
            self.prior = StandardPrior(a.latent_dim)
        else:
            self.prior = AutoregressivePrior(
                a.latent_dim, a.tokens, a.prior_width, a.prior_depth, a.prior_components
            )

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log variance of q(z|x), each (batch, latent_dim)."""
        mean, log_var = self.encoder(x)
        return mean, log_var

    def decode(self, z: Tensor) -> Tensor:
        """Logits of p(x|z): (batch, classes, size, size)."""
        logits: Tensor = self.decoder(z)
        return logits

    def reconstruct(self, x: Tensor) -> Tensor:
        """The likeliest grid given the posterior mean: (batch, size, size) uint8."""
        return self.decode(self.encode(x)[0]).argmax(1).to(torch.uint8)

    def bound(
        self,
        x: Tensor,
        noise: Tensor,
        prior: StandardPrior | AutoregressivePrior | None = None,
    ) -> objective.Bound:
        """One-sample ELBO halves of each grid; noise: (batch, latent_dim) standard normal.

        prior: another p(z) than the model's own, for a run whose prior hasn't come in yet.
        """
        mean, log_var = self.encode(x)
        z = objective.reparameterise(mean, log_var, noise)
        return objective.bound(prior or self.prior, self.decode(z), x, mean, log_var, z)

    def parameter_counts(self) -> dict[str, int]:
        """Trainable numbers of each part."""
        parts = {"encoder": self.encoder, "decoder": self.decoder, "prior": self.prior}
        return {k: sum(p.numel() for p in part.parameters()) for k, part in parts.items()}


def save_checkpoint(path: Path, model: VAE, facts: Mapping[str, Any]) -> None:
    """Write the weights (safetensors) whole or not at all; `facts` is JSON beside the shapes.

    The same weights and facts give the same bytes.
    """
    header = {
        "format": FORMAT,
        "version": VERSION,
        "architecture": asdict(model.architecture),
        "facts": dict(facts),
    }
    weights = {k: v.detach().cpu().contiguous() for k, v in model.state_dict().items()}
    # One metadata entry alone: safetensors writes several in an order that changes by process.
    metadata = {HEADER: json.dumps(header, sort_keys=True)}
    artifacts.write_bytes(path, save(weights, metadata=metadata))


def load_checkpoint(path: Path, *, made_by: str) -> tuple[VAE, dict[str, Any]]:
    """The model in evaluation mode and its facts.

    Raises GenlabError, naming the file and `made_by`, the command that makes it again, when the
    file is absent, truncated, foreign, or of another version or architecture.
    """
    remake = f"make it again with: {made_by}"
    if not path.is_file():
        raise GenlabError(f"{path}: no checkpoint there; {remake}")
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get(HEADER, "{}"))
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise GenlabError(f"{path}: truncated or not a checkpoint ({error}); {remake}") from error
    header = header if isinstance(header, dict) else {}
    if header.get("format") != FORMAT or header.get("version") != VERSION:
        found = f"{header.get('format', 'no format')} {header.get('version', '')}".strip()
        raise GenlabError(f"{path}: must be {FORMAT} version {VERSION}, found {found}; {remake}")
    try:
        model = VAE(Architecture(**header["architecture"]))
        model.load_state_dict(weights)
        facts: dict[str, Any] = header["facts"]
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise GenlabError(
            f"{path}: weights of another architecture ({reason}); {remake}"
        ) from error
    return model.eval(), facts

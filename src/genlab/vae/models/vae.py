"""The VAE: encoder, prior, decoder, likelihood, and its file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from genlab.core import io as artifacts
from genlab.core.errors import GenlabError
from genlab.distributions import pixels
from genlab.distributions.likelihoods import Categorical, Likelihood
from genlab.vae.models import image_networks, networks
from genlab.vae.models.priors import Prior, make_prior
from genlab.vae.training import objective

FORMAT = "genlab.vae"
VERSION = 2
HEADER = "genlab"


@dataclass(frozen=True)
class Architecture:
    """Everything that shapes the weights; stored in the checkpoint.

    size: side of an item; classes: values of a cell or pixel; channels: of a pixel, 0 for grids.
    """

    network: str
    size: int
    classes: int
    channels: int
    patch: int
    width: int
    depth: int
    latent_dim: int
    prior: str
    prior_width: int
    prior_depth: int
    prior_components: int
    likelihood: str
    likelihood_components: int

    @property
    def tokens(self) -> int:
        return (self.size // self.patch) ** 2


class VAE(nn.Module):
    """q(z|x), p(z) and p(x|z) of grids (batch, size, size) or images (batch, c, size, size)."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        a = self.architecture = architecture
        self.likelihood = _likelihood(a)
        self.encoder, self.decoder = _networks(a, self.likelihood.outputs)
        self.prior = make_prior(
            a.prior, a.latent_dim, a.tokens, a.prior_width, a.prior_depth, a.prior_components
        )

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log variance of q(z|x), each (batch, latent_dim)."""
        mean, log_var = self.encoder(x)
        return mean, log_var

    def decode(self, z: Tensor) -> Tensor:
        """What p(x|z) is told by: (batch, outputs, size, size); logits for grids."""
        out: Tensor = self.decoder(z)
        return out

    def reconstruct(self, x: Tensor) -> Tensor:
        """The item that stands for p(x|z) at the posterior mean, uint8, of the shape of x."""
        return self.likelihood.shown(self.decode(self.encode(x)[0]))

    def bound(self, x: Tensor, noise: Tensor, prior: Prior | None = None) -> objective.Bound:
        """ELBO terms per item; noise: (batch, latent_dim) standard normal.

        prior: another p(z) than the model's own, for a run whose prior hasn't come in yet.
        """
        mean, log_var = self.encode(x)
        z = objective.reparameterise(mean, log_var, noise)
        log_likelihood = self.likelihood.log_prob(self.decode(z), x)
        return objective.bound(prior or self.prior, log_likelihood, mean, log_var, z)

    def parameter_counts(self) -> dict[str, int]:
        """Trainable numbers of each part."""
        parts = {"encoder": self.encoder, "decoder": self.decoder, "prior": self.prior}
        return {k: sum(p.numel() for p in part.parameters()) for k, part in parts.items()}


def _likelihood(a: Architecture) -> Likelihood:
    if a.likelihood == "categorical":
        return Categorical(a.classes)
    return pixels.make(a.likelihood, a.channels, a.likelihood_components)


def _networks(a: Architecture, outputs: int) -> tuple[nn.Module, nn.Module]:
    """Encoder and decoder, made in this order: weights are drawn as they are made."""
    if a.network not in ("mixer", "conv"):
        raise ValueError(f"network must be mixer or conv: {a.network!r}")
    images, mixer = bool(a.channels), a.network == "mixer"
    if images and not mixer:
        token_dim = a.latent_dim // a.tokens
        shape = (a.patch, a.width, a.depth, token_dim)
        return (
            image_networks.ConvEncoder(a.channels, *shape),
            image_networks.ConvDecoder(a.size, *shape, outputs),
        )
    if images:
        rest = (a.width, a.depth, a.latent_dim)
        return (
            image_networks.MixerImageEncoder(a.size, a.patch, a.channels, *rest),
            image_networks.MixerImageDecoder(a.size, a.patch, outputs, *rest),
        )
    if mixer:
        patches = (a.size, a.patch, a.classes, a.width, a.depth, a.latent_dim)
        return networks.MixerEncoder(*patches), networks.MixerDecoder(*patches)
    dense = (a.size, a.classes, a.width, a.depth, a.latent_dim)
    return networks.ConvEncoder(*dense), networks.ConvDecoder(*dense)


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


def load_checkpoint(path: Path, *, producer_command: str) -> tuple[VAE, dict[str, Any]]:
    """The model in evaluation mode and its facts.

    Raises GenlabError, naming the file and `producer_command`, the command that makes it again, when the
    file is absent, truncated, foreign, or of another version or architecture.
    """
    remake = f"make it again with: {producer_command}"
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

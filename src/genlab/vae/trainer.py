"""Train a VAE: epochs, the best checkpoint, early stopping, and going on after a kill.

Everything random in epoch e is seeded by (seed, e), and the state after each whole epoch is on
disk, so that a killed run goes on at the last whole epoch and ends bit for bit where an
uninterrupted one ends.
"""

from __future__ import annotations

import io
import math
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from genlab.core import artifacts
from genlab.core.console import GenlabError
from genlab.core.params import Params
from genlab.vae import objective
from genlab.vae.batches import corrupt, epoch_generator, walk
from genlab.vae.likelihoods import class_weights
from genlab.vae.model import VAE, Architecture
from genlab.vae.parallel import ShardedGradient
from genlab.vae.priors import AutoregressivePrior, StandardPrior
from genlab.vae.schedules import beta_at, lr_at

VALIDATION_GRIDS = 500
SETTLING_GRIDS = 2000  # grids whose codes the prior's components start on
AUTOENCODER_LR = 0.1  # of the learning rate, once the learned prior is in
LOSSES = ("loss", "reconstruction_loss", "kl_divergence")
EXPLODING = 20.0  # times the running mean of the gradient norm
NORM_RATE = 0.05  # of that running mean
STATE_VERSION = 1

EpochEnd = Callable[[int, VAE, dict[str, float], dict[str, float]], None]


@dataclass
class Progress:
    """What a run remembers from epoch to epoch; all of it is in the state file."""

    epoch: int = 0  # whole epochs done
    updates: int = 0
    skipped_updates: int = 0
    norm_mean: float = 0.0  # running mean of the gradient norm; 0 before the first
    best_epoch: int = 0
    best_score: float = math.inf
    seconds: float = 0.0
    best: dict[str, Tensor] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)  # one row of numbers an epoch

    def stopped(self, patience: int, delay: int) -> bool:
        """Whether `patience` epochs after the first `delay` ones brought no better score."""
        return self.epoch - max(self.best_epoch, delay) >= patience


def architecture(params: Params, classes: int) -> Architecture:
    """The shapes that `params` ask for."""
    return Architecture(
        network=params.network,
        size=params.grids.size,
        classes=classes,
        patch=params.patch,
        width=params.width,
        depth=params.depth,
        latent_dim=params.latent_dim,
        prior=params.prior,
        prior_width=params.prior_width,
        prior_depth=params.prior_depth,
        prior_components=params.prior_components,
    )


class Trainer:
    """Train on integer grids.

    train, val: (n, size, size) uint8 on the CPU, where all random numbers are drawn too, so that
    they are the same on any device. state_dir holds the state of the run in the making.
    """

    def __init__(
        self,
        params: Params,
        train: Tensor,
        val: Tensor,
        classes: int,
        state_dir: Path,
        device: torch.device | None = None,
    ) -> None:
        self.params, self.train, self.classes = params, train, classes
        self.device = device or torch.device("cpu")
        self.val = val[:VALIDATION_GRIDS].to(self.device)
        self.state_file = state_dir / "state.pt"
        self.cells = train[0].numel()
        torch.manual_seed(params.seed)
        self.model = VAE(architecture(params, classes)).to(self.device)
        counts = torch.bincount(train.flatten().to(torch.int64), minlength=classes)
        weights = class_weights(counts / counts.sum(), params.class_weight_power)
        self.weights = weights.to(self.device)
        self.waiting = StandardPrior(params.latent_dim)
        self.optimiser = _optimiser(self.model, params)
        self.gradient = ShardedGradient(list(self.model.parameters()), params.threads)
        self.progress = Progress()
        if self.state_file.exists():
            self._load_state()

    @property
    def fade(self) -> float:
        """How much of focal exponent, class weights and corruption is left at this beta_max."""
        return max(0.0, 1.0 - self.params.beta_max)

    @property
    def delay(self) -> int:
        """Whole epochs before beta and the learned prior come in, at most all but one."""
        return min(round(self.params.beta_delay * self.params.epochs), self.params.epochs - 1)

    @property
    def prior(self) -> StandardPrior | AutoregressivePrior:
        """p(z) as it stands now: N(0, I) until the learned prior comes in."""
        return self.model.prior if self.progress.epoch >= self.delay else self.waiting

    @property
    def updates_an_epoch(self) -> int:
        return self.params.epoch_size // self.params.batch_size

    def run(self, on_epoch: EpochEnd) -> VAE:
        """Train to the end; returns the best model. `on_epoch` is called after each epoch, before
        its state is saved, so that what it writes is never behind the state."""
        p, progress = self.params, self.progress
        total = p.epochs * self.updates_an_epoch * p.batch_size
        done = progress.epoch * self.updates_an_epoch * p.batch_size
        with tqdm(total=total, initial=done, unit="grid", unit_scale=True, smoothing=0.02) as bar:
            while progress.epoch < p.epochs and not progress.stopped(p.patience, self.delay):
                started = time.perf_counter()
                self._begin(progress.epoch)
                trained = self._epoch(progress.epoch, bar)
                seconds = time.perf_counter() - started
                values = {**trained, **self.validate(trained["beta"])}
                progress.epoch += 1
                progress.seconds += time.perf_counter() - started
                progress.history.append(values)
                self._keep_best(values["selection_nats"])
                grids = self.updates_an_epoch * p.batch_size
                on_epoch(
                    progress.epoch, self.model, values, {"samples_per_second": grids / seconds}
                )
                self._save_state()
                bar.set_postfix(epoch=progress.epoch, elbo=f"{values['elbo']:.1f}")
        self.model.load_state_dict(progress.best)
        return self.model.eval()

    @torch.no_grad()
    def _begin(self, epoch: int) -> None:
        """Bring in the learned prior when its epoch has come.

        Encoder and decoder settle first, at beta 0, since a prior fitted to codes that are still
        finding their places is work thrown away (and most of an update's cost). Then the prior's
        components start on the clusters that the codes have formed.
        """
        if epoch == self.delay and isinstance(self.model.prior, AutoregressivePrior):
            self.model.eval()
            grids = self.train[:SETTLING_GRIDS].to(self.device)
            mean, log_var = self.model.encode(grids)
            codes = mean.view(-1, self.model.prior.token_dim)
            self.model.prior.settle(codes, float((0.5 * log_var).exp().mean()))
            self.progress.norm_mean = 0.0

    def _epoch(self, epoch: int, bar: tqdm[Any]) -> dict[str, float]:
        """One epoch; the means of its losses, nats a grid."""
        self.model.train()
        generator = epoch_generator(self.params.seed, epoch)
        sums: dict[str, float] = dict.fromkeys(LOSSES, 0.0)
        norms = beta = lr = 0.0
        steps = self.updates_an_epoch
        for step, x in enumerate(self.batches(epoch)):
            at = (epoch * steps + step) / (self.params.epochs * steps)
            beta = self._beta(at)
            lr = self._set_lr(at)
            loss, norm = self.update(x, beta, generator)
            for name, value in loss.items():
                sums[name] += value / steps
            norms += norm / steps
            bar.update(len(x))
        return {
            **{f"train/{name}": value for name, value in sums.items()},
            "beta": beta,
            "learning_rate": lr,
            "gradient_norm": norms,
            "skipped_updates": float(self.progress.skipped_updates),
        }

    def update(
        self, x: Tensor, beta: float, generator: torch.Generator
    ) -> tuple[dict[str, float], float]:
        """One optimiser step, unless its gradient is not finite or explodes."""
        x = corrupt(x, self.params.corruption * self.fade, self.classes, generator)
        noise = torch.randn(len(x), self.params.latent_dim, generator=generator)
        x, noise = x.to(self.device), noise.to(self.device)
        parts = self.gradient(lambda rows: self._surrogate(x[rows], noise[rows], beta), len(x))
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        norm = float(torch.nn.utils.get_total_norm(gradients))
        if self._explodes(norm):
            self.progress.skipped_updates += 1
        else:
            if self.params.grad_clip > 0:
                for group in self.optimiser.param_groups:
                    torch.nn.utils.clip_grad_norm_(group["params"], self.params.grad_clip)
            self.optimiser.step()
            if "moments" in parts and isinstance(self.model.prior, AutoregressivePrior):
                self.model.prior.observe(parts["moments"])
        self.progress.updates += 1
        finite = {name: float(parts[name].nan_to_num(0.0, 0.0, 0.0)) for name in LOSSES}
        return finite, norm if math.isfinite(norm) else 0.0

    def _surrogate(self, x: Tensor, noise: Tensor, beta: float) -> tuple[Tensor, dict[str, Tensor]]:
        """The sum over grids of the training loss, nats a cell, and its readable parts."""
        mean, log_var = self.model.encode(x)
        loss = self._loss(x, mean, log_var, noise, beta)
        share = len(x) / self.params.batch_size
        parts = {
            "loss": loss.loss * share,
            "reconstruction_loss": loss.reconstruction * share,
            "kl_divergence": loss.kl * share,
        }
        if isinstance(self.prior, AutoregressivePrior):
            parts["moments"] = self.prior.moments(mean, log_var)
        return loss.surrogate * (share / self.cells), parts

    def _loss(
        self, x: Tensor, mean: Tensor, log_var: Tensor, noise: Tensor, beta: float
    ) -> objective.TrainingLoss:
        z = objective.reparameterise(mean, log_var, noise)
        return objective.training_loss(
            self.model.decode(z),
            x,
            objective.token_kl(self.prior, mean, log_var, z, encoder_gradient=beta),
            beta=beta,
            fade=self.fade,
            gamma=self.params.focal_gamma,
            weights=self.weights,
            free_nats=self.params.free_bits * self.params.latent_dim / self.prior.tokens,
        )

    def _explodes(self, norm: float) -> bool:
        """Whether this gradient is not finite, or far above what the run is used to.

        The running mean takes in exploding norms too, cut to the limit, so that it follows a
        lasting change within some ten updates instead of skipping for ever.
        """
        if not math.isfinite(norm):
            return True
        progress = self.progress
        progress.norm_mean = progress.norm_mean or norm
        limit = EXPLODING * progress.norm_mean
        progress.norm_mean += (min(norm, limit) - progress.norm_mean) * NORM_RATE
        return norm > limit

    @torch.no_grad()
    def validate(self, beta: float) -> dict[str, float]:
        """The training loss, the untouched bound and accuracies on the validation grids."""
        self.model.eval()
        noise = torch.randn(
            len(self.val), self.params.latent_dim, generator=torch.Generator().manual_seed(0)
        ).to(self.device)
        loss = self._loss(self.val, *self.model.encode(self.val), noise, beta)
        halves = self.model.bound(self.val, noise, self.prior)
        right = self.model.reconstruct(self.val) == self.val
        values = {
            "loss": float(loss.loss),
            "reconstruction_loss": float(-halves.log_likelihood.mean()),
            "kl_divergence": float(halves.kl.mean()),
            "beta_kl": beta * float(halves.kl.mean()),
            "elbo": -float(halves.neg_elbo.mean()),
            "pixel_accuracy": float(right.float().mean()),
            "exact_grid_accuracy": float(right.flatten(1).all(1).float().mean()),
        }
        for colour in range(self.classes):
            cells = right[self.val == colour]
            if len(cells):  # a colour may be absent from a small validation split
                values[f"per_class_accuracy/{colour}"] = float(cells.float().mean())
        # What the best epoch is chosen by: the bound at the final beta, so that epochs of the
        # warm-up compare with later ones.
        values["selection_nats"] = float(
            (self.params.beta_max * halves.kl - halves.log_likelihood).mean()
        )
        return values

    def _set_lr(self, at: float) -> float:
        """Set the learning rates; returns the full one.

        Once a learned prior has come in, the settled autoencoder moves at AUTOENCODER_LR of it.
        """
        delay = self.delay / self.params.epochs
        lr = lr_at(at, self.params.lr_schedule, self.params.lr, delay)
        learned = isinstance(self.prior, AutoregressivePrior)
        for group in self.optimiser.param_groups:
            group["lr"] = lr * AUTOENCODER_LR if learned and not group["prior"] else lr
        return lr

    def _beta(self, at: float) -> float:
        p = self.params
        delay = self.delay / p.epochs
        return beta_at(at, p.beta_schedule, p.beta_max, p.beta_warmup, p.beta_cycles, delay)

    def batches(self, epoch: int) -> Iterator[Tensor]:
        """The epoch's batches of training grids."""
        p = self.params
        taken = self.updates_an_epoch * p.batch_size
        rows = torch.from_numpy(walk(p.seed, len(self.train), epoch * taken, taken))
        for start in range(0, taken, p.batch_size):
            yield self.train[rows[start : start + p.batch_size]]

    def _keep_best(self, score: float) -> None:
        """Keep the weights of the best epoch; any epoch's are better than those of the delay."""
        if not math.isfinite(score):
            score = math.inf
        if score < self.progress.best_score or self.progress.best_epoch <= self.delay:
            self.progress.best_score, self.progress.best_epoch = score, self.progress.epoch
            state = self.model.state_dict()
            self.progress.best = {name: value.clone() for name, value in state.items()}

    def _save_state(self) -> None:
        state = {
            "version": STATE_VERSION,
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "progress": vars(self.progress),
        }
        # Through memory, since torch.save itself turns a full disk into an unrelated error.
        buffer = io.BytesIO()
        torch.save(state, buffer)
        artifacts.write_bytes(self.state_file, buffer.getvalue())

    def _load_state(self) -> None:
        try:
            state = torch.load(self.state_file, weights_only=True, map_location=self.device)
            if state["version"] != STATE_VERSION:
                raise ValueError(f"version {state['version']}")
            self.model.load_state_dict(state["model"])
            self.optimiser.load_state_dict(state["optimiser"])
            self.progress = Progress(**state["progress"])
        except Exception as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise GenlabError(
                f"{self.state_file}: not a state this run can go on from ({reason});"
                f" start afresh with: rm -r {self.state_file.parent}"
            ) from error

    def forget(self) -> None:
        """Remove the state of the run in the making, once its results stand."""
        shutil.rmtree(self.state_file.parent, ignore_errors=True)


def _optimiser(model: VAE, params: Params) -> torch.optim.AdamW:
    """AdamW; weight decay for weight matrices alone (not biases, norms, positions, codebooks)."""
    matrices = {
        id(module.weight)
        for module in model.modules()
        if isinstance(module, torch.nn.Linear | torch.nn.Conv2d | torch.nn.ConvTranspose2d)
    }
    groups = []
    for of_prior, part in ((False, [model.encoder, model.decoder]), (True, [model.prior])):
        parameters = [p for module in part for p in module.parameters()]
        for decay in (True, False):
            chosen = [p for p in parameters if (id(p) in matrices) == decay]
            rate = params.weight_decay if decay else 0.0
            groups.append({"params": chosen, "weight_decay": rate, "prior": of_prior})
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(groups, lr=params.lr, betas=(0.9, 0.99), fused=True)

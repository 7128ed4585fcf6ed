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

import numpy as np
import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel
from tqdm import tqdm

from genlab.core import io as artifacts
from genlab.core.errors import GenlabError
from genlab.core.params import Params
from genlab.distributions.pixels import PixelLikelihood
from genlab.vae.models.mixture_density import MixtureDensityPrior
from genlab.vae.models.priors import CodebookPrior, StandardPrior
from genlab.vae.models.vae import VAE
from genlab.vae.sampling.posterior import tensor
from genlab.vae.training import objective
from genlab.vae.training.batches import epoch_generator, walk
from genlab.vae.training.parallel import ShardedGradient
from genlab.vae.training.schedules import beta_at, lr_at
from genlab.vae.training.tasks import Items, Task

VALIDATION_ITEMS = 500
SETTLING_ITEMS = 2000  # items whose codes the prior's components start on
PLANNING_ITEMS, PLANNED_AFTER = 10_000, 0.2  # items and share of the run behind its plans
AUTOENCODER_LR = 0.1  # of the learning rate, once the learned prior is in
LOSSES = ("loss", "reconstruction_loss", "kl_divergence")
EXPLODING = 20.0  # times the running mean of the gradient norm
NORM_RATE = 0.05  # of that running mean
STATE_VERSION = 2

Tensors = tuple[Tensor, ...] | list[Tensor]
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


class Trainer:
    """Train on the items of a task.

    val: items as the task's own, of which the first VALIDATION_ITEMS are looked at. All random
    numbers are drawn on the CPU, so that they are the same on any device. state_dir holds the state
    of the run in the making.
    """

    def __init__(
        self,
        params: Params,
        task: Task,
        val: Items,
        state_dir: Path,
        device: torch.device | None = None,
    ) -> None:
        self.params, self.task = params, task
        self.device = device or torch.device("cpu")
        self.val = tensor(val[:VALIDATION_ITEMS]).to(self.device)
        self.state_file = state_dir / "state.pt"
        self.cells = self.val[0].numel()
        torch.manual_seed(params.seed)
        self.model = VAE(task.architecture).to(self.device)
        self.average = _average(self.model, params.ema)
        self.waiting = StandardPrior(params.latent_dim)
        self.optimiser = _optimiser(self.model, params)
        self.gradient = ShardedGradient(_trained(self.model), params.threads)
        self.half = half_precision(params.precision, self.device)
        self.encode, self.decode = self.model.encode, self.model.decode
        if params.compile:
            self.encode, self.decode = torch.compile(self.encode), torch.compile(self.decode)
        self.progress = Progress()
        if self.state_file.exists():
            self._load_state()

    @property
    def measured(self) -> VAE:
        """The model that is validated and kept: the averaged one where `ema` asks for it."""
        if self.average is None:
            return self.model
        averaged = self.average.module
        assert isinstance(averaged, VAE)
        return averaged

    @property
    def delay(self) -> int:
        """Whole epochs before beta and the learned prior come in, at most all but one."""
        return min(round(self.params.beta_delay * self.params.epochs), self.params.epochs - 1)

    @property
    def planning(self) -> int:
        """The epoch before which the plans of an autoregressive mixture are found."""
        return max(self.delay, round(PLANNED_AFTER * self.params.epochs))

    @property
    def waits(self) -> bool:
        """Whether the learned prior has not come in yet: p(z) is N(0, I) until then."""
        return self.progress.epoch < self.delay

    @property
    def updates_an_epoch(self) -> int:
        return self.params.samples_per_epoch // self.params.batch_size

    def run(self, on_epoch: EpochEnd) -> VAE:
        """Train to the end; returns the best model. `on_epoch` is called after each epoch, before
        its state is saved, so that what it writes is never behind the state."""
        p, progress = self.params, self.progress
        total = p.epochs * self.updates_an_epoch * p.batch_size
        done = progress.epoch * self.updates_an_epoch * p.batch_size
        with tqdm(total=total, initial=done, unit="item", unit_scale=True, smoothing=0.02) as bar:
            while progress.epoch < p.epochs and not progress.stopped(p.patience, self.delay):
                started = time.perf_counter()
                self._begin(progress.epoch)
                trained = self._epoch(progress.epoch, bar)
                seconds = time.perf_counter() - started
                values = {**trained, **self.validate(trained["beta"])}
                progress.epoch += 1
                progress.seconds += time.perf_counter() - started
                progress.history.append(values)
                self._keep_best(values["val_objective"])
                items = self.updates_an_epoch * p.batch_size
                timing = {"samples_per_second": items / seconds}
                on_epoch(progress.epoch, self.measured, values, timing)
                self._save_state()
                bar.set_postfix(epoch=progress.epoch, elbo=f"{values['elbo']:.1f}")
        self.model.load_state_dict(progress.best)
        return self.model.eval()

    @torch.no_grad()
    def _begin(self, epoch: int) -> None:
        """Bring in the learned prior, or its plans, when their epoch has come.

        Encoder and decoder init_from_codes first, at beta 0, since a prior fitted to codes that are still
        finding their places is work thrown away (and most of an update's cost). Then the prior's
        components start on the clusters that the codes have formed. Plans are clusters of whole
        codes, found once the codes tell things apart.
        """
        if epoch == self.delay and isinstance(self.model.prior, CodebookPrior):
            self.model.eval()
            items = self.task.batch(np.arange(min(SETTLING_ITEMS, len(self.task.items))))
            mean, log_var = self.model.encode(items.to(self.device))
            codes = mean.reshape(-1, self.model.prior.token_dim)
            self.model.prior.init_from_codes(codes, float((0.5 * log_var).exp().mean()))
            self.progress.norm_mean = 0.0
        if epoch == self.planning and isinstance(self.model.prior, MixtureDensityPrior):
            self.model.eval()
            rows = np.arange(min(PLANNING_ITEMS, len(self.task.items)))
            parts = [self.task.batch(part) for part in np.array_split(rows, 1 + len(rows) // 500)]
            codes = torch.cat([self.model.encode(x.to(self.device))[0] for x in parts])
            if len(codes) >= self.model.prior.PLANS:
                self.model.prior.init_from_codes(codes, self.params.seed)

    def _epoch(self, epoch: int, bar: tqdm[Any]) -> dict[str, float]:
        """One epoch; the means of its losses, nats an item."""
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
        x = self.task.changed(x, generator)
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
            self._observe(parts)
        self.progress.updates += 1
        finite = {name: float(parts[name].nan_to_num(0.0, 0.0, 0.0)) for name in LOSSES}
        return finite, norm if math.isfinite(norm) else 0.0

    def _observe(self, parts: dict[str, Tensor]) -> None:
        """Take in what is learned without a gradient: clusters, sigma, averaged weights."""
        model = self.model
        if "moments" in parts and isinstance(model.prior, CodebookPrior):
            model.prior.observe(parts["moments"])
        if "squared_error" in parts and isinstance(model.likelihood, PixelLikelihood):
            model.likelihood.observe(parts["squared_error"])
        if self.average is not None:
            self.average.update_parameters(model)

    def _surrogate(self, x: Tensor, noise: Tensor, beta: float) -> tuple[Tensor, dict[str, Tensor]]:
        """The sum over items of the training loss, nats a cell, and its readable parts."""
        model = self.model
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
            mean, log_var = self.encode(x)
        mean, log_var = mean.float(), log_var.float()
        z = objective.reparameterise(mean, log_var, noise)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
            out = self.decode(z)
        out = out.float()
        loss = self._loss(model, x, out, mean, log_var, z, beta)
        share = len(x) / self.params.batch_size
        parts = {
            "loss": loss.loss * share,
            "reconstruction_loss": loss.reconstruction * share,
            "kl_divergence": loss.kl * share,
        }
        if isinstance(model.prior, CodebookPrior) and not self.waits:
            parts["moments"] = model.prior.moments(mean, log_var)
        if isinstance(model.likelihood, PixelLikelihood):
            error = model.likelihood.squared_error(out, x)
            if error is not None:
                parts["squared_error"] = error * share
        return loss.surrogate * (share / self.cells), parts

    def _loss(
        self,
        model: VAE,
        x: Tensor,
        out: Tensor,
        mean: Tensor,
        log_var: Tensor,
        z: Tensor,
        beta: float,
    ) -> objective.TrainingLoss:
        gate = torch.ones((), device=self.device)
        prior = self.waiting if self.waits else model.prior
        return objective.training_loss(
            self.task.nll(model, out, x),
            objective.token_kl(prior, mean, log_var, z, encoder_gradient=gate),
            beta=beta,
            free_nats=self.params.free_bits * self.params.latent_dim,
            gate=gate,
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
        """The training loss, the untouched bound and accuracies on the validation items."""
        model = self.measured.eval()
        p, x = self.params, self.val
        generator = torch.Generator().manual_seed(0)
        noise = torch.randn(len(x), p.latent_dim, generator=generator).to(self.device)
        mean, log_var = model.encode(x)
        z = objective.reparameterise(mean, log_var, noise)
        out = model.decode(z)
        loss = self._loss(model, x, out, mean, log_var, z, beta)
        prior = self.waiting if self.waits else model.prior
        log_likelihood = model.likelihood.log_prob(out, x)
        elbo_terms = objective.bound(prior, log_likelihood, mean, log_var, z)
        values = {
            "loss": float(loss.loss),
            "reconstruction_loss": float(-elbo_terms.log_likelihood.mean()),
            "kl_divergence": float(elbo_terms.kl.mean()),
            "beta_kl": beta * float(elbo_terms.kl.mean()),
            "elbo": -float(elbo_terms.neg_elbo.mean()),
            **self.task.numbers(model.reconstruct(x), x),
        }
        # What the best epoch is chosen by: the bound at the final beta, so that epochs of the
        # warm-up compare with later ones; nats that go free are no gain.
        paid = elbo_terms.kl.mean().clamp_min(p.free_bits * p.latent_dim)
        values["val_objective"] = float(p.beta_max * paid - elbo_terms.log_likelihood.mean())
        return values

    def _set_lr(self, at: float) -> float:
        """Set the learning rates; returns the full one.

        Once a learned prior has come in, the settled autoencoder moves at AUTOENCODER_LR of it.
        """
        delay = self.delay / self.params.epochs
        lr = lr_at(at, self.params.lr_schedule, self.params.lr, delay)
        learned = isinstance(self.model.prior, CodebookPrior) and not self.waits
        for group in self.optimiser.param_groups:
            group["lr"] = lr * AUTOENCODER_LR if learned and not group["prior"] else lr
        return lr

    def _beta(self, at: float) -> float:
        p = self.params
        delay = self.delay / p.epochs
        return beta_at(at, p.beta_schedule, p.beta_max, p.beta_warmup, p.beta_cycles, delay)

    def batches(self, epoch: int) -> Iterator[Tensor]:
        """The epoch's batches of training items."""
        p = self.params
        taken = self.updates_an_epoch * p.batch_size
        rows = walk(p.seed, len(self.task.items), epoch * taken, taken)
        for start in range(0, taken, p.batch_size):
            yield self.task.batch(rows[start : start + p.batch_size])

    def _keep_best(self, score: float) -> None:
        """Keep the weights of the best epoch; any epoch's are better than those of the delay."""
        if not math.isfinite(score):
            score = math.inf
        if score < self.progress.best_score or self.progress.best_epoch <= self.delay:
            self.progress.best_score, self.progress.best_epoch = score, self.progress.epoch
            state = self.measured.state_dict()
            self.progress.best = {name: value.clone() for name, value in state.items()}

    def _save_state(self) -> None:
        state = {
            "version": STATE_VERSION,
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
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
            if self.average is not None:
                self.average.load_state_dict(state["average"])
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
    own = [model.encoder, model.decoder, model.likelihood]
    for of_prior, part in ((False, own), (True, [model.prior])):
        parameters = [p for module in part for p in module.parameters() if p.requires_grad]
        for decay in (True, False):
            chosen = [p for p in parameters if (id(p) in matrices) == decay]
            rate = params.weight_decay if decay else 0.0
            groups.append({"params": chosen, "weight_decay": rate, "prior": of_prior})
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(groups, lr=params.lr, betas=(0.9, 0.99), fused=True)


def _trained(model: VAE) -> list[Tensor]:
    return [p for p in model.parameters() if p.requires_grad]


def _average(model: VAE, ema: float) -> AveragedModel | None:
    """A copy of the model whose weights follow it slowly; None where `ema` is 0.

    It follows faster at first, so that a short run's average forgets the weights it began with.
    Buffers (sigma, clusters) are running means by themselves: they are copied.
    """
    if not ema:
        return None

    @torch.no_grad()
    def follow(averaged: Tensors, current: Tensors, seen: Tensor | int) -> None:
        updates = int(seen)
        memory = min(ema, (1 + updates) / (10 + updates))
        torch._foreach_lerp_(averaged, current, 1 - memory)

    return AveragedModel(model, multi_avg_fn=follow)


def half_precision(precision: str, device: torch.device) -> bool:
    """Whether networks run in bfloat16: asked for, or `auto` on a GPU that has it."""
    if precision == "auto":
        return device.type == "cuda" and torch.cuda.is_bf16_supported()
    return precision == "bfloat16"

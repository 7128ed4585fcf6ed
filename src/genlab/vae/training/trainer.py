"""Train a VAE: epochs, the best checkpoint, early stopping, and resuming after a kill.

Everything random in epoch e is seeded by (seed, e), and the state after each whole epoch is on
disk, so that a killed run resumes at the last whole epoch and ends bit for bit where an
uninterrupted one ends.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from genlab.core.params import Params
from genlab.core.progress import progress as progress_bar
from genlab.distributions.gaussian import reparameterize
from genlab.vae.models.priors import Prior, StandardPrior
from genlab.vae.models.vae import VAE, Items, to_tensor
from genlab.vae.training.batches import epoch_generator, shuffled_rows
from genlab.vae.training.checkpoint import Progress, load_state, save_state
from genlab.vae.training.objective import scale_gradient, training_loss
from genlab.vae.training.optimizer import average_weights, make_optimizer
from genlab.vae.training.parallel import ShardedGradient
from genlab.vae.training.schedules import beta_at, lr_at
from genlab.vae.training.tasks import Task

VALIDATION_ITEMS = 500
LOSSES = ("loss", "reconstruction_loss", "kl_divergence")
EXPLODING = 20.0  # times the running mean of the gradient norm
NORM_RATE = 0.05  # of that running mean

EpochEnd = Callable[[int, VAE, dict[str, float], dict[str, float]], None]


class Trainer:
    """Train on the items of a task.

    val: items as the task's own, of which the first VALIDATION_ITEMS are looked at. All random
    numbers are drawn on the CPU, so that they are the same on any device. state_dir holds the state
    of the unfinished run.
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
        self.val = to_tensor(val[:VALIDATION_ITEMS]).to(self.device)
        self.state_file = state_dir / "state.pt"
        self.cells = self.val[0].numel()
        torch.manual_seed(params.seed)
        self.model = VAE(task.architecture).to(self.device)
        self.standard_prior = StandardPrior(params.latent_dim)
        self.optimizer = make_optimizer(self.model, params)
        self._stateful: dict[str, Any] = {"model": self.model, "optimizer": self.optimizer}
        self.measured = self.model  # the model that is validated and kept
        self.average = average_weights(self.model, params.ema)
        if self.average is not None:
            self._stateful["average"] = self.average
            self.measured = cast("VAE", self.average.module)
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.gradient = ShardedGradient(trained, params.threads)
        self.progress = Progress()
        if self.state_file.exists():
            self.progress = load_state(self.state_file, self._stateful, self.device)

    @property
    def delay(self) -> int:
        """Whole epochs before beta and the learned prior come in, at most all but one."""
        return min(round(self.params.beta_delay * self.params.epochs), self.params.epochs - 1)

    @property
    def delayed(self) -> bool:
        """Whether the learned prior has not come in yet: p(z) is N(0, I) until then."""
        return self.progress.epoch < self.delay

    @property
    def updates_per_epoch(self) -> int:
        return self.params.samples_per_epoch // self.params.batch_size

    def run(self, on_epoch: EpochEnd) -> VAE:
        """Train to the end; returns the best model. `on_epoch` is called after each epoch, before
        its state is saved, so that what it writes is never behind the state."""
        p, progress = self.params, self.progress
        items = self.updates_per_epoch * p.batch_size
        with progress_bar(
            total=p.epochs * items,
            initial=progress.epoch * items,
            unit="item",
            unit_scale=True,
            smoothing=0.02,
        ) as bar:
            while progress.epoch < p.epochs and not self._stops_early():
                started = time.perf_counter()
                self._start_prior(progress.epoch)
                trained = self._train_epoch(progress.epoch, bar)
                seconds = time.perf_counter() - started
                values = {**trained, **self.validate(trained["beta"])}
                progress.epoch += 1
                progress.seconds += time.perf_counter() - started
                progress.history.append(values)
                self._keep_best(values["val_objective"])
                timing = {"samples_per_second": items / seconds}
                on_epoch(progress.epoch, self.measured, values, timing)
                save_state(self.state_file, progress, self._stateful)
                elbo = f"{values['elbo']:.1f}"
                bar.set_postfix(epoch=progress.epoch, elbo=elbo, refresh=False)
        self.model.load_state_dict(progress.best)
        return self.model.eval()

    def _stops_early(self) -> bool:
        """Whether `patience` epochs after those of the delay brought no better score."""
        best = max(self.progress.best_epoch, self.delay)
        return self.progress.epoch - best >= self.params.patience

    @torch.no_grad()
    def _start_prior(self, epoch: int) -> None:
        """Start a learned prior from the codes that have formed, when its epoch has come.

        Encoder and decoder converge first, at beta 0, since a prior fitted to codes that are still
        finding their places is work thrown away (and most of an update's cost).
        """
        prior = self.model.prior
        start = max(self.delay, round(prior.INIT_AFTER * self.params.epochs))
        if epoch != start or not prior.INIT_ITEMS:
            return
        self.model.eval()
        rows = np.arange(min(prior.INIT_ITEMS, len(self.task.items)))
        parts = np.array_split(rows, 1 + len(rows) // VALIDATION_ITEMS)  # no larger than `val`
        codes = [self.model.encode(self.task.batch(part).to(self.device)) for part in parts]
        mean, log_var = (torch.cat(part) for part in zip(*codes, strict=True))
        prior.init_from_codes(mean, log_var, self.params.seed)
        if epoch == self.delay:
            self.progress.norm_mean = 0.0  # the loss is another one from here on

    def _train_epoch(self, epoch: int, bar: tqdm[Any]) -> dict[str, float]:
        """Train for one epoch; returns the means of its losses in nats per item."""
        self.model.train()
        p, steps = self.params, self.updates_per_epoch
        delay = self.delay / p.epochs
        generator = epoch_generator(p.seed, epoch)
        sums = dict.fromkeys(LOSSES, 0.0)
        norms = beta = lr = 0.0
        for step, x in enumerate(self.batches(epoch)):
            at = (epoch * steps + step) / (p.epochs * steps)
            beta = beta_at(at, p.beta_schedule, p.beta_max, p.beta_warmup, delay)
            lr = lr_at(at, p.lr_schedule, p.lr, delay)
            for group in self.optimizer.param_groups:
                # The autoencoder learns slower beside a codebook prior.
                slower = not (group["prior"] or self.delayed)
                group["lr"] = lr * self.model.prior.AUTOENCODER_LR if slower else lr
            losses, norm = self.update(x, beta, generator)
            for name, value in losses.items():
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
        """Take one optimiser step, unless its gradient is not finite or explodes.

        Returns the losses in nats per item and the gradient's norm, 0 where they are not finite.
        """
        x = self.task.augment(x, generator)
        noise = torch.randn(len(x), self.params.latent_dim, generator=generator)
        x, noise = x.to(self.device), noise.to(self.device)
        sums = self.gradient(lambda rows: self._surrogate(x[rows], noise[rows], beta), len(x))
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        norm = float(torch.nn.utils.get_total_norm(gradients))
        self.progress.updates += 1
        if self._explodes(norm):
            self.progress.skipped_updates += 1
        else:
            if self.params.grad_clip > 0:
                for group in self.optimizer.param_groups:
                    torch.nn.utils.clip_grad_norm_(group["params"], self.params.grad_clip)
            self.optimizer.step()
            for name in ("prior", "likelihood"):
                if name in sums:
                    getattr(self.model, name).observe(sums[name])
            if self.average is not None:
                self.average.update_parameters(self.model)
        finite = {name: float(sums[name].nan_to_num(0.0, 0.0, 0.0)) for name in LOSSES}
        return finite, norm if math.isfinite(norm) else 0.0

    def _surrogate(self, x: Tensor, noise: Tensor, beta: float) -> tuple[Tensor, dict[str, Tensor]]:
        """What is differentiated, in nats per cell, and what is summed over the batch's parts."""
        model = self.model
        surrogate, losses, decoded, (mean, log_var, _) = self._loss(model, x, noise, beta)
        share = len(x) / self.params.batch_size
        sums = {name: loss * share for name, loss in losses.items()}
        codes = None if self.delayed else model.prior.statistics(mean, log_var)
        if codes is not None:
            sums["prior"] = codes
        errors = model.likelihood.statistics(decoded[0], x)
        if errors is not None:
            sums["likelihood"] = errors * share
        return surrogate * (share / self.cells), sums

    def _loss(
        self, model: VAE, x: Tensor, noise: Tensor, beta: float
    ) -> tuple[Tensor, dict[str, Tensor], tuple[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]:
        """`training_loss` of items x, then what was decoded and (mean, log_var, z)."""
        mean, log_var = model.encode(x)
        z = reparameterize(mean, log_var, noise)
        decoded = model.decode(z)
        gate = torch.ones((), device=self.device)
        surrogate, losses = training_loss(
            self.task.nll(model, decoded, x),
            self._prior(model).token_kl(*(scale_gradient(t, gate) for t in (mean, log_var, z))),
            beta=beta,
            free_nats=self.params.free_bits * self.params.latent_dim,
            gate=gate,
        )
        return surrogate, losses, decoded, (mean, log_var, z)

    def _prior(self, model: VAE) -> Prior:
        return self.standard_prior if self.delayed else model.prior

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
        """The training loss, the ELBO itself and accuracies on the validation items."""
        model = self.measured.eval()
        p, x = self.params, self.val
        generator = torch.Generator().manual_seed(0)
        noise = torch.randn(len(x), p.latent_dim, generator=generator).to(self.device)
        _, losses, decoded, codes = self._loss(model, x, noise, beta)
        nll = -model.log_likelihood(decoded, x)
        kl = self._prior(model).token_kl(*codes).sum(1)
        # What the best epoch is chosen by: the bound at the final beta, so that epochs of the
        # warm-up compare with later ones; nats that go free are no gain.
        paid = kl.mean().clamp_min(p.free_bits * p.latent_dim)
        return {
            "loss": float(losses["loss"]),
            "reconstruction_loss": float(nll.mean()),
            "kl_divergence": float(kl.mean()),
            "beta_kl": beta * float(kl.mean()),
            "elbo": -float((kl + nll).mean()),
            **self.task.measure_accuracy(model.reconstruct(x), x),
            "val_objective": float(p.beta_max * paid + nll.mean()),
        }

    def batches(self, epoch: int) -> Iterator[Tensor]:
        """The epoch's batches of training items."""
        p = self.params
        taken = self.updates_per_epoch * p.batch_size
        rows = shuffled_rows(p.seed, len(self.task.items), epoch * taken, taken)
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

    def remove_state(self) -> None:
        """Remove the state of the unfinished run, once its results are written."""
        shutil.rmtree(self.state_file.parent, ignore_errors=True)

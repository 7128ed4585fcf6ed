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
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from genlab.core.engine import torch_threads
from genlab.core.params import Params
from genlab.core.progress import progress as progress_bar
from genlab.distributions.gaussian import reparameterize
from genlab.vae.models.vae import VAE, Items, to_tensor
from genlab.vae.training import distributed
from genlab.vae.training.batches import make_epoch_generator, shuffle_rows
from genlab.vae.training.checkpoint import Progress, load_state, save_state
from genlab.vae.training.objective import weight_kl
from genlab.vae.training.schedules import Phases, beta_at, lr_at
from genlab.vae.training.step import LOSSES, TrainingStep
from genlab.vae.training.tasks import Task

VALIDATION_ITEMS = 1000
CHUNK = 100  # items that are validated, or encoded to start a prior, at a time

EpochEnd = Callable[[int, VAE, dict[str, float], dict[str, float]], None]


class Trainer:
    """Train on the items of a task.

    val: validation items, of which the first VALIDATION_ITEMS are used. state_dir: folder for the
    state of the unfinished run. Random numbers are drawn on the device.
    """

    def __init__(
        self,
        params: Params,
        task: Task,
        val: Items,
        state_dir: Path,
        device: torch.device | None = None,
    ) -> None:
        self.params = params
        self.task = task
        self.device = device or torch.device("cpu")
        self.val = to_tensor(val[:VALIDATION_ITEMS]).to(self.device)
        self.state_file = state_dir / "state.pt"
        self.phases = Phases.from_params(params)
        distributed.require_divisible(params.batch_size)
        torch.manual_seed(params.seed)
        self.step = TrainingStep(params, task, self.device)
        self.model = self.step.model
        self.eval_model = self.step.eval_model
        self._stateful: dict[str, Any] = {"model": self.model, "optimizer": self.step.optimizer}
        if self.step.average is not None:
            self._stateful["average"] = self.eval_model
        self.progress = Progress()
        if self.state_file.exists():
            self.progress = load_state(self.state_file, self._stateful, self.device)
            self.step.count = self.progress.updates

    @property
    def updates_per_epoch(self) -> int:
        return self.params.samples_per_epoch // self.params.batch_size

    def run(self, on_epoch: EpochEnd) -> VAE:
        """Train to the end; returns the best model.

        `on_epoch` is called after each epoch, before the state is saved, so that the files that it
        writes are never behind the state.
        """
        p = self.params
        progress = self.progress
        items = self.updates_per_epoch * p.batch_size
        with progress_bar(
            disable=not distributed.is_first(),
            total=p.epochs * items,
            initial=progress.epoch * items,
            unit="item",
            unit_scale=True,
            smoothing=0.02,
        ) as bar:
            while progress.epoch < p.epochs and not self._stops_early():
                started = time.perf_counter()
                self._enter_phase(progress.epoch)
                trained = self._train_epoch(progress.epoch, bar)
                seconds = time.perf_counter() - started
                with torch_threads(p.threads):  # validation gains from threads inside operators
                    values = distributed.broadcast({**trained, **self.validate(trained["beta"])})
                progress.epoch += 1
                progress.seconds += time.perf_counter() - started
                progress.history.append(values)
                self._update_best((values["val_objective"], values["kl_divergence"]))
                timing = {"samples_per_second": items / seconds}
                if distributed.is_first():
                    on_epoch(progress.epoch, self.eval_model, values, timing)
                    save_state(self.state_file, progress, self._stateful)
                elbo = f"{values['elbo']:.1f}"
                bar.set_postfix(epoch=progress.epoch, elbo=elbo, refresh=False)
        self.model.load_state_dict(progress.best)
        self.model.eval()
        return self.model

    def _stops_early(self) -> bool:
        """Whether the score has not improved for `patience` epochs after the delay."""
        best = max(self.progress.best_epoch, self.phases.delay)
        return self.progress.epoch - best >= self.params.patience

    @torch.no_grad()
    def _enter_phase(self, epoch: int) -> None:
        """Freeze the autoencoder, and initialize a learned prior from codes, at their epochs."""
        phases = self.phases
        prior = self.model.prior
        self.step.delayed = phases.is_delayed(epoch)
        if phases.is_prior_alone(epoch) and not self.step.prior_alone:
            self.step.freeze_autoencoder()
        start = max(phases.delay, round(prior.INIT_AFTER * phases.joint))
        if epoch != start or not prior.INIT_ITEMS:
            return
        self.model.eval()
        rows = torch.arange(min(prior.INIT_ITEMS, len(self.task.items)), device=self.device)
        codes = [self.model.encode(self.task.load_batch(r)) for r in torch.split(rows, CHUNK)]
        mean = torch.cat([chunk_mean for chunk_mean, _ in codes])
        log_var = torch.cat([chunk_log_var for _, chunk_log_var in codes])
        prior.init_from_codes(mean, log_var, self.params.seed)

    def _train_epoch(self, epoch: int, bar: tqdm[Any]) -> dict[str, float]:
        """Train for one epoch; returns the means of its losses in nats per item."""
        self.model.train()
        p = self.params
        phases = self.phases
        steps = self.updates_per_epoch
        prior_alone = phases.is_prior_alone(epoch)
        generator = make_epoch_generator(p.seed, epoch, self.device)
        # While a codebook is trained, encoder and decoder learn more slowly.
        lr_factor = 1.0 if phases.is_delayed(epoch) else self.model.prior.AUTOENCODER_LR
        names = (*LOSSES, "gradient_norm", "skipped")
        sums = {name: torch.zeros((), device=self.device) for name in names}
        beta = lr = 0.0
        for step, x in enumerate(self.iterate_batches(epoch)):
            epochs_done = epoch + step / steps
            progress = phases.autoencoder_progress(epochs_done)
            if not phases.is_delayed(epoch):
                beta = beta_at(progress, p.beta_schedule, p.beta_max, p.beta_warmup)
            lr = 0.0 if prior_alone else lr_at(progress, p.lr_schedule, p.lr)
            prior_lr = lr_at(phases.prior_progress(epochs_done), p.lr_schedule, p.lr)
            self.step.set_rates(lr_factor * lr, prior_lr)
            for name, value in self.step(x, beta, generator).items():
                sums[name] += value
            bar.update(len(x))
        totals = {name: float(value) for name, value in sums.items()}
        self.progress.updates += steps
        self.progress.skipped_updates += round(totals["skipped"])
        taken = max(1, steps - round(totals["skipped"]))  # a skipped update has no loss
        return {
            **{f"train/{name}": totals[name] / taken for name in LOSSES},
            "beta": beta,
            "learning_rate": prior_lr if prior_alone else lr,
            "gradient_norm": totals["gradient_norm"] / taken,
            "skipped_updates": float(self.progress.skipped_updates),
        }

    @torch.no_grad()
    def validate(self, beta: float) -> dict[str, float]:
        """Compute the training loss with its terms, the ELBO and accuracies on validation items.

        `loss` is the sum of the terms of `Task.cost_terms` and of `kl_loss`, which is
        beta * max(KL, free nats).
        """
        p = self.params
        model = self.eval_model.eval()
        free_nats = p.free_bits * p.latent_dim
        generator = torch.Generator(self.device).manual_seed(0)
        rows = []
        reconstructed = []
        for x in torch.split(self.val, CHUNK):
            noise = torch.randn((len(x), p.latent_dim), generator=generator, device=self.device)
            mean, log_var = model.encode(x)
            z = reparameterize(mean, log_var, noise)
            decoded = model.decode(z)
            nll = -model.log_likelihood(decoded, x)
            terms = self.task.cost_terms(model, decoded, x, nll)
            means = {name: term.mean() for name, term in terms.items()}
            kl = self.step.prior_of(model).bound_token_kl(mean, log_var, z).sum(1).mean()
            means["kl_loss"] = weight_kl(kl, beta, free_nats)
            loss = torch.stack([*means.values()]).sum()
            row = torch.stack([loss, nll.mean(), kl, *means.values()])
            rows.append(row * (len(x) / len(self.val)))
            reconstructed.append(model.point_estimate(mean))
        loss, nll, kl, *loss_terms = torch.stack(rows).sum(0).tolist()
        # The best epoch is chosen by the bound at the final beta, so that epochs of the warm-up
        # compare with later ones; a KL below the free nats counts as much as they.
        counted_kl = max(kl, free_nats)
        return {
            **dict(zip(means, loss_terms, strict=True)),
            "loss": loss,
            "reconstruction_loss": nll,
            "kl_divergence": kl,
            "beta_kl": beta * kl,
            "elbo": -(kl + nll),
            **self.task.measure_accuracy(torch.cat(reconstructed), self.val),
            "val_objective": p.beta_max * counted_kl + nll,
        }

    def iterate_batches(self, epoch: int) -> Iterator[Tensor]:
        """Iterate over the epoch's batches of training items."""
        p = self.params
        count = self.updates_per_epoch * p.batch_size
        rows = shuffle_rows(p.seed, len(self.task.items), epoch * count, count)
        for batch_rows in torch.split(torch.from_numpy(rows).to(self.device), p.batch_size):
            yield self.task.load_batch(batch_rows)

    def _update_best(self, score: tuple[float, float]) -> None:
        """Copy the weights if this epoch is the best; any later one is better than the delay's.

        score: objective and KL. While the prior is trained alone, the objective may not change
        (beta 0, or free nats): of epochs with equal objectives, the lowest KL is best.
        """
        if not all(map(math.isfinite, score)):
            score = (math.inf, math.inf)
        progress = self.progress
        if score < progress.best_score or progress.best_epoch <= self.phases.delay:
            progress.best_score = score
            progress.best_epoch = progress.epoch
            state = self.eval_model.state_dict()
            progress.best = {name: value.clone() for name, value in state.items()}

    def remove_state(self) -> None:
        """Remove the state of the unfinished run, once its results are written."""
        shutil.rmtree(self.state_file.parent, ignore_errors=True)

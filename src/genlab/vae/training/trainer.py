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
from genlab.vae.training.schedules import Phases, beta_at, lr_at
from genlab.vae.training.step import LOSSES, TrainingStep
from genlab.vae.training.tasks import Task

VALIDATION_ITEMS = 1000
CHUNK = 100  # items that are validated, or encoded to start a prior, at a time

EpochEnd = Callable[[int, VAE, dict[str, float], dict[str, float]], None]


class Trainer:
    """Train on the items of a task.

    val: items as the task's own, of which the first VALIDATION_ITEMS are looked at. Random numbers
    are drawn on the device. state_dir holds the state of the unfinished run.
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
        self.phases = Phases.of(params)
        distributed.require_divisible(params.batch_size)
        torch.manual_seed(params.seed)
        self.step = TrainingStep(params, task, self.device)
        self.model, self.measured = self.step.model, self.step.measured
        self._stateful: dict[str, Any] = {"model": self.model, "optimizer": self.step.optimizer}
        if self.step.average is not None:
            self._stateful["average"] = self.measured
        self.progress = Progress()
        if self.state_file.exists():
            self.progress = load_state(self.state_file, self._stateful, self.device)
            self.step.count = self.progress.updates

    @property
    def updates_per_epoch(self) -> int:
        return self.params.samples_per_epoch // self.params.batch_size

    def run(self, on_epoch: EpochEnd) -> VAE:
        """Train to the end; returns the best model. `on_epoch` is called after each epoch, before
        its state is saved, so that what it writes is never behind the state."""
        p, progress = self.params, self.progress
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
                with torch_threads(p.threads):  # its operators are long, unlike an update's
                    values = distributed.broadcast({**trained, **self.validate(trained["beta"])})
                progress.epoch += 1
                progress.seconds += time.perf_counter() - started
                progress.history.append(values)
                self._keep_best((values["val_objective"], values["kl_divergence"]))
                timing = {"samples_per_second": items / seconds}
                if distributed.is_first():
                    on_epoch(progress.epoch, self.measured, values, timing)
                    save_state(self.state_file, progress, self._stateful)
                elbo = f"{values['elbo']:.1f}"
                bar.set_postfix(epoch=progress.epoch, elbo=elbo, refresh=False)
        self.model.load_state_dict(progress.best)
        self.model.eval()
        return self.model

    def _stops_early(self) -> bool:
        """Whether `patience` epochs after those of the delay brought no better score."""
        best = max(self.progress.best_epoch, self.phases.delay)
        return self.progress.epoch - best >= self.params.patience

    @torch.no_grad()
    def _enter_phase(self, epoch: int) -> None:
        """Start a learned prior from the codes that have formed, and finish the autoencoder."""
        phases, prior = self.phases, self.model.prior
        self.step.delayed = phases.delayed(epoch)
        if phases.prior_alone(epoch) and not self.step.prior_alone:
            self.step.freeze_autoencoder()
        start = max(phases.delay, round(prior.INIT_AFTER * phases.joint))
        if epoch != start or not prior.INIT_ITEMS:
            return
        self.model.eval()
        rows = torch.arange(min(prior.INIT_ITEMS, len(self.task.items)), device=self.device)
        codes = [self.model.encode(self.task.batch(part)) for part in torch.split(rows, CHUNK)]
        mean, log_var = (torch.cat(part) for part in zip(*codes, strict=True))
        prior.init_from_codes(mean, log_var, self.params.seed)

    def _train_epoch(self, epoch: int, bar: tqdm[Any]) -> dict[str, float]:
        """Train for one epoch; returns the means of its losses in nats per item."""
        self.model.train()
        p, steps, phases = self.params, self.updates_per_epoch, self.phases
        generator = make_epoch_generator(p.seed, epoch, self.device)
        # While a codebook is trained, the autoencoder learns slower beside it.
        slower = 1.0 if phases.delayed(epoch) else self.model.prior.AUTOENCODER_LR
        names = (*LOSSES, "gradient_norm", "skipped")
        sums = {name: torch.zeros((), device=self.device) for name in names}
        beta = lr = 0.0
        for step, x in enumerate(self.batches(epoch)):
            at = epoch + step / steps
            progress = phases.autoencoder_progress(at)
            if not phases.delayed(epoch):
                beta = beta_at(progress, p.beta_schedule, p.beta_max, p.beta_warmup)
            lr = 0.0 if phases.prior_alone(epoch) else lr_at(progress, p.lr_schedule, p.lr)
            prior_lr = lr_at(phases.prior_progress(at), p.lr_schedule, p.lr)
            self.step.set_rates(slower * lr, prior_lr)
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
            "learning_rate": prior_lr if phases.prior_alone(epoch) else lr,
            "gradient_norm": totals["gradient_norm"] / taken,
            "skipped_updates": float(self.progress.skipped_updates),
        }

    @torch.no_grad()
    def validate(self, beta: float) -> dict[str, float]:
        """The training loss, the ELBO itself and accuracies on the validation items."""
        model, p = self.measured.eval(), self.params
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
            cost = self.task.cost(model, decoded, x, nll).mean()
            kl = self.step.prior_of(model).token_kl(mean, log_var, z).sum(1).mean()
            terms = torch.stack([cost + beta * kl.clamp_min(free_nats), nll.mean(), kl])
            rows.append(terms * (len(x) / len(self.val)))
            reconstructed.append(model.point_estimate(mean))
        loss, nll, kl = torch.stack(rows).sum(0).tolist()
        # What the best epoch is chosen by: the bound at the final beta, so that epochs of the
        # warm-up compare with later ones; nats that go free are no gain.
        paid = max(kl, free_nats)
        return {
            "loss": loss,
            "reconstruction_loss": nll,
            "kl_divergence": kl,
            "beta_kl": beta * kl,
            "elbo": -(kl + nll),
            **self.task.measure_accuracy(torch.cat(reconstructed), self.val),
            "val_objective": p.beta_max * paid + nll,
        }

    def batches(self, epoch: int) -> Iterator[Tensor]:
        """The epoch's batches of training items."""
        p = self.params
        taken = self.updates_per_epoch * p.batch_size
        rows = shuffle_rows(p.seed, len(self.task.items), epoch * taken, taken)
        for part in torch.split(torch.from_numpy(rows).to(self.device), p.batch_size):
            yield self.task.batch(part)

    def _keep_best(self, score: tuple[float, float]) -> None:
        """Keep the weights of the best epoch; any epoch's are better than those of the delay.

        score: objective and KL. While the prior is trained alone, free nats and beta 0 leave the
        objective as it is: of equal epochs, the one with the lower KL is better.
        """
        if not all(map(math.isfinite, score)):
            score = (math.inf, math.inf)
        if score < self.progress.best_score or self.progress.best_epoch <= self.phases.delay:
            self.progress.best_score, self.progress.best_epoch = score, self.progress.epoch
            state = self.measured.state_dict()
            self.progress.best = {name: value.clone() for name, value in state.items()}

    def remove_state(self) -> None:
        """Remove the state of the unfinished run, once its results are written."""
        shutil.rmtree(self.state_file.parent, ignore_errors=True)

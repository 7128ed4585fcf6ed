"""One update of the weights, without waiting for the device: no number is read on the way."""

import torch
from torch import Tensor

from genlab.core.params import Params
from genlab.distributions.gaussian import reparameterize
from genlab.vae.models.priors import Prior, StandardPrior
from genlab.vae.models.vae import VAE, Decoded
from genlab.vae.training.gradient import BatchGradient
from genlab.vae.training.objective import scale_gradient, training_loss
from genlab.vae.training.optimizer import AveragedWeights, make_optimizer
from genlab.vae.training.tasks import Task

LOSSES = ("loss", "reconstruction_loss", "kl_divergence")
Codes = tuple[Tensor, Tensor, Tensor]  # mean, log variance, z


class Updates:
    """Take optimiser steps on batches of a task.

    delayed: whether the learned prior has not come in yet, so that p(z) is N(0, I). prior_alone:
    whether encoder and decoder are finished. measured: the model that is validated and kept, whose
    weights are the average where `ema` asks for one.
    """

    def __init__(self, params: Params, task: Task, device: torch.device) -> None:
        self.params, self.task, self.device = params, task, device
        self.delayed = self.prior_alone = False
        self.model = VAE(task.architecture).to(device).to(memory_format=torch.channels_last)
        self.standard_prior = StandardPrior(params.latent_dim)
        self.optimizer = make_optimizer(self.model, params)
        self.average = AveragedWeights(self.model, params.ema) if params.ema else None
        self.measured = self.average.model if self.average else self.model
        self.count = 0
        threads = params.threads if device.type == "cpu" else 1
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.gradient = BatchGradient(trained, threads * params.micro_batches, threads)
        self.low_precision = params.precision == "bfloat16"
        self.loss = torch.compile(self._loss) if params.compile else self._loss

    def __call__(self, x: Tensor, beta: float, generator: torch.Generator) -> dict[str, Tensor]:
        """Take one step, unless its gradient is not finite.

        Returns the losses in nats per item, `gradient_norm` before clipping, and `skipped`, all (),
        on the device; losses of a skipped update are 0.
        """
        clean = torch.ones(len(x), device=self.device)
        if not self.prior_alone:
            x, clean = self.task.augment(x, generator)
        shape = (len(x), self.params.latent_dim)
        noise = torch.randn(shape, generator=generator, device=self.device)
        sums = self.gradient(lambda r: self._surrogate(x[r], noise[r], clean[r], beta), len(x))
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        taken = norm.isfinite().float()
        if self.params.grad_clip > 0:
            for group in self.optimizer.param_groups:
                torch.nn.utils.clip_grad_norm_(group["params"], self.params.grad_clip)
        # What torch's gradient scaler sets: a fused optimiser leaves this step out where it is 1.
        self.optimizer.found_inf = 1 - taken  # type: ignore[attr-defined]
        self.optimizer.step()
        for name in ("prior", "likelihood"):
            if name in sums:
                getattr(self.model, name).observe(sums[name], taken)
        self.count += 1
        if self.average is not None:
            self.average.follow(self.model, self.count)
        known = {**{name: sums[name] for name in LOSSES}, "gradient_norm": norm}
        finite = {name: torch.where(taken > 0, value, 0.0) for name, value in known.items()}
        return {**finite, "skipped": 1 - taken}

    def set_rates(self, autoencoder: float, prior: float) -> None:
        """Set the learning rates of encoder and decoder, and of the prior."""
        for group in self.optimizer.param_groups:
            group["lr"] = prior if group["prior"] else autoencoder

    @torch.no_grad()
    def finish_autoencoder(self) -> None:
        """Train the prior alone from here on, for the encoder that is kept."""
        self.prior_alone = True
        self.gradient.parameters = list(self.model.prior.parameters())
        self.optimizer.zero_grad()  # without a gradient the others are left out
        for name in ("encoder", "decoder", "likelihood", "head"):
            part = getattr(self.model, name)
            if part is not None:
                part.load_state_dict(getattr(self.measured, name).state_dict())

    def loss_of(
        self, model: VAE, x: Tensor, noise: Tensor, clean: Tensor, beta: float
    ) -> tuple[Tensor, dict[str, Tensor], Decoded, Codes]:
        """`training_loss` of items x, then what was decoded and (mean, log_var, z)."""
        mean, log_var = model.encode(x)
        z = reparameterize(mean, log_var, noise)
        decoded = model.decode(z)
        gate = torch.ones((), device=x.device)
        surrogate, losses = training_loss(
            self.task.nll(model, decoded, x),
            self.prior_of(model).token_kl(*(scale_gradient(t, gate) for t in (mean, log_var, z))),
            clean=clean,
            beta=beta,
            free_nats=self.params.free_bits * self.params.latent_dim,
            gate=gate,
        )
        return surrogate, losses, decoded, (mean, log_var, z)

    def prior_of(self, model: VAE) -> Prior:
        """The prior that codes are measured by in this phase."""
        return self.standard_prior if self.delayed else model.prior

    def _loss(
        self, x: Tensor, noise: Tensor, clean: Tensor, beta: float
    ) -> tuple[Tensor, dict[str, Tensor], Tensor | None, Codes]:
        if self.prior_alone:
            with torch.no_grad():
                mean, log_var = self.model.encode(x)
                z = reparameterize(mean, log_var, noise)
            kl = self.model.prior.token_kl(mean, log_var, z).sum(1).mean()
            nothing = torch.full_like(kl, torch.nan)
            losses = {"loss": kl, "reconstruction_loss": nothing, "kl_divergence": kl}
            return kl, {n: v.detach() for n, v in losses.items()}, None, (mean, log_var, z)
        surrogate, losses, decoded, codes = self.loss_of(self.model, x, noise, clean, beta)
        return surrogate, losses, decoded[0], codes

    def _surrogate(
        self, x: Tensor, noise: Tensor, clean: Tensor, beta: float
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """What is differentiated, in nats per cell, and what is summed over the batch's parts."""
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.low_precision):
            surrogate, losses, out, (mean, log_var, _) = self.loss(x, noise, clean, beta)
        share = len(x) / self.params.batch_size
        sums = {name: loss * share for name, loss in losses.items()}
        codes = None if self.delayed else self.model.prior.statistics(mean, log_var, clean)
        if codes is not None:
            sums["prior"] = codes
        errors = None if out is None else self.model.likelihood.statistics(out, x)
        if errors is not None:
            sums["likelihood"] = errors * share
        return surrogate * (share / x[0].numel()), sums

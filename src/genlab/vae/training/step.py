"""A training step: the loss of `objective`, its gradient, and one update of the weights.

No number is read from the device on the way, so that a GPU never waits for Python.

A batch is differentiated in micro-batches: one after another where memory is short
(`micro_batches`), and on a CPU one per thread. The operators of a small model gain little from
threads inside them (measured: 1.3 times with two), since each is short: every thread takes
separate micro-batches instead, with single-threaded operators. Where several processes train,
each splits its own rows of the batch.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from genlab.core.params import Params
from genlab.distributions.gaussian import reparameterize
from genlab.vae.models.priors import Prior, StandardPrior
from genlab.vae.models.vae import VAE, Decoded
from genlab.vae.training import distributed
from genlab.vae.training.objective import gate_kl_weight, weight_kl
from genlab.vae.training.optimizer import AveragedWeights, make_optimizer
from genlab.vae.training.tasks import Task

LOSSES = ("loss", "reconstruction_cost", "kl_divergence")
Codes = tuple[Tensor, Tensor, Tensor]  # mean, log variance and z, each (batch, latent_dim)


class MicroBatch(NamedTuple):
    """Rows of a batch.

    x: the items. noise: (rows, latent_dim), standard normal. clean: (rows,), 1 for each item that
    is not corrupted, else 0.
    """

    x: Tensor
    noise: Tensor
    clean: Tensor


class StepSums(NamedTuple):
    """What is summed over the micro-batches of a step.

    gradients: in nats per cell, in the order of `TrainingStep.trained_weights`. terms: losses in
    nats per item, and the statistics that prior and likelihood follow.
    """

    gradients: list[Tensor]
    terms: dict[str, Tensor]

    def plus(self, sums: "StepSums") -> "StepSums":
        """Add the sums of one more micro-batch."""
        pairs = zip(self.gradients, sums.gradients, strict=True)
        gradients = [total + gradient for total, gradient in pairs]
        terms = {name: total + sums.terms[name] for name, total in self.terms.items()}
        return StepSums(gradients, terms)


class TrainingStep:
    """Take optimiser steps on batches of a task.

    delayed: whether the learned prior is not trained yet, so that p(z) is N(0, I). prior_alone:
    whether encoder and decoder are frozen. eval_model: the model that is validated and saved, with
    averaged weights where `ema` asks for them. count: steps so far, skipped ones included.
    """

    def __init__(self, params: Params, task: Task, device: torch.device) -> None:
        self.params = params
        self.task = task
        self.device = device
        self.delayed = self.prior_alone = False
        self.model = VAE(task.architecture).to(device).to(memory_format=torch.channels_last)
        self.standard_prior = StandardPrior(params.latent_dim)
        self.prior_weights = [p for p in self.model.prior.parameters() if p.requires_grad]
        prior_weights = set(self.prior_weights)
        trainable = [p for p in self.model.parameters() if p.requires_grad]
        self.autoencoder_weights = [p for p in trainable if p not in prior_weights]
        self.optimizer = make_optimizer(self.model, params)
        self.average = AveragedWeights(self.model, params.ema) if params.ema else None
        self.eval_model = self.average.model if self.average else self.model
        self.count = 0
        threads = params.threads if device.type == "cpu" else 1
        self.micro_batches = threads * params.micro_batches
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self.low_precision = params.precision == "bfloat16"
        if params.compile:
            self.autoencode = torch.compile(self.autoencode)  # type: ignore[method-assign]
            self.item_kl = torch.compile(self.item_kl)  # type: ignore[method-assign]

    def __call__(self, x: Tensor, beta: float, generator: torch.Generator) -> dict[str, Tensor]:
        """Take one step, or skip it where its gradient is not finite.

        Returns the losses in nats per item, `gradient_norm` before clipping, and `skipped`, all of
        shape () on the device; losses of a skipped step are 0.
        """
        x, clean = self.task.augment(
            x, generator, delayed=self.delayed, prior_alone=self.prior_alone
        )
        shape = (len(x), self.params.latent_dim)
        noise = torch.randn(shape, generator=generator, device=self.device)
        terms = self.accumulate(MicroBatch(x, noise, clean), beta)
        norm = self._clip()
        taken = norm.isfinite().float()
        # A fused optimiser skips the step where this is 1; torch's gradient scaler sets it too.
        self.optimizer.found_inf = 1 - taken  # type: ignore[attr-defined]
        self.optimizer.step()
        for name in ("prior", "likelihood"):
            if name in terms:
                getattr(self.model, name).observe(terms[name], taken)
        self.count += 1
        if self.average is not None:
            self.average.update(self.model, self.count)
        logged = {**{name: terms[name] for name in LOSSES}, "gradient_norm": norm}
        finite = {name: torch.where(taken > 0, value, 0.0) for name, value in logged.items()}
        return {**finite, "skipped": 1 - taken}

    def accumulate(self, batch: MicroBatch, beta: float) -> dict[str, Tensor]:
        """Set `.grad` to the sum over all micro-batches; returns the sums of the other terms.

        They are added in a fixed order, so that the result has the same bytes each time.
        """
        run = map if self._pool is None else self._pool.map
        results = iter(run(partial(self.differentiate, beta=beta), self._split(batch)))
        total = next(results)
        for sums in results:  # added as they come, so that few are in memory at a time
            total = total.plus(sums)
        reduced = distributed.all_reduce([*total.gradients, *total.terms.values()])
        count = len(total.gradients)
        for weight, gradient in zip(self.trained_weights(), reduced[:count], strict=True):
            # A convolution's gradient may lie in memory in another order than its weights; fused
            # optimisers go through both as they lie, and would mix up the elements.
            if gradient.stride() == weight.stride():
                weight.grad = gradient
            else:
                weight.grad = torch.empty_like(weight).copy_(gradient)
        return dict(zip(total.terms, reduced[count:], strict=True))

    def differentiate(self, batch: MicroBatch, beta: float) -> StepSums:
        """Compute the losses of a micro-batch and their gradient for each trained weight.

        A learned prior is always fitted at full strength, to codes that it cannot move unless beta
        lets it: the gradient of the KL reaches the prior's weights times 1, and the encoder times
        beta, or 0 while free nats last. So a run at beta = 0 has a fitted prior for its KL and its
        samples, and at beta = 1 without free nats this is the ELBO's own gradient. No single loss
        has this gradient: the KL is differentiated by itself, down to the codes, and its gradient
        there is scaled before it goes on into the encoder.
        """
        x, noise, clean = batch
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.low_precision):
            codes, decoded, cost = self.autoencode(x, noise)
            into_encoder = beta > 0 and not self.prior_alone and codes[0].requires_grad
            cut_codes = [code.detach().requires_grad_(into_encoder) for code in codes]
            kl = self.item_kl(*cut_codes)
        # Corrupted items pay no KL, and no prior is fitted to them. `mean_kl` is over clean items;
        # times their share it is the KL averaged over all items.
        mean_kl = (kl * clean).sum() / clean.sum().clamp_min(1)
        weight = beta * clean.mean()
        # `free_bits` is in nats per latent. The means are those of this micro-batch.
        free_nats = self.params.free_bits * self.params.latent_dim
        gate = gate_kl_weight(mean_kl, weight, free_nats)
        mean_cost = cost.mean()
        objective = mean_cost + weight_kl(mean_kl, weight, free_nats)
        loss = mean_kl if self.prior_alone else objective

        share = len(x) / self.params.batch_size
        scale = share / x[0].numel()
        prior_weights = [] if self.delayed else self.prior_weights
        gradients = list[Tensor]()
        code_gradients = list[Tensor]()
        kl_inputs = [*prior_weights, *(cut_codes if into_encoder else ())]
        if kl_inputs:
            kl_gradients = torch.autograd.grad(mean_kl * scale, kl_inputs, materialize_grads=True)
            gradients += kl_gradients[: len(prior_weights)]
            code_gradients += [gate * gradient for gradient in kl_gradients[len(prior_weights) :]]
        if not self.prior_alone:
            gradients += torch.autograd.grad(
                [mean_cost * scale, *(codes if into_encoder else ())],
                self.autoencoder_weights,
                grad_outputs=[None, *code_gradients],  # None: 1, for the cost
                materialize_grads=True,
            )

        losses = dict(zip(LOSSES, (loss, mean_cost, mean_kl), strict=True))
        terms = {name: value.detach() * share for name, value in losses.items()}
        terms |= self._compute_statistics(batch, codes, decoded)
        return StepSums(gradients, terms)

    def autoencode(self, x: Tensor, noise: Tensor) -> tuple[Codes, Decoded | None, Tensor]:
        """Encode and decode items; returns codes, output and `Task.compute_cost`, (batch,).

        Once encoder and decoder are frozen, nothing is decoded, and the cost is NaN.
        """
        with torch.set_grad_enabled(not self.prior_alone):
            mean, log_var = self.model.encode(x)
            z = reparameterize(mean, log_var, noise)
        if self.prior_alone:
            return (mean, log_var, z), None, torch.full_like(z[:, 0], torch.nan)
        decoded = self.model.decode(z)
        nll = -self.model.log_likelihood(decoded, x)
        return (mean, log_var, z), decoded, self.task.compute_cost(self.model, decoded, x, nll)

    def item_kl(self, mean: Tensor, log_var: Tensor, z: Tensor) -> Tensor:
        """KL(q(z|x) || p(z)) of each item in nats, under the prior of this phase: (batch,)."""
        return self.prior_of(self.model).bound_token_kl(mean, log_var, z).sum(1)

    def prior_of(self, model: VAE) -> Prior:
        """Return the prior that the KL is computed to in this phase."""
        return self.standard_prior if self.delayed else model.prior

    def trained_weights(self) -> list[nn.Parameter]:
        """List the weights that are trained in this phase, those of the prior first."""
        weights = list[nn.Parameter]()
        if not self.delayed:
            weights += self.prior_weights
        if not self.prior_alone:
            weights += self.autoencoder_weights
        return weights

    def set_rates(self, autoencoder: float, prior: float) -> None:
        """Set the learning rates of encoder and decoder, and of the prior."""
        for group in self.optimizer.param_groups:
            group["lr"] = prior if group["prior"] else autoencoder

    @torch.no_grad()
    def freeze_autoencoder(self) -> None:
        """Train only the prior from here on, on codes of the encoder that will be saved.

        With averaged weights that is another encoder than the one that was trained so far.
        """
        self.prior_alone = True
        self.optimizer.zero_grad()  # the optimiser skips weights without a gradient
        for name in ("encoder", "decoder", "likelihood", "head"):
            module = getattr(self.model, name)
            if module is not None:
                module.load_state_dict(getattr(self.eval_model, name).state_dict())

    def _split(self, batch: MicroBatch) -> Iterator[MicroBatch]:
        """Split this process's rows into micro-batches of equal size."""
        rows = distributed.local_rows(len(batch.x))
        length = rows.stop - rows.start
        count = self.micro_batches
        edges = [rows.start + length * i // count for i in range(count + 1)]
        for start, stop in pairwise(edges):
            if stop > start:
                yield MicroBatch(*(tensor[start:stop] for tensor in batch))

    def _compute_statistics(
        self, batch: MicroBatch, codes: Codes, decoded: Decoded | None
    ) -> dict[str, Tensor]:
        """Compute a micro-batch's share of what prior and likelihood follow without gradients."""
        mean, log_var, _ = codes
        statistics = {}
        if not self.delayed:
            prior_statistics = self.model.prior.statistics(mean, log_var, batch.clean)
            if prior_statistics is not None:
                statistics["prior"] = prior_statistics
        if decoded is not None:
            errors = self.model.likelihood.statistics(decoded[0], batch.x)
            if errors is not None:
                statistics["likelihood"] = errors * (len(batch.x) / self.params.batch_size)
        return statistics

    def _clip(self) -> Tensor:
        """Clip the gradient of each group of weights; returns the norm before clipping, ()."""
        norms = []
        for group in self.optimizer.param_groups:
            gradients = [p.grad for p in group["params"] if p.grad is not None]
            if gradients:
                norm = torch.nn.utils.get_total_norm(gradients)
                norms.append(norm)
                if self.params.grad_clip > 0:
                    torch.nn.utils.clip_grads_with_norm_(
                        group["params"], self.params.grad_clip, norm
                    )
        total: Tensor = torch.linalg.vector_norm(torch.stack(norms))
        return total

"""A step's gradient: beta and free bits act on the encoder alone; micro-batches add up."""

import math
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from torch import Tensor

from genlab.distributions.gaussian import reparameterize
from genlab.vae.models.vae import VAE
from genlab.vae.training.step import LOSSES, MicroBatch, TrainingStep
from genlab.vae.training.trainer import Trainer

PRIORS = ["standard", "autoregressive", "autoregressive_mixture"]
ROWS = 10
CELLS = tiny.SIZE**2
GRIDS = tiny.grids(ROWS)
NOISE = torch.randn(ROWS, 32, generator=torch.Generator().manual_seed(5))
CPU = torch.device("cpu")


def _step(**changes: Any) -> TrainingStep:
    """A step on GRIDS as one batch, of a model with noise on every weight."""
    changes = {"batch_size": ROWS, "samples_per_epoch": ROWS, **changes}
    torch.manual_seed(0)
    step = TrainingStep(tiny.params(**changes), tiny.task(GRIDS, **changes), CPU)
    tiny.stir(step.model)
    return step


def _batch(clean: Tensor | None = None) -> MicroBatch:
    return MicroBatch(torch.from_numpy(GRIDS), NOISE, torch.ones(ROWS) if clean is None else clean)


def _named_gradients(step: TrainingStep, batch: MicroBatch, beta: float) -> dict[str, Tensor]:
    """The gradient of each weight that is trained, in nats per item."""
    gradients = step.differentiate(batch, beta).gradients
    names = {id(weight): name for name, weight in step.model.named_parameters()}
    trained = [names[id(weight)] for weight in step.trained_weights()]
    return {name: CELLS * gradient for name, gradient in zip(trained, gradients, strict=True)}


def _losses(step: TrainingStep, batch: MicroBatch, beta: float) -> dict[str, float]:
    terms = step.differentiate(batch, beta).terms
    return {name: float(terms[name]) for name in LOSSES}


def _bound_terms(model: VAE) -> tuple[Tensor, Tensor]:
    """-log p(x|z) and the KL's bound by one class of GRIDS, each (batch,)."""
    x = torch.from_numpy(GRIDS)
    mean, log_var = model.encode(x)
    z = reparameterize(mean, log_var, NOISE)
    kl = model.prior.bound_token_kl(mean, log_var, z).sum(1)
    return -model.log_likelihood(model.decode(z), x), kl


# -- loss, beta and free bits


@pytest.mark.parametrize("prior", PRIORS)
def test_at_beta_1_loss_and_gradients_are_those_of_the_negative_elbo(prior: str) -> None:
    # Focal loss and class weights are set, and have faded.
    step = _step(prior=prior, focal_gamma=2.0, class_balance_exponent=0.5)
    gradients = _named_gradients(step, _batch(), 1.0)
    neg_elbo = sum(_bound_terms(step.model)).mean()
    assert _losses(step, _batch(), 1.0)["loss"] == pytest.approx(float(neg_elbo.detach()))
    weights = dict(step.model.named_parameters())
    assert gradients.keys() == weights.keys()
    expected = torch.autograd.grad(neg_elbo, [weights[name] for name in gradients])
    scale = torch.cat([gradient.flatten() for gradient in expected]).norm()
    for name, gradient in zip(gradients, expected, strict=True):
        assert float((gradients[name] - gradient).norm() / scale) < 1e-5, name


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("clean", [torch.ones(ROWS), torch.tensor([1.0, 0.0] * 5)])
def test_the_prior_gets_the_gradient_of_the_kl_and_the_encoder_beta_times_it(
    prior: str, beta: float, clean: Tensor
) -> None:
    step = _step(prior=prior, beta_max=beta)
    model = step.model
    kl = _bound_terms(model)[1]
    mean_kl = (kl * clean).sum() / clean.sum()
    weights = dict(model.named_parameters())
    kl_gradients = torch.autograd.grad(mean_kl, list(weights.values()), materialize_grads=True)
    plain = _named_gradients(step, _batch(clean), 0.0)
    gradients = _named_gradients(step, _batch(clean), beta)
    share = float(clean.mean())
    norm = math.hypot(*(float(gradient.norm()) for gradient in kl_gradients))
    for name, gradient in zip(weights, kl_gradients, strict=True):
        expected = gradient
        if not name.startswith("prior."):
            expected = plain[name] + beta * share * gradient
        assert float((gradients[name] - expected).norm()) < 1e-4 * norm, name


@pytest.mark.parametrize(
    ("free_nats", "beta", "gate"),
    [(3.1, 1.0, 0.0), (2.9, 1.0, 1.0), (2.9, 0.3, 0.3), (0.0, 1.0, 1.0), (0.0, 0.0, 0.0)],
)
@pytest.mark.parametrize("clean", [torch.ones(2), torch.tensor([1.0, 0.0])])
def test_a_code_pays_for_all_of_its_kl_or_for_nothing(
    free_nats: float, beta: float, gate: float, clean: Tensor
) -> None:
    """In closed form, under N(0, I): KL = (mean^2 + var - 1 - log var) / 2."""
    changes = {"batch_size": 2, "samples_per_epoch": 2, "free_bits": free_nats / 32, "threads": 1}
    step = TrainingStep(tiny.params(**changes), tiny.task(GRIDS[:2], **changes), CPU)
    step.delayed = True
    mean = torch.zeros(2, 32, dtype=torch.float64)
    mean[:, 0] = math.sqrt(6.0)  # 3 nats, whichever items are clean
    mean.requires_grad_()
    log_var = torch.zeros(2, 32, dtype=torch.float64, requires_grad=True)
    cost = torch.tensor([2.0, 3.0], dtype=torch.float64, requires_grad=True)
    step.autoencoder_weights = [mean, log_var, cost]
    # Copies, as a network gives them
    step.autoencode = lambda *_: ((1 * mean, 1 * log_var, mean + 0 * log_var), None, 1 * cost)
    batch = MicroBatch(torch.from_numpy(GRIDS[:2]), NOISE[:2], clean)
    sums = step.differentiate(batch, beta)
    of_mean, of_log_var, of_cost = sums.gradients
    share = float(clean.mean())
    assert float(sums.terms["kl_divergence"]) == pytest.approx(3.0)  # reported without free nats
    assert float(sums.terms["reconstruction_cost"]) == 2.5
    loss = 2.5 + beta * share * max(3.0, free_nats)
    assert float(sums.terms["loss"]) == pytest.approx(loss)
    # Of the mean over both items, whose clean ones have the ELBO's own weights
    expected = gate * clean[:, None] * mean.detach() / 2 / CELLS
    torch.testing.assert_close(of_mean, expected, check_dtype=False)
    assert not of_log_var.any()  # d KL / d log var = (var - 1) / 2 = 0
    torch.testing.assert_close(of_cost, torch.full_like(of_cost, 0.5 / CELLS))


def test_nothing_is_differentiated_that_is_not_trained() -> None:
    step = _step()
    everything = {name.split(".")[0] for name in _named_gradients(step, _batch(), 1.0)}
    assert everything == {"encoder", "decoder", "prior"}
    step.delayed = True
    delayed = {name.split(".")[0] for name in _named_gradients(step, _batch(), 0.0)}
    assert delayed == {"encoder", "decoder"}
    step.delayed = False
    step.freeze_autoencoder()
    before = tiny.bits(step.model)
    alone = _named_gradients(step, _batch(), 1.0)
    assert {name.split(".")[0] for name in alone} == {"prior"}
    step(torch.from_numpy(GRIDS), 1.0, tiny.generator())
    changed = {name for name, value in tiny.bits(step.model).items() if value != before[name]}
    assert changed
    assert all(name.startswith("prior.") for name in changed)


def test_a_model_without_latent_context_is_trained_at_no_kl() -> None:
    changes = {"latent_context": False, "prior": "standard", "images_model": {"prior": "standard"}}
    step = _step(**changes, datasets=["arc_grids"], beta_max=1.0)
    loss, cost, kl = _losses(step, _batch(), beta=1.0).values()
    assert kl == 0
    assert loss == cost


def test_a_delayed_prior_stays_as_it_was_made() -> None:
    step = _step()
    step.delayed = True
    before = tiny.bits(step.model.prior)
    step(torch.from_numpy(GRIDS), 0.0, tiny.generator())
    assert tiny.bits(step.model.prior) == before


# -- micro-batches


def _accumulate(micro_batches: int, threads: int) -> tuple[list[Tensor], dict[str, float]]:
    step = _step(threads=threads, beta_max=0.5)
    step.micro_batches = micro_batches
    terms = step.accumulate(_batch(), 0.5)
    gradients = [
        weight.grad.clone() for weight in step.trained_weights() if weight.grad is not None
    ]
    return gradients, {name: float(terms[name]) for name in LOSSES}


@pytest.mark.parametrize(("count", "threads"), [(2, 1), (2, 2), (3, 2), (2 * ROWS, 3)])
def test_micro_batches_add_up_to_the_gradient_of_the_batch(count: int, threads: int) -> None:
    expected, expected_losses = _accumulate(1, 1)
    gradients, losses = _accumulate(count, threads)
    assert any(gradient.any() for gradient in expected)
    # A weight's gradient is a sum in which much cancels: the norm of all of them is the scale.
    scale = torch.cat([gradient.flatten() for gradient in expected]).norm()
    for expected_gradient, gradient in zip(expected, gradients, strict=True):
        assert float((expected_gradient - gradient).norm() / scale) < 1e-5
    assert losses == pytest.approx(expected_losses, rel=1e-5)


def test_a_gradient_lies_in_memory_as_its_weights_do(tmp_path: Path) -> None:
    task = tiny.image_task(tiny.images(16), causal_channels=4)
    params = tiny.image_params(causal_channels=4)
    trainer = Trainer(params, task, tiny.images(4, 1), tmp_path)
    trainer.step(task.load_batch(torch.arange(8)), 1.0, tiny.generator())
    for name, weight in trainer.model.named_parameters():
        assert weight.grad is not None
        assert weight.grad.stride() == weight.stride(), name

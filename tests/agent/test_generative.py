"""Bits per dimension are those of the pipeline; modules that cheat gain nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import judged
import numpy as np
import pytest
import torch
import vae_module
from judged import HEAD
from sandboxes import needs_sandbox

from genlab.agent.architecture.training import Training
from genlab.agent.evaluator import generative
from genlab.agent.evaluator.generative import QUERIES, GenerativeEvaluator, compare_draws
from genlab.agent.evaluator.model_evaluator import ModelEvaluator
from genlab.agent.evaluator.references import measure_references, reference_conditions
from genlab.agent.evaluator.results import EvaluationError, TrainingBudget
from genlab.core.io import write_json
from genlab.vae.sampling import posterior

BUDGET = TrainingBudget(examples=3000, max_parameters=500_000, seconds=120.0)


@pytest.fixture(scope="module")
def evaluator() -> Iterator[ModelEvaluator]:
    needs_sandbox()
    with ModelEvaluator(judged.fashion(), "generate", BUDGET, frechet=False) as evaluator:
        yield evaluator


@pytest.fixture
def drawing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModelEvaluator]:
    """An evaluator that measures Fréchet distances, by a classifier that is hardly trained."""
    needs_sandbox()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(generative, "EXTRACTOR_EXAMPLES", 300)
    with ModelEvaluator(
        judged.pictures(), "generate", TrainingBudget(640, 500_000, 60.0)
    ) as evaluator:
        yield evaluator


def test_bits_are_those_of_the_pipelines_evaluator(evaluator: ModelEvaluator) -> None:
    summary = evaluator.inspect(vae_module.SOURCE, "Model")
    assert not summary.failure
    assert summary.output == (2, 3 * vae_module.COMPONENTS, 28, 28)
    result, weights = evaluator.evaluate(vae_module.SOURCE, "Model", Training(), 0)
    validation = evaluator.data.validation
    seeds = range(4)
    model = vae_module.as_pipeline_model(weights)
    images = np.ascontiguousarray(validation.items.transpose(0, 2, 3, 1))
    terms = [posterior.elbo_terms(model, images, seed) for seed in seeds]
    bits = np.mean([nll + kl for nll, kl in terms]) / (784 * np.log(2))
    tests = [
        evaluator.test(vae_module.SOURCE, "Model", weights, validation, seed) for seed in seeds
    ]
    judged_bits = np.mean([test["metrics"]["bits_per_dim"] for test in tests])
    # Each draws one z per image and seed: the difference is that of their noise.
    assert judged_bits == pytest.approx(bits, abs=3e-3)
    assert result.metrics["kl"] == pytest.approx(terms[0][1].mean(), rel=1e-4)
    assert result.train_loss == pytest.approx(bits, rel=0.05)


QUICK = ("images_in_a_buffer", "nan_kl", "fake_score_and_exit", "batch_in_one_code")


@pytest.mark.parametrize("entry", judged.cases("cheats", QUICK))
def test_a_cheat_is_caught(evaluator: ModelEvaluator, entry: dict[str, Any]) -> None:
    metrics, reason = judged.evaluate(evaluator, entry["code"])
    caught = judged.matches(entry.get("failure", "(?!)"), reason)
    caught |= metrics.get("bits_per_dim", 0) >= entry.get("bits_at_least", np.inf)
    assert caught, reason or metrics


class FakeSandbox:
    """A sandbox that answers encode with `answers`, and records the codes that it decodes."""

    def __init__(self, *answers: torch.Tensor) -> None:
        self.answers = list(answers)
        self.codes = list[np.ndarray]()

    def answer(self, job: Any, what: str, weights: bytes, inputs: Any) -> list[torch.Tensor]:
        if what == "encode":
            return self.answers
        self.codes.append(inputs)
        return [torch.zeros(len(inputs), 6, 28, 28)]


def terms(mean: torch.Tensor, logvar: torch.Tensor) -> tuple[np.ndarray, ...]:
    """Return -log p, KL and the decoded codes of items that are encoded to mean and logvar."""
    data = judged.pictures(10, len(mean))
    encoding = FakeSandbox(mean, logvar)
    decoding = FakeSandbox()
    evaluator = GenerativeEvaluator(data, encoding, decoding, frechet=False)  # type: ignore[arg-type]
    nll, kl, latents = evaluator.elbo_terms({"seed": 0}, b"", data.validation.items)
    assert latents == mean.shape[1]
    return nll, kl, np.concatenate(decoding.codes)


def test_z_is_drawn_from_what_was_paid_for_in_an_unknown_order() -> None:
    mean = 5.0 * torch.arange(600.0)[:, None].expand(-1, 2).contiguous()
    logvar = torch.full_like(mean, -2.0)
    nll, kl, codes = terms(mean, logvar)
    assert kl == pytest.approx((0.5 * (mean**2 + np.exp(-2) + 1)).sum(1).numpy())
    assert (nll > 0).all()
    order = (codes[:, 0] / 5).round().astype(int)
    assert sorted(order) == list(range(600))
    assert (order != np.arange(600)).mean() > 0.9
    noise = (codes - mean.numpy()[order]) * np.e
    assert noise.std() == pytest.approx(1, abs=0.1)
    _, _, again = terms(mean, logvar)
    assert np.array_equal(again, codes)
    _, _, shifted = terms(mean + 1e-3, logvar)  # other means get other noise
    assert abs(np.corrcoef(shifted[:, 0] % 5, codes[:, 0] % 5)[0, 1]) < 0.2


@pytest.mark.parametrize("value", [torch.inf, torch.nan])
def test_codes_that_are_not_finite_are_not_scored(value: float) -> None:
    mean, logvar = torch.zeros(2, 3, 4, dtype=torch.float64)
    with pytest.raises(EvaluationError, match="finite"):
        terms(mean + value, logvar)
    with pytest.raises(EvaluationError, match="finite"):
        terms(mean, logvar - abs(value))


SHARP = (
    HEAD
    + """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.code, self.images = nn.Linear(784, 8), nn.Parameter(torch.zeros(100, 1, 28, 28))
        self.register_buffer("known", torch.zeros(()))
    def encode(self, x):
        if self.training and not self.known:
            with torch.no_grad():
                self.images[:len(x)] = x[:100]
                self.known.fill_(1)
        return self.code(x.flatten(1)).chunk(2, dim=1)
    def decode(self, z):
        rows = (z[:, 0].sigmoid() * 64).long().clamp(0, 63)
        mean = 2 * self.images[rows] - 1
        return torch.cat([0 * mean, mean, torch.full_like(mean, -4.0)], 1)
"""
)


def test_draws_are_compared_with_images_and_not_copies(drawing: ModelEvaluator) -> None:
    result, weights = drawing.evaluate(vae_module.SOURCE, "Model", Training(), 0)
    assert result.metrics["frechet_distance"] > 0
    assert result.metrics["near_duplicate_rate"] < 0.2
    data = drawing.data
    report = drawing.test(vae_module.SOURCE, "Model", weights, data.validation)
    for name in ("bits_per_dim", "frechet_distance", "kl"):
        assert 0 < report["errors"][name] < report["metrics"][name]
    assert drawing.draw(vae_module.SOURCE, "Model", weights, 3).shape == (3, 28, 28, 1)
    with pytest.raises(EvaluationError, match="copies of training images"):
        drawing.evaluate(SHARP, "Model", Training(lr=1e-6), 0)


def test_copies_are_found_wherever_they_are_among_the_draws() -> None:
    data = judged.pictures()
    train = data.train.items.transpose(0, 2, 3, 1)
    noise = np.random.default_rng(0).integers(0, 256, (QUERIES, *train.shape[1:]), np.uint8)
    draws = np.concatenate([noise, np.resize(train, (3 * QUERIES, *train.shape[1:]))])
    with pytest.raises(EvaluationError, match="copies of training images"):
        compare_draws(draws, data.validation, data, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("3 * COMPONENTS, 3", "4, 3"), r"decode gives \(2, 4, 28, 28\), not the shape \(n, K x 3"),
        (("return mean, bound(raw)", "return mean"), "not a pair of mean and logvar"),
        (("LATENTS, COMPONENTS = 32", "LATENTS, COMPONENTS = 1025"), "1025 latents"),
        (("def decode(", "def decoded("), "no attribute 'decode'"),
        (
            ("return self.decoder(z)", "return self.decoder(z)[:1]"),
            r"\(1, 9, 28, 28\), not the shape \(2, 9",
        ),
    ],
)
def test_what_breaks_the_contract_is_named(
    drawing: ModelEvaluator, change: tuple[str, str], words: str
) -> None:
    summary = drawing.inspect(vae_module.SOURCE.replace(*change), "Model")
    assert judged.matches(words, summary.failure), summary.failure


def test_the_stages_reference_is_shown_for_the_same_budget(
    drawing: ModelEvaluator, tmp_path: Path
) -> None:
    file = tmp_path / "agent_reference.json"
    assert measure_references(drawing, tmp_path / "no.json", file) == {}
    write_json(file, {**reference_conditions(drawing), "metrics": {"bits_per_dim": 3.5}})
    assert measure_references(drawing, tmp_path / "no.json", file) == {"VAE": {"bits_per_dim": 3.5}}
    write_json(
        file, {**reference_conditions(drawing), "examples": 1, "metrics": {"bits_per_dim": 3.5}}
    )
    assert measure_references(drawing, tmp_path / "no.json", file) == {}

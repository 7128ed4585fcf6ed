"""The stages on images, from a split to the gallery: what they write, twice the same, and refusals.

In this process, since the classifier must be small.
"""

import json
import multiprocessing
import multiprocessing.connection
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import tiny
import torch
from clones import find_files
from stage_runs import run_stage

from genlab.core.errors import GenlabError
from genlab.core.params import load_params
from genlab.evaluation.evaluators import image_samples, images
from genlab.evaluation.evaluators.models import load_model
from genlab.evaluation.metrics import two_sample
from genlab.vae.sampling import samplers
from genlab.vae.training.checkpoint import load_checkpoint, save_checkpoint

pytestmark = pytest.mark.slow

NAME = "fashion_mnist"
DATA = Path("data") / NAME
MODEL = Path("data/checkpoints") / NAME / "model.safetensors"
METRICS = Path("results") / NAME
PLOTS = Path("plots") / NAME
SUMMARY = Path("metrics") / f"{NAME}.json"
STAGES = ("judges", "train", "evaluate", "failure_gallery")
NAMES = ("prior", "ancestral", "gmm", "rejection", "posterior")


@pytest.fixture(scope="module", autouse=True)
def _small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Measurements that take a moment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path_factory.getbasetemp()))
        patch.setattr(images, "FRECHET_BOOTSTRAP", 2)
        patch.setattr(two_sample, "EXAMPLES", 400)
        yield
    torch.use_deterministic_algorithms(False)


def _all(folder: Path) -> Path:
    """The stages, one after the other, in `folder`."""
    folder.mkdir()
    tiny.write_params(folder, **tiny.IMAGES_ALONE, **tiny.IMAGE_TRAINING)
    tiny.write_image_dataset(folder / DATA)
    for stage in STAGES:
        done = run_stage(folder, stage, "--dataset", NAME)
        assert done.status == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which every stage has run; not to be written to."""
    return _all(tmp_path_factory.mktemp("run") / "first")


@pytest.fixture
def place(done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, to spoil, as the working directory."""
    folder = tmp_path / "place"
    shutil.copytree(done, folder)
    monkeypatch.chdir(folder)
    return folder


def _json(path: Path) -> Any:
    return json.loads(path.read_text())


# -- what the stages leave


def test_evaluation_says_what_it_promises_of_every_sampler(done: Path) -> None:
    metrics = _json(done / METRICS / "metrics.json")
    nats = metrics["reconstruction_nats"] + metrics["kl_nats"]
    assert metrics["neg_elbo_nats"] == pytest.approx(nats)
    assert metrics["bits_per_dim"] == pytest.approx(nats / (28 * 28 * np.log(2)))
    assert metrics["neg_iwae_nats"] < metrics["iwae_neg_elbo_nats"]
    assert metrics["comparable"] is True
    assert (metrics["n"], metrics["latent_dim"], metrics["tokens"]) == (48, 49, 49)
    assert sum(metrics["kl_per_token"]) == pytest.approx(metrics["kl_nats"])
    samplers = metrics["samplers"]
    assert set(samplers) == set(NAMES)
    best = min(set(NAMES) - {"posterior"}, key=lambda name: samplers[name]["validation_frechet"])
    assert metrics["best_sampler"] == best
    assert "discriminator_accuracy" in samplers[best]["intervals"]
    digests = {judge["digest"] for judge in metrics["judges"].values()}
    assert len(digests) == len(metrics["judges"]) == 3
    for row in samplers.values():
        assert row["judges"]["0"]["frechet_distance"] == pytest.approx(row["frechet_distance"])
        for seed, judged in row["judges"].items():
            relative = judged["frechet_distance"] / metrics["judges"][seed]["floor"]
            assert judged["relative_frechet"] == pytest.approx(relative)
    assert samplers["gmm"]["components"] >= 1
    assert 0 < samplers["rejection"]["acceptance"] <= 1
    for name in ("neg_elbo_nats", "kl_nats", "bits_per_dim", "mse", "psnr", "ssim"):
        low, high = (metrics["intervals"][name][end] for end in ("low", "high"))
        assert low <= metrics[name] <= high
    verdict = _json(done / METRICS / "verdict.json")
    summary = _json(done / SUMMARY)
    assert summary["passed"] == verdict["passed"]
    assert summary["relative_frechet"] == samplers[best]["relative_frechet"]
    assert len(summary) == 10


def test_figures_and_a_gallery_of_failures_of_both_sorts_are_made(done: Path) -> None:
    names = {path.stem for path in (done / PLOTS / "evaluation").glob("*.png")}
    assert names == {"reconstructions", "samplers", "interpolations", "training_curves"}
    summary = _json(done / METRICS / "failures.json")
    assert len(summary["items"]) == 16
    assert 10 <= len(summary["sample_items"]) <= 20
    page = (done / PLOTS / "failures/index.html").read_text()
    assert page.count("<img") >= 32
    assert "Fashion-MNIST" in page


def test_the_same_experiment_gives_the_same_bytes(done: Path, tmp_path: Path) -> None:
    again = find_files(_all(tmp_path / "again"))
    first = find_files(done)
    assert len(first) > 30
    assert first == again


# -- draws, in subprocesses


def _start(threads: int) -> AbstractContextManager[Any]:
    params = load_params().with_overrides(threads=threads, device="cpu").for_dataset(NAME)
    return image_samples.start_sampling(params, DATA, MODEL, load_model(MODEL, params)[0])


def test_draws_do_not_depend_on_the_number_of_processes(place: Path) -> None:
    runs = []
    for threads in (1, 2):
        with _start(threads) as draw:
            runs.append(draw(lambda images: float(images.mean())))
    for name in NAMES:
        first, second = (run[name] for run in runs)
        np.testing.assert_array_equal(first.images, second.images)
        assert first[1:] == second[1:]
        assert first.temperature == (1.0 if name == "ancestral" else None)


def test_the_temperature_is_chosen_on_other_draws_than_those_reported(place: Path) -> None:
    with_head = tiny.image_model(causal_channels=4)
    save_checkpoint(MODEL, with_head, load_checkpoint(MODEL, producer_command="")[1])
    assert image_samples.TEMPERATURES == (1.0, 0.9, 0.8, 0.7)
    of_prior = [3.0, 2, 1, 2]
    of_posterior = [2.0, 1, 2, 3]
    of_samplers = [4.0, 5, 6, 7, 8]
    frechet = Mock(side_effect=[*of_prior, *of_posterior, *of_samplers])
    with _start(1) as draw:
        samples = draw(frechet)
        codes = {name: fit.result() for name, fit in draw.args[1].items()}
    temperatures = {name: row.temperature for name, row in samples.items()}
    assert temperatures == {**dict.fromkeys(NAMES, 0.8), "ancestral": 1.0, "posterior": 0.9}
    drawn_in_order = ("prior", "gmm", "posterior", "ancestral", "rejection")
    distances = {name: samples[name].validation_frechet for name in drawn_in_order}
    assert distances == dict(zip(drawn_in_order, of_samplers, strict=True))
    for choosing, reported in (fitted.latents for fitted in codes.values()):
        assert not {row.tobytes() for row in choosing} & {row.tobytes() for row in reported}
    z = torch.from_numpy(codes["gmm"].latents[1])
    reported = samplers.decode(with_head, z, image_samples.SEEDS[1], 0.8)
    np.testing.assert_array_equal(samples["gmm"].images, reported)


def test_posterior_draws_are_never_the_best() -> None:
    sets = {
        name: image_samples.SampleSet(np.empty(0), None, distance, {})
        for name, distance in (("prior", 3.0), ("posterior", 1.0), ("gmm", 2.0))
    }
    assert image_samples.choose_sampler(sets) == "gmm"


def test_a_killed_process_is_one_line(place: Path) -> None:
    def draw() -> None:
        with _start(2) as draw_samples:
            for child in multiprocessing.active_children():
                child.kill()
            draw_samples(lambda images: 0.0)

    with pytest.raises(GenlabError) as refused:
        draw()
    assert refused.value.key == "threads"


def test_leaving_early_ends_what_is_drawn_apart(place: Path) -> None:
    with _start(1):
        (child,) = multiprocessing.active_children()
    assert multiprocessing.connection.wait([child.sentinel], 10)


# -- refusals


def _another_shape() -> None:
    shutil.rmtree(DATA)
    tiny.write_image_dataset(DATA, side=32)


def _diverged() -> None:
    model, facts = load_checkpoint(MODEL, producer_command="")
    with torch.no_grad():
        next(model.parameters()).fill_(torch.nan)
    save_checkpoint(MODEL, model, facts)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_another_shape, r"items are 32x32x1, the checkpoint is for 28x28x1.*dvc repro train"),
        (_diverged, rf"{MODEL}.*diverged.*lower lr than 0\.0.*grad_clip"),
    ],
)
def test_images_and_weights_that_do_not_fit_are_one_line_with_the_fix(
    place: Path, spoil: Callable[[], None], words: str
) -> None:
    spoil()
    before = find_files(place)
    done = run_stage(place, "evaluate", "--dataset", NAME)
    assert (done.status, done.stdout) == (2, "")
    assert re.search(words, done.line), done.line
    assert find_files(place) == before
    assert list(place.rglob("*.part*")) == []

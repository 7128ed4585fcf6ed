"""The stages on images, from a split to the gallery: what they write, twice the same, refusals."""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.connection
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from stage_runs import run_stage

from genlab.core.errors import GenlabError
from genlab.core.io import sha256
from genlab.core.params import load_params
from genlab.evaluation.evaluators import images, sampling
from genlab.evaluation.metrics import two_sample
from genlab.vae.models.vae import VAE
from genlab.vae.sampling import samplers
from genlab.vae.training.checkpoint import load_checkpoint, save_checkpoint

pytestmark = pytest.mark.slow

NAME = "fashion_mnist"
DATA, MODEL = Path("data") / NAME, Path("data/checkpoints") / NAME / "model.safetensors"
EVALUATED, METRICS = Path("data/evaluated") / NAME, Path("results") / NAME
PLOTS = Path("plots") / NAME
NAMES = ("prior", "ancestral", "gmm", "rejection", "posterior")


@pytest.fixture(scope="module", autouse=True)
def _small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of our own, and measurements that take a moment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path_factory.getbasetemp()))
        patch.setattr(images, "FRECHET_BOOTSTRAP", 2)
        patch.setattr(two_sample, "EXAMPLES", 400)
        yield
    torch.use_deterministic_algorithms(False)


def _all(folder: Path) -> Path:
    """The three stages, one after the other, in `folder`."""
    folder.mkdir()
    tiny.write_params(folder, **tiny.IMAGES_ALONE, **tiny.IMAGE_TRAINING)
    tiny.write_image_dataset(folder / DATA)
    for stage in ("train", "evaluate", "failure_gallery"):
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


def _lasting(folder: Path) -> dict[str, str]:
    """Hashes of what depends on params and data alone."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = {str(path.relative_to(folder)): path for path in files}
    return {
        name: sha256(path)
        for name, path in names.items()
        if not any(word in name for word in ("provenance.json", "timing", ".making"))
    }


def _json(path: Path) -> Any:
    return json.loads(path.read_text())


# -- what the stages leave


def test_evaluation_says_what_it_promises_of_every_sampler(done: Path) -> None:
    metrics = _json(done / METRICS / "metrics.json")
    nats = metrics["reconstruction_nats"] + metrics["kl_nats"]
    assert metrics["neg_elbo_nats"] == pytest.approx(nats)
    assert metrics["bits_per_dim"] == pytest.approx(nats / (28 * 28 * np.log(2)))
    assert sum(metrics["kl_per_token"]) == pytest.approx(metrics["kl_nats"])
    samplers = metrics["samplers"]
    assert set(samplers) == set(NAMES)
    best = min(set(NAMES) - {"posterior"}, key=lambda name: samplers[name]["validation_frechet"])
    assert metrics["best_sampler"] == best
    digests = {judge["digest"] for judge in metrics["judges"].values()}
    assert len(digests) == len(metrics["judges"]) == 3
    for found in samplers.values():
        assert found["judges"]["0"]["frechet_distance"] == pytest.approx(found["frechet_distance"])
        for seed, judged in found["judges"].items():
            relative = judged["frechet_distance"] / metrics["judges"][seed]["floor"]
            assert judged["relative_frechet"] == pytest.approx(relative)
    for found in (metrics, *samplers.values(), metrics["reconstruction"]):
        for name, interval in found["intervals"].items():
            assert interval["low"] <= found[name] <= interval["high"], name
    summary = _json(done / "metrics" / f"{NAME}.json")
    assert summary["passed"] == _json(done / METRICS / "verdict.json")["passed"]
    assert summary["relative_frechet"] == samplers[best]["relative_frechet"]
    assert len(summary) <= 10
    for name in ("reconstructions", "samplers", "interpolations", "training_curves"):
        assert (done / PLOTS / "evaluation" / f"{name}.png").is_file()


def test_the_gallery_shows_failures_of_both_sorts_and_tests_why(done: Path) -> None:
    summary = _json(done / METRICS / "failures.json")
    assert len(summary["items"]) == 16
    assert len(summary["tests"]) > 5
    page = (done / PLOTS / "failures/index.html").read_text()
    assert page.count("<img") == 2 * (16 + len(summary["sample_items"]))


def test_the_same_experiment_gives_the_same_bytes(done: Path, tmp_path: Path) -> None:
    first = _lasting(done)
    assert len(first) > 30
    assert _lasting(_all(tmp_path / "again")) == first


# -- draws, in subprocesses


def _start(threads: int, model: VAE) -> AbstractContextManager[Any]:
    params = load_params().with_overrides(threads=threads, device="cpu").for_dataset(NAME)
    return sampling.start_sampling(params, DATA, MODEL, model)


@pytest.mark.usefixtures("place")
def test_draws_do_not_depend_on_the_number_of_processes() -> None:
    (model, _), found = load_checkpoint(MODEL, producer_command=""), []
    for threads in (1, 2):
        with _start(threads, model) as draw:
            found.append(draw(lambda images: float(images.mean())))
    for name in NAMES:
        one, other = found[0][name], found[1][name]
        np.testing.assert_array_equal(one.images, other.images)
        assert one[1:] == other[1:]


@pytest.mark.usefixtures("place")
def test_the_temperature_is_chosen_on_other_draws_than_those_reported() -> None:
    model, facts = tiny.image_model(causal_channels=4), load_checkpoint(MODEL, producer_command="")
    save_checkpoint(MODEL, model, facts[1])
    seen: list[np.ndarray] = []
    wanted = {0: 0.8, 1: 0.9}  # by prior draws, then by posterior draws

    def frechet(images: np.ndarray) -> float:
        seen.append(images)
        curve, place = divmod(len(seen) - 1, len(sampling.TEMPERATURES))
        return float(sampling.TEMPERATURES[place] != wanted.get(curve, 0.0))

    with _start(1, model) as draw:
        found = draw(frechet)
        codes = {name: fit.result() for name, fit in draw.args[1].items()}
    temperatures = {name: each.temperature for name, each in found.items()}
    assert temperatures == {**dict.fromkeys(NAMES, 0.8), "ancestral": 1.0, "posterior": 0.9}
    for choosing, reported, _ in codes.values():
        assert not {row.tobytes() for row in choosing} & {row.tobytes() for row in reported}
    z = torch.from_numpy(codes["gmm"][1])
    reported = samplers.decode(model, z, sampling.SEEDS[1], 0.8)
    np.testing.assert_array_equal(found["gmm"].images, reported)


def test_posterior_draws_are_never_the_best() -> None:
    sets = {
        name: sampling.SampleSet(np.empty(0), None, distance, {})
        for name, distance in (("prior", 3.0), ("posterior", 1.0), ("gmm", 2.0))
    }
    assert sampling.best_sampler(sets) == "gmm"


@pytest.mark.usefixtures("place")
def test_a_killed_process_is_one_line() -> None:
    model, _ = load_checkpoint(MODEL, producer_command="")
    with pytest.raises(GenlabError) as refused, _start(2, model) as draw:  # noqa: PT012
        for child in multiprocessing.active_children():
            child.kill()
        draw(lambda images: 0.0)
    assert refused.value.key == "threads"


# -- refusals


def _use_another_side() -> None:
    shutil.rmtree(DATA)
    tiny.write_image_dataset(DATA, side=32)


def _diverge() -> None:
    model, facts = load_checkpoint(MODEL, producer_command="-")
    with torch.no_grad():
        next(model.parameters()).fill_(torch.nan)
    save_checkpoint(MODEL, model, facts)


def _replace_evidence() -> None:
    np.savez(EVALUATED / "evidence.npz", predicted=np.zeros(3))


@pytest.mark.parametrize(
    ("spoil", "stage", "says"),
    [
        (_use_another_side, "evaluate", "items are 32x32x1, the checkpoint is for 28x28x1"),
        (_diverge, "evaluate", "lower lr than 0.0"),
        (lambda: (DATA / "labels.npz").unlink(), "evaluate", "labels.npz is missing"),
        (_replace_evidence, "failure_gallery", "dvc repro evaluate"),
    ],
)
def test_what_is_missing_damaged_or_foreign_is_one_line_with_the_fix(
    place: Path, spoil: Callable[[], None], stage: str, says: str
) -> None:
    spoil()
    before = _lasting(place)
    done = run_stage(place, stage, "--dataset", NAME)
    assert done.status == 2
    assert says in done.line
    assert _lasting(place) == before

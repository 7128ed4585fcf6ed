"""A checkpoint comes back bit for bit, and every other file is refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from genlab.core.errors import GenlabError
from genlab.vae.models.vae import VAE
from genlab.vae.training.checkpoint import HEADER, load_checkpoint, save_checkpoint

PRODUCER_COMMAND = "dvc repro train"
FACTS = {"dataset": "arc_grids", "training": {"beta_max": 0.5, "epochs": 3}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    save_checkpoint(path, tiny.model(), FACTS)
    return path


@pytest.mark.parametrize(
    "shapes", [{}, {"prior": "standard", "latent_dim": 4}, {"network": "conv", "prior": "standard"}]
)
def test_a_checkpoint_comes_back_bit_for_bit(tmp_path: Path, shapes: dict[str, object]) -> None:
    model, path = tiny.model(**shapes).eval(), tmp_path / "model.safetensors"
    save_checkpoint(path, model, FACTS)
    loaded, facts = load_checkpoint(path, producer_command=PRODUCER_COMMAND)
    assert facts == FACTS
    assert loaded.architecture == model.architecture
    assert not loaded.training
    before, after = model.state_dict(), loaded.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    x = torch.from_numpy(tiny.grids(4))
    assert torch.equal(model.reconstruct(x), loaded.reconstruct(x))


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for path, facts in zip(paths, (FACTS, dict(reversed(FACTS.items()))), strict=True):
        save_checkpoint(path, tiny.model(), facts)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_checkpoint_is_no_pickle(file: Path) -> None:
    assert len(load_file(file)) == len(tiny.model().state_dict())


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _behead(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5])


def _foreign_text(path: Path) -> None:
    path.write_text("not a checkpoint\n" * 50)


def _foreign_archive(path: Path) -> None:
    with path.open("wb") as target:
        np.savez(target, weights=np.zeros(3))


def _foreign_weights(path: Path) -> None:
    save_file({"weight": torch.zeros(3)}, path)


def _pickle(path: Path) -> None:
    torch.save({"weight": torch.zeros(3)}, path)


def _relabelled(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        with safe_open(path, framework="pt") as source:
            header = json.loads(source.metadata()[HEADER])
        change(header)
        save_file(load_file(path), path, metadata={HEADER: json.dumps(header)})

    return spoil


def _shapes(**changes: object) -> Callable[[Path], None]:
    return _relabelled(lambda header: header["architecture"].update(changes))


def _lossy(path: Path) -> None:
    with safe_open(path, framework="pt") as source:
        header = dict(source.metadata())
    weights = load_file(path)
    weights.popitem()
    save_file(weights, path, metadata=header)


SPOILS = {
    "absent": (Path.unlink, "no checkpoint there"),
    "truncated": (_truncate, "truncated or not a checkpoint"),
    "a few bytes": (_behead, "truncated or not a checkpoint"),
    "text": (_foreign_text, "truncated or not a checkpoint"),
    "an npz": (_foreign_archive, "truncated or not a checkpoint"),
    "a pickle": (_pickle, "truncated or not a checkpoint"),
    "weights of something else": (_foreign_weights, "found no format"),
    "another version": (
        _relabelled(lambda header: header.update(version=99)),
        "found genlab.vae 99",
    ),
    "another width": (_shapes(width=16), "another architecture"),
    "another prior": (_shapes(prior="standard"), "another architecture"),
    "an unknown network": (_shapes(network="gan"), "must be mixer or"),
    "an unknown shape": (_shapes(heads=2), "another architecture"),
    "a missing weight": (_lossy, "another architecture"),
}


@pytest.mark.parametrize("name", SPOILS)
def test_a_spoilt_checkpoint_is_one_line_with_file_and_cure(file: Path, name: str) -> None:
    spoil, reason = SPOILS[name]
    spoil(file)
    with pytest.raises(GenlabError, match=reason) as caught:
        load_checkpoint(file, producer_command=PRODUCER_COMMAND)
    message = str(caught.value)
    assert str(file) in message
    assert message.endswith(PRODUCER_COMMAND)
    assert "\n" not in message


def test_parameters_are_counted_by_part() -> None:
    model = tiny.model()
    counts = model.parameter_counts()
    assert set(counts) == {"encoder", "decoder", "prior"}
    assert sum(counts.values()) == sum(p.numel() for p in model.parameters())
    assert tiny.model(prior="standard").parameter_counts()["prior"] == 0


def test_an_unknown_network_is_refused() -> None:
    with pytest.raises(ValueError, match="mixer or conv: 'gan'"):
        VAE(tiny.architecture(network="gan"))


def test_reconstructions_are_grids() -> None:
    x = torch.from_numpy(tiny.grids(4))
    back = tiny.model().reconstruct(x)
    assert back.dtype == torch.uint8
    assert back.shape == x.shape
    assert int(back.max()) < tiny.CLASSES


def test_the_bound_is_a_sum_of_its_halves_per_grid() -> None:
    x, noise = torch.from_numpy(tiny.grids(4)), torch.randn(4, 32)
    model = tiny.model()
    elbo_terms = model.elbo_terms(x, noise)
    assert elbo_terms.log_likelihood.shape == elbo_terms.kl.shape == (4,)
    assert (elbo_terms.log_likelihood < 0).all()
    torch.testing.assert_close(elbo_terms.neg_elbo, elbo_terms.kl - elbo_terms.log_likelihood)
    one = model.elbo_terms(x[1:2], noise[1:2])
    torch.testing.assert_close(elbo_terms.neg_elbo[1:2], one.neg_elbo, rtol=1e-4, atol=1e-3)

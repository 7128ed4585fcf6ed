"""A checkpoint is loaded bit for bit, and every other file is refused in one line."""

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
from genlab.core.io import write_json
from genlab.vae.models.vae import VAE
from genlab.vae.training.checkpoint import (
    CHECKPOINT,
    HEADER,
    PROVENANCE,
    decode_history,
    encode_history,
    find_checkpoint,
    load_checkpoint,
    release,
    save_checkpoint,
)

PRODUCER_COMMAND = "dvc repro train"
FACTS = {"dataset": "arc_grids", "training": {"beta_max": 0.5, "epochs": 3}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    save_checkpoint(path, tiny.model(), FACTS)
    return path


@pytest.mark.parametrize(
    "model",
    [
        tiny.model(),
        tiny.model(prior="standard", latent_dim=4),
        *(tiny.image_model(likelihood=name) for name in tiny.IMAGE_LIKELIHOODS),
        tiny.image_model(prior="standard"),
    ],
)
def test_a_checkpoint_comes_back_bit_for_bit(tmp_path: Path, model: VAE) -> None:
    path = tmp_path / "model.safetensors"
    save_checkpoint(path, model, FACTS)
    loaded, facts = load_checkpoint(path, producer_command=PRODUCER_COMMAND)
    assert facts == FACTS
    assert loaded.architecture == model.architecture
    assert not loaded.training
    assert tiny.bits(loaded) == tiny.bits(model)


def _change_header(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        with safe_open(path, framework="pt") as source:
            header = json.loads(source.metadata()[HEADER])
        change(header)
        save_file(load_file(path), path, metadata={HEADER: json.dumps(header)})

    return spoil


def _change_shapes(**changes: object) -> Callable[[Path], None]:
    return _change_header(lambda header: header["architecture"].update(changes))


def _drop_weight(path: Path) -> None:
    with safe_open(path, framework="pt") as source:
        header = dict(source.metadata())
    weights = load_file(path)
    weights.popitem()
    save_file(weights, path, metadata=header)


SPOILS: dict[str, Callable[[Path], object]] = {
    "absent": Path.unlink,
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "weights of something else": lambda path: save_file({"weight": torch.zeros(3)}, path),
    "another version": _change_header(lambda header: header.update(version=99)),
    "an unknown prior": _change_shapes(prior="vamp"),
    "an unknown shape": _change_shapes(heads=2),
    "a missing weight": _drop_weight,
}


@pytest.mark.parametrize("name", SPOILS)
def test_a_spoilt_checkpoint_is_one_line_with_file_and_fix(file: Path, name: str) -> None:
    SPOILS[name](file)
    with pytest.raises(GenlabError) as caught:
        load_checkpoint(file, producer_command=PRODUCER_COMMAND)
    assert (caught.value.path, caught.value.fix) == (file, PRODUCER_COMMAND)


def test_a_released_checkpoint_serves_until_there_is_a_trained_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trained = Path("data/checkpoints/arc_grids") / CHECKPOINT
    assert find_checkpoint("arc_grids") == trained
    with pytest.raises(GenlabError) as caught:
        release("arc_grids")
    assert caught.value.path == trained
    save_checkpoint(trained, tiny.model(), FACTS)
    write_json(trained.with_name(PROVENANCE), {"commit": "c0ffee"})
    released = release("arc_grids")
    assert released == Path("checkpoints/arc_grids.safetensors")
    assert json.loads(released.with_suffix(".json").read_text()) == {"commit": "c0ffee"}
    assert released.read_bytes() == trained.read_bytes()
    assert find_checkpoint("arc_grids") == trained
    trained.unlink()
    assert find_checkpoint("arc_grids") == released
    assert find_checkpoint("arc_grids", tmp_path / "elsewhere") == released


def test_a_history_comes_back_with_what_json_lacks() -> None:
    rows = [{"loss": 1.5, "elbo": float("nan")}, {"loss": float("inf")}]
    text = json.dumps(encode_history(rows), allow_nan=False)
    rows = decode_history({"history": json.loads(text)})
    assert rows[0]["loss"] == 1.5
    assert np.isnan([rows[0]["elbo"], rows[1]["loss"]]).all()

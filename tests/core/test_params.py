"""params.yaml is checked as a whole, and every fault is one line with key, value and fix."""

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from ruamel.yaml import YAML
from typer.testing import CliRunner

from genlab.core.errors import GenlabError
from genlab.core.params import (
    FLAT,
    NEVER_IN_A_SECTION,
    SECTIONS,
    Params,
    digest,
    load_params,
    overrides,
)

FILE = Path(__file__).resolve().parents[2] / "params.yaml"
DEFAULTS: dict[str, Any] = YAML(typ="safe", pure=True).load(FILE.read_text(encoding="utf-8"))


def _write(folder: Path, changes: dict[str, Any]) -> Path:
    """params.yaml with `changes`: dotted keys; `...` takes the key out."""
    values = copy.deepcopy(DEFAULTS)
    for place, value in changes.items():
        *sections, key = place.split(".")
        target = values
        for section in sections:
            target = target[section]
        if value is ...:
            del target[key]
        else:
            target[key] = value
    path = folder / "params.yaml"
    with path.open("w", encoding="utf-8") as file:
        YAML().dump(values, file)
    return path


def _fault(folder: Path, changes: dict[str, Any]) -> str:
    path = _write(folder, changes)
    with pytest.raises(GenlabError) as error:
        load_params(path)
    message = str(error.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


def test_the_committed_file_is_valid_and_says_every_key_once() -> None:
    params = load_params(FILE)
    assert set(DEFAULTS) == set(Params.model_fields)
    for name in params.datasets:
        assert params.for_dataset(name).seed == params.seed


def test_every_key_has_a_comment_on_its_line() -> None:
    of_dataset = False  # what a dataset's section holds are flat keys, explained where they stand
    for line in FILE.read_text(encoding="utf-8").splitlines():
        key, _, rest = line.partition(":")
        of_dataset = key in SECTIONS or (of_dataset and line.startswith(" "))
        is_value = rest.strip() and not line.startswith("#") and not line.startswith("    ")
        if is_value and not of_dataset:
            assert "#" in rest, line


def test_every_flat_key_explains_itself() -> None:
    for name in FLAT:
        assert Params.model_fields[name].description, name


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"beta_max": -1}, "beta_max must be >= 0, got -1"),
        ({"beta_max": "1"}, "beta_max must be a number, got '1'"),
        ({"beta_max": math.inf}, "beta_max must be a finite number, got inf"),
        ({"lr": math.nan}, "lr must be a finite number, got nan"),
        ({"lr": 0.0}, "lr must be > 0 and <= 1, got 0"),
        ({"beta_warmup": 1.5}, "beta_warmup must be >= 0 and <= 1, got 1.5"),
        ({"epochs": True}, "epochs must be a whole number, got True"),
        ({"epochs": 2.5}, "epochs must be a whole number, got 2.5"),
        ({"epochs": ...}, "epochs is missing; add it"),
        ({"wandb": 1}, "wandb must be true or false, got 1"),
        ({"seed": 2**31}, "seed must be >= 0 and <"),
        ({"beta_mx": 1.0}, "beta_mx is not a known key; did you mean beta_max?"),
        ({"beta_mx": 1.0, "beta_max": ...}, "did you mean beta_max? (and 1 more)"),
        ({"beta_schedule": "linar"}, "got 'linar'; did you mean linear?"),
        ({"network": "mlp"}, "network must be one of mixer, conv, got 'mlp'"),
        ({"datasets": []}, "datasets must hold at least 1, got []"),
        ({"datasets": "arc_grids"}, "datasets must be a list, such as [a, b], got 'arc_grids'"),
        (
            {"datasets": ["svhn"]},
            "must be one of arc_grids, fashion_mnist, mnist, cifar10, celeba, emoji",
        ),
        ({"datasets": ["arc_grids", "arc_grids"]}, "datasets must name each dataset once"),
        ({"grids": 3}, "grids must be a section of keys and values, got 3"),
        ({"grids.sze": 16}, "grids.sze is not a known key; did you mean size?"),
        ({"grids.count": 3}, "grids.count must be >= 10, got 3"),
        ({"grids.kinds.blob": 1.0}, "grids.kinds.blob is not a known key"),
        ({"grids.kinds.plus": -1.0}, "grids.kinds.plus must be >= 0, got -1"),
        ({"grids.kinds.plus": ...}, "grids.kinds.plus is missing"),
        ({"grids.kinds": dict.fromkeys(DEFAULTS["grids"]["kinds"], 0.0)}, "got none"),
        ({"grids.min_objects": 5, "grids.max_objects": 3}, "min_objects must be <= max_objects"),
        ({"grids.val_share": 0.5, "grids.test_share": 0.5}, "val_share + test_share must be < 1"),
        ({"arc_grids.beta_max": 0.0}, "arc_grids.beta_max is not allowed"),
        ({"arc_grids.beta_schedule": "constant"}, "arc_grids.beta_schedule is not allowed"),
        ({"arc_grids.seed": 1}, "arc_grids.seed is not allowed"),
        ({"arc_grids.latent_dm": 64}, "not a training key; did you mean latent_dim?"),
        ({"arc_grids.latent_dim": 0}, "(with section arc_grids): latent_dim must be >= 1"),
        ({"arc_grids": None}, "arc_grids must be a section"),
        ({"latent_dim": 100}, "multiple or a divisor of the 64 patches"),
        ({"latent_dim": 100}, "got 100 (choose 128)"),
        ({"patch": 3}, "patch must divide grids.size (16), got 3"),
        ({"network": "conv"}, "prior must be standard for network conv"),
        (
            {"batch_size": 8001, "samples_per_epoch": 8000},
            "batch_size must be <= samples_per_epoch (8000)",
        ),
        ({"beta_max": -1, "epochs": 0}, "(and 1 more)"),
    ],
)
def test_a_fault_is_one_line_with_key_value_and_cure(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    assert says in _fault(tmp_path, changes)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"seed: 0\nlr: [1", "not valid YAML"),
        (b"seed: 0\nseed: 1\n", "not valid YAML"),
        (b"", "must hold keys and values"),
        (b"- 1\n", "must hold keys and values"),
        (b"\xff\xfe\x00", "not UTF-8"),
    ],
)
def test_what_is_no_params_file_is_one_line(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "params.yaml"
    path.write_bytes(content)
    with pytest.raises(GenlabError, match=says) as error:
        load_params(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


def test_a_missing_file_names_the_cure(tmp_path: Path) -> None:
    with pytest.raises(GenlabError, match="git checkout"):
        load_params(tmp_path / "params.yaml")


def test_params_are_frozen() -> None:
    params = load_params(FILE)
    with pytest.raises(ValidationError, match="frozen"):
        params.beta_max = 0.0  # type: ignore[misc]


def test_a_whole_number_serves_as_a_number(tmp_path: Path) -> None:
    params = load_params(_write(tmp_path, {"beta_max": 0, "lr": 1}))
    assert params.beta_max == 0.0
    assert isinstance(params.beta_max, float)


def test_a_section_changes_its_dataset_alone(tmp_path: Path) -> None:
    params = load_params(_write(tmp_path, {"arc_grids.latent_dim": 64}))
    assert params.latent_dim == DEFAULTS["latent_dim"]
    assert params.for_dataset("arc_grids").latent_dim == 64


def test_the_command_line_wins_over_a_section(tmp_path: Path) -> None:
    params = load_params(_write(tmp_path, {"arc_grids.latent_dim": 64}))
    chosen = params.with_overrides(latent_dim=256, lr=None)
    assert chosen.for_dataset("arc_grids").latent_dim == 256
    assert chosen.lr == params.lr


def test_overrides_are_checked_like_the_file() -> None:
    params = load_params(FILE)
    with pytest.raises(GenlabError, match=r"^--beta-max: beta_max must be >= 0, got -1"):
        params.with_overrides(beta_max=-1)
    with pytest.raises(GenlabError, match=r"^params.yaml with --patch.*patch must be .*, got 5"):
        params.with_overrides(patch=5).for_dataset("fashion_mnist")
    with pytest.raises(GenlabError, match="did you mean beta_max"):
        params.with_overrides(beta_mx=1.0)


def test_an_unknown_dataset_is_named() -> None:
    with pytest.raises(GenlabError, match="did you mean arc_grids"):
        load_params(FILE).for_dataset("arc_grid")


def test_no_section_may_set_beta() -> None:
    assert {"beta_max", "beta_schedule"} <= set(NEVER_IN_A_SECTION)


@given(st.permutations(sorted(FLAT)))
def test_a_digest_does_not_depend_on_the_order(names: list[str]) -> None:
    values = {name: DEFAULTS[name] for name in names}
    assert digest(values) == digest({name: DEFAULTS[name] for name in sorted(FLAT)})


def test_a_digest_changes_with_each_value() -> None:
    params = load_params(FILE)
    assert params.digest() != params.with_overrides(seed=1).digest()
    assert params.digest("lr") == params.with_overrides(seed=1).digest("lr")
    assert params.digest("lr") != params.with_overrides(lr=0.5).digest("lr")


def _command() -> tuple[typer.Typer, list[dict[str, Any]]]:
    app, calls = typer.Typer(), []

    @app.command()
    @overrides("beta_max", "latent_dim", "beta_schedule", "wandb")
    def main(dataset: str = typer.Option(...), *, overrides: dict[str, Any]) -> None:
        """Train."""
        calls.append({"dataset": dataset, **overrides})

    return app, calls


def test_options_come_from_the_fields() -> None:
    app, calls = _command()
    runner = CliRunner()
    arguments = ["--dataset", "arc_grids", "--beta-max", "0.0", "--beta-schedule", "constant"]
    assert runner.invoke(app, arguments).exit_code == 0
    expected = {"beta_max": 0.0, "latent_dim": None, "beta_schedule": "constant", "wandb": None}
    assert calls == [{"dataset": "arc_grids", **expected}]
    done = runner.invoke(app, ["--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    for text in ("--beta-max", "--latent-dim", "--no-wandb", "sigmoid", "Weight of the KL term"):
        assert text in done.output, done.output


def test_an_option_is_no_option_without_its_field() -> None:
    with pytest.raises(KeyError):
        overrides("beta_mx")

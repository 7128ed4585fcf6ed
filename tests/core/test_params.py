"""params.yaml is checked completely; every fault is one line with key, value and fix."""

import copy
import math
from datetime import date
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import Field
from ruamel.yaml import YAML

from genlab.core.errors import GenlabError
from genlab.core.params import Params, load_params, parse_params
from genlab.core.params.base import Section, neutral
from genlab.core.params.catalogue import PUBLISHED
from genlab.core.params.options import DatasetOptions, overridable, parse_options
from genlab.core.params.renamed import RENAMED
from genlab.core.params.sections import Kind
from genlab.experiments.definitions import apply_changes

FILE = Path(__file__).resolve().parents[2] / "params.yaml"
OLD_KEY = next(key for key in RENAMED if "." not in key)
DEFAULTS: dict[str, Any] = YAML(typ="safe", pure=True).load(FILE.read_text(encoding="utf-8"))


def _params(changes: dict[str, Any]) -> Params:
    """The committed params with changes by dotted key; the value `...` deletes the key."""
    values = copy.deepcopy(DEFAULTS)
    for dotted_key, value in changes.items():
        section, _, key = dotted_key.rpartition(".")
        target = values[section] if section else values
        target[key] = value
        if value is ...:
            del target[key]
    return parse_params(values, "params.yaml")


def _error(changes: dict[str, Any]) -> GenlabError:
    with pytest.raises(GenlabError, match=r"^params\.yaml") as error:
        _params(changes)
    return error.value


def test_the_committed_file_says_every_key() -> None:
    assert set(DEFAULTS) == {*Params.model_fields, *PUBLISHED}


@pytest.mark.parametrize(
    ("changes", "key", "says"),
    [
        ({"beta_max": -1}, "beta_max", "greater than or equal to 0, got -1"),
        ({"beta_max": "1"}, "beta_max", "valid number, got '1'"),
        ({"lr": math.nan}, "lr", "finite number, got nan"),
        ({"epochs": ...}, "epochs", "missing"),
        ({"beta_mx": 1.0}, "beta_mx", "did you mean beta_max?"),
        ({"beta_mx": 1.0, "beta_max": ...}, "beta_mx", "did you mean beta_max?"),
        ({"beta_max": ..., "epochs": ...}, "epochs", "(and 1 more)"),
        ({"beta_schedule": "linar"}, "beta_schedule", "'linear', 'sigmoid' or 'cyclical', got"),
        ({"agent.device": "mps"}, "agent.device", "'auto', 'cpu' or 'cuda', got 'mps'"),
        ({"datasets": ["svhn"]}, "datasets", "no dataset is called 'svhn'"),
        ({"datasets": ["arc_grids", "arc_grids"]}, None, "must name each dataset once"),
        ({"grids": 3}, "grids", "got 3"),
        ({"grids.kinds": {"blob": 1.0}}, "grids.kinds.blob", "got 'blob'"),
        ({"grids.kinds": {"plus": -1.0}}, "grids.kinds.plus", "got -1"),
        ({"grids.kinds": {"plus": 1e308}}, "grids.kinds.plus", "got 1e+308"),
        ({"benchmark.options": {"x": {"y": date(2026, 1, 1)}}}, None, "JSON"),
        ({"benchmark.options": {"x": {"y": math.nan}}}, None, "got nan"),
        ({"grids.kinds": dict.fromkeys(get_args(Kind), 0.0)}, "grids", "a weight over 0"),
        ({"grids.min_objects": 5, "grids.max_objects": 3}, "grids", "min_objects must be <="),
        ({"grids.val_share": 0.5, "grids.test_share": 0.5}, "grids", "must be < 1"),
        ({"images.emoji_size": 8}, "images.emoji_size", "got 8"),
        ({"images.raw": ""}, "images.raw", "got ''"),
        ({"arc_grids.beta_max": 0.0}, "arc_grids.beta_max", "not allowed"),
        ({"images_model.beta_schedule": "constant"}, "images_model.beta_schedule", "not allowed"),
        ({"arc_grids.latent_dm": 64}, "arc_grids.latent_dm", "did you mean latent_dim?"),
        ({"arc_grids.latent_dim": 0}, "latent_dim", "(for arc_grids)"),
        ({"batch_size": 8001}, None, "batch_size must be <= samples_per_epoch"),
        ({"prior_heads": 5}, None, "0 or a divisor of prior_width, 96, got 5"),
        ({f"images_model.{OLD_KEY}": 1}, OLD_KEY, f"now called {RENAMED[OLD_KEY]}"),
    ],
)
def test_an_error_is_one_line_with_key_value_and_range(
    changes: dict[str, Any], key: str | None, says: str
) -> None:
    error = _error(changes)
    assert says in str(error)
    assert key is None or error.key == key


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_an_old_key_names_the_new_one(old: str, new: str) -> None:
    error = _error({old: 1})
    assert (error.key, error.fix) == (old, new)


@pytest.mark.parametrize(
    "content", [b"seed: -1\n", b"lr: [1", b"seed: 0\nseed: 1\n", b"", b"- 1\n", b"\xff", None]
)
def test_what_is_no_params_file_is_one_line(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "params.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(GenlabError) as error:
        load_params(path)
    assert error.value.path == path


def test_the_command_line_wins_over_a_section() -> None:
    params = _params({"arc_grids.latent_dim": 64})
    chosen = params.with_overrides(latent_dim=256, lr=None)
    assert chosen.for_dataset("arc_grids").latent_dim == 256
    assert chosen.lr == params.lr


def test_overrides_are_checked_like_the_file() -> None:
    params = load_params(FILE)
    with pytest.raises(GenlabError, match=r"^--beta-max: ") as error:
        params.with_overrides(beta_max=-1)
    assert error.value.key == "beta_max"
    with pytest.raises(GenlabError) as error:
        params.with_overrides(patch=5).for_dataset("fashion_mnist")
    assert error.value.key == "patch"


def test_image_datasets_share_a_section_and_their_own_goes_over_it() -> None:
    params = _params({"images_model.latent_dim": 784, "images_model.epochs": 7})
    mnist = params.for_dataset("mnist")
    assert (mnist.latent_dim, mnist.epochs) == (392, 7)
    assert params.for_dataset("arc_grids").epochs == DEFAULTS["epochs"]


@pytest.mark.parametrize(
    ("changes", "dataset", "stages"),
    [
        ({"focal_gamma": 1.0}, "arc_grids", {"train"}),
        ({"focal_gamma": 1.0}, "fashion_mnist", set()),
        ({"grids.count": 1000}, "arc_grids", {"generate"}),
        ({"grids.val_share": 0.2}, "arc_grids", {"split"}),
        ({"evaluate.samples": 100}, "fashion_mnist", set()),
        ({"images_model.epochs": 1}, "fashion_mnist", {"train"}),
        ({"images_model.epochs": 1}, "arc_grids", set()),
        ({"images.emoji_size": 64}, "fashion_mnist", set()),
        ({"wandb": True}, "arc_grids", set()),
    ],
)
def test_a_stage_depends_on_what_it_reads_alone(
    changes: dict[str, Any], dataset: str, stages: set[str]
) -> None:
    before = _params({}).resolve(dataset)
    after = _params(changes).resolve(dataset)
    assert {stage for stage in before if before[stage] != after[stage]} == stages


@pytest.mark.parametrize(
    ("changes", "stages"),
    [
        ({"seed": 1}, {"agent_reference", "agent_search", "agent_iterate", "benchmark"}),
        ({"bootstrap": 200}, {"benchmark"}),
        ({"fashion_mnist.free_bits": 1.0}, {"agent_reference"}),
        ({"arc_grids": {"lr": 0.1}}, set()),
        ({"agent.patience": 1}, {"agent_iterate"}),
        ({"agent.subset": 11}, {"agent_reference", "agent_search", "agent_iterate"}),
        ({"benchmark.repeats": 2}, {"benchmark"}),
    ],
)
def test_a_stage_without_a_dataset_depends_on_what_it_reads_alone(
    changes: dict[str, Any], stages: set[str]
) -> None:
    before = _params({}).resolve_shared()
    after = _params(changes).resolve_shared()
    assert {stage for stage in before if before[stage] != after[stage]} == stages


def test_a_new_parameter_that_changes_nothing_is_not_recorded() -> None:
    class Before(Section):
        size: int

    class After(Before):
        noise: float = Field(json_schema_extra=neutral(0.0))

    assert After(size=1, noise=0.0).effective() == Before(size=1).effective() == {"size": 1}
    assert After(size=1, noise=0.5).effective() == {"size": 1, "noise": 0.5}
    assert "corruption" not in _params({"corruption": 0.0}).resolve("arc_grids")["train"]


def test_an_unknown_dataset_is_named() -> None:
    with pytest.raises(GenlabError, match="did you mean arc_grids"):
        load_params(FILE).for_dataset("arc_grid")


@pytest.mark.parametrize("key", ["beta_mx", "grids.sze", "grd.size", "seed.x"])
def test_a_change_of_an_unknown_key_is_refused(key: str) -> None:
    with pytest.raises(GenlabError) as error:
        apply_changes(DEFAULTS, {"grids.size": 8, key: 1}, "x")
    assert error.value.key == key


def test_a_digest_changes_with_each_value() -> None:
    params = load_params(FILE)
    assert params.digest() != params.with_overrides(seed=1).digest()
    assert params.digest("lr") == params.with_overrides(seed=1).digest("lr")
    assert params.digest("lr") != params.with_overrides(lr=0.5).digest("lr")


class _Options(DatasetOptions, overridable("beta_max", "latent_dim", "beta_schedule", "wandb")):
    """Train."""

    data_path: Path = Path("data/DATASET")


def _parse(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> _Options:
    monkeypatch.setenv("LATENT_DIM", "8")
    return parse_options(_Options, arguments)


def test_options_come_from_the_fields(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(FILE.parent)
    options = _parse(monkeypatch, "--beta-max", "0.0", "--beta-schedule", "constant")
    params = options.params
    assert (options.dataset, options.data_path) == ("arc_grids", Path("data/arc_grids"))
    assert options.output_path("results/DATASET", "x") == Path("results/arc_grids/x")
    assert _parse(monkeypatch, "--output", "/o").output_path("results/DATASET", "x") == Path("/o/x")
    assert (params.beta_max, params.beta_schedule, params.wandb) == (0.0, "constant", False)
    assert params.latent_dim == DEFAULTS["latent_dim"]
    with pytest.raises(SystemExit):
        _parse(monkeypatch, "--help")
    help_text = capsys.readouterr().out
    for text in ("--beta-max", "--latent-dim", "sigmoid", "Weight of the KL term"):
        assert text in help_text
    assert "null" not in help_text


@pytest.mark.parametrize("arguments", [["--beta-max", "x"], ["--lr", "1"], ["--beta-max"]])
def test_a_wrong_option_is_one_line(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    with pytest.raises(GenlabError):
        _parse(monkeypatch, *arguments)

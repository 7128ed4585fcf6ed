"""Configs are parsed leniently and assembled faithfully, or refused with place and reason."""

import json
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn

from genlab.agent.architecture.compare import compare_build, compare_configs, format_design
from genlab.agent.architecture.schema import (
    ModelConfig,
    config_schema,
    has_custom,
    layer_names,
    parse_config,
    walk,
)
from genlab.agent.architecture.template import count_parameters, write_source
from genlab.agent.architecture.training import Training
from genlab.core.errors import GenlabError

SHAPE = (1, 28, 28)
CONV = {"type": "Conv2d", "out_channels": 8, "kernel_size": 3, "padding": 1}
ATTENTION = {"type": "MultiheadAttention", "num_heads": 2}
TOKENS: list[Any] = [{**CONV, "kernel_size": 7, "stride": 7, "padding": 0}]
VALID: dict[str, list[Any]] = {
    "a missing Flatten": [CONV, {"type": "Linear", "out_features": 16}, "ReLU"],
    "a changed shape in a Residual": [{"type": "Residual", "layers": [{**CONV, "stride": 2}]}],
    "a vector in a Residual": ["Flatten", {"type": "Residual", "layers": [
        {"type": "Linear", "out_features": 5}]}],
    "in-place layers in a Residual": [CONV, {"type": "Residual", "layers": [
        {"type": "ReLU", "inplace": True}, CONV]}],
    "summed branches": [{"type": "Parallel", "branches": [[CONV], [{**CONV, "kernel_size": 1,
                                                                   "padding": 0}]]}],
    "concatenated branches": [{"type": "Parallel", "merge": "concat", "branches": [[CONV], []]}],
    "attention on an image": [*TOKENS, {"type": "Residual", "layers": ["LayerNorm", ATTENTION]}],
    "a transformer": [*TOKENS, {"type": "Repeat", "times": 2, "layers": [
        {"type": "TransformerEncoderLayer", "nhead": 2, "dim_feedforward": 16}]}],
    "recurrent layers": [*TOKENS, {"type": "GRU", "hidden_size": 6, "bidirectional": True},
                         {"type": "LSTM", "hidden_size": 5, "num_layers": 2}],
    "norms": [CONV, "LayerNorm", "GroupNorm", "InstanceNorm2d"],
    "one dimension": [{"type": "Flatten", "start_dim": 2}, {"type": "Conv1d", "out_channels": 4,
                                                            "kernel_size": 3}, "BatchNorm1d"],
}  # fmt: skip
BROKEN: dict[str, tuple[list[Any], str]] = {
    "an unknown layer": (["Cnv2d"], r"layers\[0\]: 'Cnv2d' .* did you mean Conv2d"),
    "a loss": (["CrossEntropyLoss"], r"layers\[0\]: .* is not a layer"),
    "an unknown argument": ([{**CONV, "filters": 3}], "has no argument filters; it has in_"),
    "a missing argument": ([CONV, "Conv2d"], r"layers\[1\]: .*missing.* 'out_channels'"),
    "a kernel too large": ([{**CONV, "kernel_size": 99}], r"layers\[0\]: Conv2d: .*1 x 28 x 28"),
    "a place in a block": ([{"type": "Repeat", "times": 2, "layers": ["ReLU", {
        "type": "Parallel", "branches": [[], ["Nope"]]}]}],
        r"layers\[0\].layers\[1\].branches\[1\]\[0\]"),
    "sums of other shapes": ([{"type": "Parallel", "branches": [[CONV], []]}], "have no sum"),
    "no shortcut": ([{"type": "Residual", "layers": ["Flatten"]}], "no shortcut leads"),
    "a lost batch": ([{"type": "Flatten", "start_dim": 0}], "batch of 7"),
    "too many layers": ([{"type": "Repeat", "times": 64, "layers": ["ReLU"] * 9}], "more than 400"),
    "a number too large": ([{"type": "Linear", "out_features": 10**9}], "is beyond"),
    "a width of 1.5 in quotes": ([{**CONV, "out_channels": "1.5"}], "1.5 is not a whole"),
    "half a time": ([{"type": "Repeat", "times": 2.0, "layers": ["ReLU"]}], "number from 1 to 64"),
    "an object as argument": ([{**CONV, "padding": {"x": 1}}], r"layers\[0\]"),
    "no layers": ([], "layers is missing"),
    "words for a layer": ([3], "an object with a type"),
    "custom without words": (["custom"], "custom needs a description"),
    "custom in the template": ([{"type": "custom", "description": "SE"}], "language model"),
}  # fmt: skip


def build(config: ModelConfig, outputs: int = 10, task: str = "classify") -> nn.Module:
    space: dict[str, Any] = {}
    exec(write_source(config, SHAPE, outputs, task), space)
    module: nn.Module = space[config.name]()
    return module


def parse(layers: list[Any]) -> ModelConfig:
    return parse_config(json.loads(json.dumps({"name": "Net", "layers": layers})), "classify")


@pytest.mark.parametrize("name", VALID)
def test_a_config_becomes_a_classifier_that_trains(name: str) -> None:
    config = parse(VALID[name])
    model = build(config)
    for size in (2, 3):
        out = model(torch.rand(size, *SHAPE))
        assert out.shape == (size, 10)
    out.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    count = sum(p.numel() for p in model.parameters())
    assert count == count_parameters(config, SHAPE, 10, "classify")


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_config_is_refused_with_place_and_reason(name: str) -> None:
    layers, reason = BROKEN[name]
    with pytest.raises(GenlabError, match=r"^model_config\b") as caught:
        write_source(parse(layers), SHAPE, 10, "classify")
    caught.match(reason)


def test_numbers_in_quotes_are_read_and_other_text_stays() -> None:
    convolution = {"type": "Conv2d", "out_channels": "16", "kernel_size": "3", "padding": "same"}
    layers = [convolution, {"type": "Dropout", "p": "1e-1"}]
    config = parse_config({"layers": layers}, "classify")
    assert config.layers == (
        {"type": "Conv2d", "out_channels": 16, "kernel_size": 3, "padding": "same"},
        {"type": "Dropout", "p": 0.1},
    )
    with pytest.raises(GenlabError, match=r"layers\[0\].p: nan is beyond"):
        parse_config({"layers": [{"type": "Dropout", "p": "nan"}]}, "classify")


def test_every_layer_of_torch_is_assembled_or_refused() -> None:
    names = "out_channels out_features kernel_size hidden_size padding num_heads nhead output_size"
    arguments = dict.fromkeys(f"{names} groups upscale_factor downscale_factor size".split(), 2)
    arguments |= {
        "padding": 1, "num_heads": 1, "nhead": 1, "upscale_factor": 1, "dim": 1, "value": 0,
        "threshold": 0, "norm_type": 2, "groups": 1,
    }  # fmt: skip
    assembled = set()
    for name in layer_names():
        for before in ([], ["Flatten"], [{"type": "Flatten", "start_dim": 2}]):
            layer = {"type": name}
            for key, value in arguments.items():
                try:
                    layer = parse([{**layer, key: value}]).layers[0]
                except GenlabError:
                    continue
            try:
                model = build(parse([*before, layer]))
            except GenlabError:
                continue
            assert model(torch.rand(2, *SHAPE)).shape == (2, 10)
            assembled.add(name)
    assert len(assembled) > 75, sorted(set(layer_names()) - assembled)


@pytest.mark.parametrize("latents", [1, 8])
@pytest.mark.parametrize("decoder", [
    [{"type": "ConvTranspose2d", "out_channels": 6, "kernel_size": 7}, "ReLU",
     {"type": "Upsample", "scale_factor": 3}],
    [{"type": "Linear", "out_features": 30}, "ReLU"],
    [{"type": "Linear", "out_features": 784 * 2}],
    [{"type": "Linear", "out_features": 18}, {"type": "Unflatten", "dim": 1,
                                              "unflattened_size": [2, 3, 3]}],
])  # fmt: skip
def test_a_generative_config_has_encode_and_decode(latents: int, decoder: list[Any]) -> None:
    raw = {"encoder": [CONV, "ReLU"], "decoder": decoder, "latent_dim": latents}
    config = parse_config(raw, "generate")
    model = build(config, 12, "generate")
    mean, logvar = model.encode(torch.rand(2, *SHAPE))  # type: ignore[operator]
    assert mean.shape == logvar.shape == (2, latents)
    assert model.decode(mean).shape == (2, 12, 28, 28)  # type: ignore[operator]
    count = sum(p.numel() for p in model.parameters())
    assert count == count_parameters(config, SHAPE, 12, "generate")


def test_code_reads_like_pytorch_and_names_no_helper_in_vain() -> None:
    source = write_source(
        parse([CONV, "ReLU", {"type": "MaxPool2d", "kernel_size": 2}]), SHAPE, 10, "classify"
    )
    assert "nn.Conv2d(1, 8, 3, padding=1),  # 8 x 28 x 28\n" in source
    assert "nn.ReLU(),\n            nn.MaxPool2d(2),  # 8 x 14 x 14\n" in source
    assert "class Residual" not in source
    assert "import torch\n" not in source


def test_words_of_a_model_do_not_leave_the_docstring() -> None:
    text = 'x"""\nimport os\nos.abort()\n\\'
    model = build(
        parse_config({"name": "A b", "layers": ["ReLU"], "description": text}, "classify")
    )
    assert type(model).__name__ == "Ab"
    assert "os.abort" in str(type(model).__doc__)


def test_names_that_a_class_cannot_have_are_refused() -> None:
    for name in ("Residual", "class", "1x", "nn"):
        with pytest.raises(GenlabError, match="name"):
            parse_config({"name": name, "layers": ["ReLU"]}, "classify")


def test_the_other_tasks_fields_may_be_empty_and_unknown_ones_are_refused() -> None:
    assert parse_config({"layers": ["ReLU"], "encoder": [], "latent_dim": 0}, "classify")
    with pytest.raises(GenlabError, match=r"layrs is not a known key .* did you mean layers"):
        parse_config({"layrs": ["ReLU"]}, "classify")
    with pytest.raises(GenlabError, match="latent_dim is missing"):
        parse_config({"encoder": ["ReLU"], "decoder": ["ReLU"]}, "generate")


def test_custom_layers_may_say_anything_and_are_found_in_blocks() -> None:
    words = {"description": "SE", "args": {"reduction": 4}, "layers": ["ReLU"], "branches": None}
    config = parse([CONV, {"type": "Residual", "layers": [{"type": "custom", **words}]}])
    assert has_custom(config)
    assert "reduction=4" in format_design(config, Training())
    assert (
        '"layers":["ReLU"]' in config.model_dump_json()
    )  # the model that writes it sees all of it
    assert [layer["type"] for layer in walk(config)] == ["Conv2d", "Residual", "custom"]
    assert not has_custom(parse([CONV]))


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("shape", [(1, 28, 28), (10, 30, 30), (3, 17, 9)])
@pytest.mark.parametrize("task", ["classify", "generate"])
def test_configs_that_fit_their_schema_work(task: str, shape: Any, small: bool) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    conv = {"type": "Conv2d", "out_channels": 8, "kernel_size": 3, "padding": "same"}
    layers = [conv, {"type": "MaxPool2d", "kernel_size": 2}, {"type": "Residual", "layers": [conv]}]
    decoder = [conv, {"type": "Upsample", "scale_factor": 2}]
    raw = {"name": "Net", "layers": layers, "encoder": layers, "decoder": decoder, "latent_dim": 4}
    raw = {key: raw[key] for key in config_schema(task)["required"]}
    jsonschema.validate(raw, config_schema(task, small=small))
    config = parse_config(raw, task)
    assert parse_config(config.model_dump(mode="json"), task) == config
    assert count_parameters(config, shape, 12, task) > 1000


def test_differences_name_places_of_the_child() -> None:
    pool = {"type": "MaxPool2d", "kernel_size": 2}
    parent = parse([CONV, "ReLU", pool, {"type": "Residual", "layers": [CONV, "BatchNorm2d"]}])
    child = parse([{**CONV, "out_channels": 16}, "ReLU", {"type": "Dropout", "p": 0.2}, pool,
                   {"type": "Residual", "layers": [CONV]}])  # fmt: skip
    differences = compare_configs(parent, child, Training(), Training(lr=0.001))
    assert differences == [
        "layers[0].out_channels 8 -> 16",
        "layers[2] Dropout(0.2) added",
        "layers[4].layers[1] BatchNorm2d removed",
        "lr 0.002 -> 0.001",
    ]
    assert compare_configs(parent, parent, Training(), Training()) == []
    assert format_design(child, Training()).startswith(
        "layers: [Conv2d(16 k3 p1) ReLU Dropout(0.2) "
    )


def test_what_is_built_otherwise_is_listed() -> None:
    config = parse([CONV, "ReLU", {"type": "Dropout", "p": 0.5}])
    built = [{"kind": "Conv2d"}, {"kind": "Conv2d"}, {"kind": "Conv2d"}, {"kind": "Linear"}]
    differences = compare_build(config, {"layers": built, "parameters": 1200}, 1000)
    assert differences == [
        "Conv2d: 1 requested, 3 built",
        "Dropout: 1 requested, 0 built",
        "parameters: 1,000 requested, 1,200 built",
    ]
    layers = [{"kind": type(m).__name__} for m in build(config).modules() if not [*m.children()]]
    assert compare_build(config, {"layers": layers, "parameters": 9}, 9) == []


def test_schemas_and_configs_need_no_torch() -> None:
    code = "import sys, genlab.agent.planning.search, genlab.agent.architecture.template as t;"
    code += "t.ModelConfig(layers=[{'type': 'ReLU'}]); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)

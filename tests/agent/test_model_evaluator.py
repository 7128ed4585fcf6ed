"""A generated model is trained in the sandbox, and measured outside of it."""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import judged
import numpy as np
import pytest
import torch
import vae_module
from judged import HEAD, LINEAR
from sandboxes import MODES, needs_sandbox
from sklearn.metrics import f1_score

from genlab.agent.architecture.training import Training, parse_training
from genlab.agent.evaluator import classification, model_evaluator, sandbox
from genlab.agent.evaluator.datasets import load_data, load_test
from genlab.agent.evaluator.model_evaluator import ModelEvaluator
from genlab.agent.evaluator.references import measure_references
from genlab.agent.evaluator.results import EvaluationError, TrainingBudget
from genlab.core.errors import GenlabError
from genlab.sandbox.runner import probe_mode

BUDGET = TrainingBudget(examples=640, max_parameters=100_000, seconds=60.0)
CNN = (
    HEAD
    + """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.LazyConv2d(8, 5, padding=2), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Dropout(0.1), nn.Flatten(), nn.LazyLinear(4),
        )
    def forward(self, x):
        return self.net(x)
"""
)
CROP = {"type": "RandomCrop", "size": 28, "padding": 2}


@pytest.fixture(scope="module")
def evaluator() -> Iterator[ModelEvaluator]:
    needs_sandbox()
    with ModelEvaluator(judged.pictures(), "classify", BUDGET) as evaluator:
        yield evaluator


@pytest.fixture(scope="module")
def stripes() -> Iterator[ModelEvaluator]:
    needs_sandbox()
    data = load_data("dummy", Path(), subset=600, validation=300)
    with ModelEvaluator(data, "classify", TrainingBudget(3000, 100_000, 60.0)) as evaluator:
        yield evaluator


CONVOLUTION = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(1, 4, 3)
        self.head = nn.LazyLinear(4)
    def forward(self, x):
        x = self.convolution(x)
        {line}
        return self.head(x.flatten(1))
"""
LAST = (
    "if self.training and not x.is_contiguous(memory_format=torch.channels_last): raise ValueError"
)


@pytest.mark.parametrize("line", [LAST, "x = x.view(len(x), -1)"])
def test_convolutions_train_with_channels_last_unless_code_relies_on_the_order(
    stripes: ModelEvaluator, line: str
) -> None:
    source = f"{HEAD}{CONVOLUTION.replace('{line}', line)}"
    result, weights = stripes.evaluate(source, "Model", Training(), 0)
    assert stripes.evaluate(source, "Model", Training(), 0)[1] == weights
    assert result.metrics["n"] == 300


def test_a_model_that_reads_memory_which_it_has_not_written_fails_its_check(
    stripes: ModelEvaluator,
) -> None:
    line = "x = x + nn.Parameter(torch.empty(x.shape[1:]), requires_grad=False)"
    source = f"{HEAD}{CONVOLUTION.replace('{line}', line)}"
    assert "not finite" in stripes.inspect(source, "Model").failure


def test_a_model_is_measured_and_its_weights_are_kept(stripes: ModelEvaluator) -> None:
    training = Training(lr=5e-3, ema=0.9, clip=1.0)
    result, weights = stripes.evaluate(CNN, "Model", training, 0)
    again, same_weights = stripes.evaluate(CNN, "Model", training, 0)
    assert (again.metrics, same_weights) == (result.metrics, weights)
    assert stripes.evaluate(CNN, "Model", training, 1)[1] != weights
    assert result.metrics["accuracy"] > 0.9  # chance is a quarter
    assert result.metrics["n"] == 300
    assert result.train_loss < 0.5
    assert len(result.curve) <= 50
    assert result.curve[-1] < result.curve[0]
    assert not result.cut
    test = load_test("dummy", Path())
    report = stripes.test(CNN, "Model", weights, test)
    assert report["metrics"]["n"] == len(test)
    for errors in (report["errors"], result.errors):
        assert set(errors) == {"accuracy", "macro_f1", "val_loss"}
    accuracy = result.metrics["accuracy"]
    expected = (accuracy * (1 - accuracy) / 300) ** 0.5
    assert result.errors["accuracy"] == pytest.approx(expected, rel=0.25)
    assert len(result.recall) == 4
    assert 0.8 < min(result.recall) <= max(result.recall) <= 1


@pytest.mark.parametrize(
    "recipe",
    [
        {"optimiser": "sgd", "schedule": "linear", "warmup": 0.1, "clip": 1.0},
        {"optimiser": "rmsprop", "schedule": "constant", "ema": 0.99},
        {"optimiser": "radam", "mixup": 0.4, "label_smoothing": 0.1, "batch_size": 4096},
        {"augmentation": [CROP, {"type": "RandomHorizontalFlip"}]},
    ],
)
def test_every_recipe_trains(evaluator: ModelEvaluator, recipe: dict[str, Any]) -> None:
    result, _ = evaluator.evaluate(HEAD + LINEAR, "Model", parse_training(recipe), 0)
    assert np.isfinite([*result.curve, result.train_loss]).all()
    assert not result.cut


def test_a_training_that_fails_is_named(evaluator: ModelEvaluator) -> None:
    training = Training(augmentation=[CROP | {"size": 9}])
    with pytest.raises(EvaluationError, match="RandomCrop does not keep the shape"):
        evaluator.evaluate(HEAD + LINEAR, "Model", training, 0)
    broken = HEAD + LINEAR.replace("return", "return (torch.nan if self.training else 0) +")
    assert "loss is not finite at step 1 of 10" in judged.evaluate(evaluator, broken)[1]


@pytest.mark.parametrize(
    "entry", judged.cases("open_modules", ("mlp", "gru_over_rows", "patch_attention"))
)
def test_open_code_is_accepted_and_evaluated(
    evaluator: ModelEvaluator, entry: dict[str, Any]
) -> None:
    name = entry.get("class_name", "Model")
    summary = evaluator.inspect(entry["code"], name)
    assert not summary.failure
    assert summary.output == (2, 10)
    assert summary.multiply_adds is not None
    assert summary.layers or entry["name"] == "parameters_only"
    result, _ = evaluator.evaluate(entry["code"], name, Training(), 0)
    assert 0 <= result.metrics["accuracy"] <= 1


LATE = "time|seconds"
QUICK = ("syntax_error", "wrong_output_classes", "detached_output", "too_many_parameters")


@pytest.mark.parametrize("entry", judged.cases("broken_modules", QUICK))
def test_broken_code_is_named_and_not_scored(
    evaluator: ModelEvaluator, entry: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        model_evaluator, "INSPECT_SECONDS", 5.0 if entry["expect"] == LATE else 20.0
    )
    summary = evaluator.inspect(entry["code"], entry.get("class_name", "Model"))
    assert judged.matches(entry["expect"], summary.failure), summary.failure
    assert summary.parameters is None


def construct(line: str) -> str:
    """Write the linear model with another line in its constructor."""
    return LINEAR.replace("self.last = ", f"{line}\n        self.last = ")


def test_a_layer_in_a_plain_list_is_named(evaluator: ModelEvaluator) -> None:
    code = construct("self.all = [nn.Linear(784, 784)]")
    code = code.replace("x.flatten(1)", "self.all[0](x.flatten(1))")
    assert "not registered" in evaluator.inspect(HEAD + code, "Model").failure


def test_a_summary_of_another_size_needs_no_classes(evaluator: ModelEvaluator) -> None:
    summary = evaluator.inspect(CNN, "Model", (3, 8, 8))
    assert (summary.failure, summary.output) == ("", (2, 4))
    assert summary.parameters == sum(layer["parameters"] for layer in summary.layers)


TOO_LARGE = "numbers in parameters and buffers"
UNCOUNTED = """
    def named_parameters(self, *_, **__):
        return iter([('bias', self.last.bias)])
"""
CHEATS = {
    "clock_stands": ("import time\ntime.process_time = lambda: 0.0\n" + LINEAR, ""),
    "clock_runs": (
        "import time, itertools\nstep = itertools.count()\n"
        "time.process_time = lambda: 1e3 * next(step)\n" + LINEAR,
        "before its time limit",
    ),
    "save": (
        "import safetensors.torch as s\nimport sys\nfor m in list(sys.modules.values()):\n"
        "    if hasattr(m, 'save_file'): m.save_file = lambda *_: None\n" + LINEAR,
        "without a result",
    ),
    "metadata": (
        "import sys\nfor m in list(sys.modules.values()):\n    if hasattr(m, 'save_file'):\n"
        "        m.save_file = lambda *a, save=m.save_file: save(*a, {'x': 'x' * 100_000})\n"
        + LINEAR,
        "",
    ),
    "link": ("import os\nos.symlink('/etc/passwd', 'trained.json')\n" + LINEAR, "Error|result"),
    "escape": ("raise ValueError('\\x1b[31mred\\u202e')\n", r"ValueError at line 3.*: red$"),
    "buffer": (construct("self.register_buffer('m', torch.rand(99_999))"), TOO_LARGE),
    "names": (
        construct("for n in range(3000): self.register_buffer(f'{n:0200}', torch.zeros(0))"),
        TOO_LARGE,
    ),
    "float8": (
        construct("self.register_buffer('m', torch.rand(9).to(torch.float8_e4m3fn))"),
        "not a safetensors file",
    ),
    # from a count that the model itself gives
    "hidden": (construct("self.big = nn.Linear(784, 784)") + UNCOUNTED, TOO_LARGE),
}


def test_a_cheat_gains_nothing(evaluator: ModelEvaluator) -> None:
    honest, weights = evaluator.evaluate(HEAD + LINEAR, "Model", Training(), 0)
    for name, (code, failure) in CHEATS.items():
        if failure:
            _, reason = judged.evaluate(evaluator, HEAD + code)
            assert judged.matches(failure, reason), f"{name}: {reason}"
        else:
            result, same_weights = evaluator.evaluate(HEAD + code, "Model", Training(), 0)
            assert (result.metrics, same_weights) == (honest.metrics, weights), name
    again = judged.evaluate(evaluator, HEAD + LINEAR)
    assert again == (honest.metrics, "")  # no cheat changes what the next model sees


def test_a_device_that_does_not_start_is_no_models_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    needs_sandbox()
    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # outside of the sandbox alone
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(GenlabError, match="cuda does not start in the sandbox"):
        ModelEvaluator(judged.pictures(), "classify", BUDGET, device="cuda")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("mode", ["landlock", "bubblewrap"])
def test_a_model_trains_on_a_gpu(mode: str) -> None:
    if fault := probe_mode(mode, shutil.which("bwrap")):
        pytest.skip(f"{mode}: {fault}")
    code = CNN.replace("return", "assert x.is_cuda; return")
    data = load_data("dummy", Path(), subset=600, validation=300)
    with ModelEvaluator(
        data, "classify", TrainingBudget(3000, 100_000, 60.0), mode=mode, device="cuda"
    ) as evaluator:
        result, _ = evaluator.evaluate(code, "Model", Training(lr=5e-3, ema=0.9, clip=1.0), 0)
    assert result.metrics["accuracy"] > 0.9


WORK = "import time; end = time.thread_time() + {}\n        while time.thread_time() < end: pass"
STOPPED_CLOCK = """
import time
time.process_time = time.monotonic = lambda: 0.0
while time.thread_time() < 3.8: pass
"""


def compute(seconds: float) -> str:
    """Write the linear model that computes for these seconds in each call."""
    return HEAD + LINEAR.replace("return", f"{WORK.format(seconds)}\n        return")


def test_the_seconds_of_a_training_are_cpu_time_that_the_kernel_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needs_sandbox()
    with ModelEvaluator(
        judged.pictures(), "classify", TrainingBudget(64_000, 100_000, 2.0)
    ) as evaluator:
        result, _ = evaluator.evaluate(compute(0.05), "Model", Training(), 0)
        assert result.cut
        assert result.seconds >= 2
        waits = HEAD + LINEAR.replace("return", "import time; time.sleep(0.3); return")
        result, _ = evaluator.evaluate(waits, "Model", Training(), 0, 640)
        assert not result.cut  # a process may wait for the core as long
        assert result.seconds < 2
        with pytest.raises(EvaluationError, match=r"trained \S+ s of CPU time, at most 2 s"):
            evaluator.evaluate(STOPPED_CLOCK + HEAD + LINEAR, "Model", Training(), 0, 64)
        with pytest.raises(EvaluationError, match="of CPU time: it ran out of time"):
            evaluator.evaluate(compute(600), "Model", Training(), 0)
        monkeypatch.setattr(sandbox, "WALL_FACTOR", 0.0)
        monkeypatch.setattr(sandbox, "WALL_MARGIN", 3.0)
        with pytest.raises(EvaluationError, match=r"after 3 seconds, \d of CPU time: it ran"):
            evaluator.evaluate(waits.replace("0.3", "600"), "Model", Training(), 0)


def test_a_training_may_see_fewer_examples_than_the_budget(evaluator: ModelEvaluator) -> None:
    full, _ = evaluator.evaluate(HEAD + LINEAR, "Model", Training(), 0)
    short, _ = evaluator.evaluate(HEAD + LINEAR, "Model", Training(), 0, 192)
    assert (len(full.curve), len(short.curve), short.cut) == (10, 3, False)


def test_answers_that_do_not_depend_on_the_input_are_a_failure(evaluator: ModelEvaluator) -> None:
    constant = HEAD + LINEAR.replace("x.flatten(1)", "0 * x.flatten(1)")
    assert "answers all items alike" in judged.evaluate(evaluator, constant)[1]


ZEROS = """        for last in (self.encoder.net[-1], self.decoder.net[-1]):
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
"""


def test_encoder_and_decoder_of_a_generative_model_have_to_use_their_input() -> None:
    needs_sandbox()
    source = vae_module.SOURCE
    zeros = source.replace("Encoder(), Decoder()\n", f"Encoder(), Decoder()\n{ZEROS}")
    budget = replace(BUDGET, max_parameters=500_000)
    with ModelEvaluator(judged.pictures(), "generate", budget, frechet=False) as evaluator:
        assert evaluator.inspect(zeros, "Model").failure == ""
        constant = source.replace("self.encoder(2 * x - 1)", "self.encoder(0 * x)")
        assert (
            "encode gives the same for every image" in evaluator.inspect(constant, "Model").failure
        )
        constant = source.replace("self.decoder(z)", "self.decoder(0 * z)")
        assert "decode gives the same for every z" in evaluator.inspect(constant, "Model").failure


LOADER = construct(
    "data = torch.utils.data.DataLoader(torch.rand(9, 784), 3, num_workers=2, timeout=5,"
    " persistent_workers=True)\n        for batch in [*data, *data]: assert batch.shape == (3, 784)"
)


@pytest.mark.parametrize("mode", MODES)
def test_a_data_loader_has_no_workers(mode: str) -> None:
    needs_sandbox(mode)
    with ModelEvaluator(judged.pictures(), "classify", BUDGET, mode=mode) as evaluator:
        assert evaluator.inspect(HEAD + LOADER, "Model").failure == ""


def test_metrics_are_those_of_torch_and_scikit_learn() -> None:
    logits = torch.randn(60, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.arange(60) % 3
    metrics = classification.measure(logits.numpy(), labels.numpy(), bootstrap=200)
    assert metrics["accuracy"] == float((logits.argmax(1) == labels).double().mean())
    loss = torch.nn.functional.cross_entropy(logits, labels)
    assert metrics["val_loss"] == pytest.approx(float(loss))
    expected = f1_score(labels, logits.argmax(1), average="macro")
    assert metrics["macro_f1"] == pytest.approx(expected)
    for name, interval in metrics["intervals"].items():
        assert interval["low"] < metrics[name] < interval["high"]


def test_references_are_measured_once(
    stripes: ModelEvaluator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = stripes.data.train.labels
    file = tmp_path / "references.json"
    references = measure_references(stripes, file)
    assert list(references) == ["majority class", "logistic regression", "small CNN"]
    assert references["majority class"]["accuracy"] < references["logistic regression"]["accuracy"]
    written_at = file.stat().st_mtime_ns
    assert measure_references(stripes, file) == references
    assert file.stat().st_mtime_ns == written_at
    first_class = stripes.data.train.take(np.flatnonzero(labels == labels[0]))
    monkeypatch.setattr(stripes, "data", replace(stripes.data, train=first_class))
    with pytest.raises(GenlabError, match="one class"):
        measure_references(stripes, tmp_path / "none.json")

"""A stranger's model is trained in the sandbox, and marked by what it cannot reach."""

from __future__ import annotations

from typing import Any

import pytest

from genlab.agent.exam import final_part
from genlab.agent.lab import Lab
from genlab.agent.quick_evaluator import EvalConfig, Evaluator, eval_config
from genlab.agent.space import Block, ModelConfig
from genlab.agent.template import source
from genlab.core.errors import GenlabError

pytestmark = pytest.mark.slow

GOOD = source(
    ModelConfig(blocks=(Block(kind="plain", channels=8, kernel=5, halve=True),), hidden=(16,)),
    (1, 16, 16),
    4,
)
QUICK = EvalConfig(dataset="dummy", epochs=3, subset=600, validation=200, lr=5e-3)
HEAD = "import torch\nfrom torch import nn\n"
LINEAR = """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(256, 4)
    def forward(self, x):
        return self.last(x.flatten(1))
"""


@pytest.fixture
def evaluator(lab: Lab) -> Evaluator:
    return lab.evaluator


def test_a_model_is_marked_on_every_seed(evaluator: Evaluator) -> None:
    config = QUICK.model_copy(update={"seeds": (0, 1)})
    found = evaluator.evaluate(GOOD, "CurrentModel", config)
    assert found.failure == ""
    reported = found.summary()
    assert reported["accuracy"] > 0.7  # chance is a quarter
    assert [each["seed"] for each in reported["seeds"]] == [0, 1]
    assert reported["train_loss"] > 0
    assert reported["seconds"] >= sum(each.seconds for each in found.seeds)
    test = evaluator.final(GOOD, "CurrentModel", config, found.weights)
    assert test.n == len(final_part("dummy", evaluator.data))
    assert test.accuracy > 0.6


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (HEAD + "M = 3\n", "no nn.Module called M"),
        (HEAD + "class M(nn.Module)\n", "SyntaxError"),
        (HEAD + LINEAR.replace("256, 4", "10, 4"), "of model.py"),
        (HEAD + LINEAR.replace("256, 4", "256, 2"), "Target"),
        (HEAD + LINEAR.replace("x.flatten(1))", "x.flatten(1)) * float('nan')"), "not finite"),
        (HEAD + "import sys\nsys.exit(0)\n", "cannot be marked"),
        (HEAD + "import socket\nsocket.create_connection(('1.1.1.1', 80), 2)\n", "Error"),
    ],
)
def test_what_breaks_is_a_line_and_no_number(evaluator: Evaluator, code: str, words: str) -> None:
    found = evaluator.evaluate(code, "M", QUICK)
    assert words in found.failure
    assert "\n" not in found.failure
    assert "accuracy" not in found.summary()


def test_a_model_that_takes_too_long_is_stopped(evaluator: Evaluator) -> None:
    code = HEAD + LINEAR.replace("super()", "import time; time.sleep(600); super()", 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("genlab.agent.quick_evaluator.GRACE", 2.0)
        found = evaluator.evaluate(code, "M", QUICK.model_copy(update={"time_limit": 1.0}))
    assert "the sandbox stopped it: time" in found.failure


CHEATS = {
    "labels": "import glob\nassert not [p for p in glob.glob('/**/labels*', recursive=False)]\n",
    "loss": "torch.nn.functional.cross_entropy = lambda logits, _: logits.sum() * 0\n",
    "clock": "import time\ntime.monotonic = lambda: 0.0\n",
    "scores": "import json\njson.dump({'accuracy': 1.0}, open('told.json', 'w'))\n",
    "safetensors": "import safetensors.torch\nsafetensors.torch.save_file = lambda *_: None\n",
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheat_wins_nothing_and_reaches_no_other_attempt(
    evaluator: Evaluator, cheat: str
) -> None:
    honest = evaluator.evaluate(GOOD, "CurrentModel", QUICK)
    cheated = evaluator.evaluate(HEAD + CHEATS[cheat] + LINEAR, "M", QUICK)
    assert cheated.failure or cheated.summary()["accuracy"] < 0.9
    again = evaluator.evaluate(GOOD, "CurrentModel", QUICK)
    assert again.seeds[0].validation == honest.seeds[0].validation


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"dataset": "imagenet"}, "dataset must be one of"),
        ({"epochs": 0}, "epochs: Input should be greater than or equal to 1, got 0"),
        ({"colour": 1}, "colour: Extra inputs"),
        ({"lr": "fast"}, "lr: Input should be a valid number.*got 'fast'"),
    ],
)
def test_a_config_that_is_wrong_is_one_line(given: dict[str, Any], words: str) -> None:
    with pytest.raises(GenlabError, match=words) as caught:
        eval_config(given)
    assert "\n" not in str(caught.value)
    assert eval_config({"optimizer": "sgd"}).optimiser == "sgd"


def test_classes_that_do_not_fit_are_one_line(evaluator: Evaluator) -> None:
    with pytest.raises(GenlabError, match="num_classes is 7, dummy has 4"):
        evaluator.evaluate(GOOD, "CurrentModel", QUICK.model_copy(update={"num_classes": 7}))

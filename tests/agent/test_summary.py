"""What is reported of a model is what was measured of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from agent_runs import Scripted
from hypothesis import given, settings
from hypothesis import strategies as st

from genlab.agent.claims import corrected
from genlab.agent.lab import Lab
from genlab.agent.llm import BudgetSpent, LLMFailure
from genlab.agent.space import Input
from genlab.agent.summary import Inspector, Summary, analysed, checked_size
from genlab.core.errors import GenlabError

pytestmark = pytest.mark.slow

SHAPE: Input = (1, 16, 16)
HEAD = "import torch\nfrom torch import nn\n"
PLAIN = """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.last = nn.Linear(4 * 256, 4)
        self.last.bias.requires_grad_(False)
    def forward(self, x):
        return self.last(torch.relu(self.conv(x)).flatten(1))
"""


@pytest.fixture
def inspector(lab: Lab) -> Inspector:
    return lab.inspector


def test_counts_agree_with_a_count_by_hand(inspector: Inspector) -> None:
    found = inspector.summary(HEAD + PLAIN, "M", SHAPE)
    convolution, last = 4 * (9 + 1), 4 * 1024 + 4
    assert found.parameters == convolution + last
    assert found.trainable == found.parameters - 4
    assert found.multiply_adds == convolution * 256 + last
    assert found.output == (1, 4)
    assert [(each["name"], each["kind"], each["parameters"]) for each in found.layers] == [
        ("conv", "Conv2d", convolution),
        ("last", "Linear", last),
    ]
    assert "Total mult-adds (M)" in found.table
    batch = inspector.summary(HEAD + PLAIN, "M", (3, *SHAPE))
    assert (batch.multiply_adds, batch.output) == (found.multiply_adds, (3, 4))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("return", "return 1 if x is None else [x]; return"), "gives a list"),
        (("return", "if self.training: 1 / 0\n        return"), "division"),
        (("nn.Conv2d(1, 4, 3, padding=1)", "nn.Linear(10**6, 10**6)"), "memory"),
        (("\nclass", "import os\nos._exit(0)\nclass"), "without a summary"),
    ],
)
def test_a_model_that_breaks_has_a_failure(
    inspector: Inspector, change: tuple[str, str], words: str
) -> None:
    probed = inspector.probe(HEAD + PLAIN.replace(*change), "M", SHAPE)
    assert words in probed.failure
    assert "\n" not in probed.failure


@pytest.mark.parametrize(
    "size", [(), (28,), (1, 2, 3, 4, 5), (0, 28, 28), (1, 28, 10**9), (1, 2.5, 3), (True, 1, 1),
             "1x28x28", 28, (4096, 4096, 4096)]
)  # fmt: skip
def test_what_is_no_size_is_one_line(size: Any) -> None:
    with pytest.raises(GenlabError, match="input_size"):
        checked_size(size)


# --- words -----------------------------------------------------------------------------------

MEASURED = Summary(
    parameters=10_000,
    trainable=9_996,
    multiply_adds=2_036_010,
    output=(1, 10),
    layers=[
        {"name": "layers.0.conv", "kind": "Conv2d", "output": [1, 8, 28, 28], "parameters": 72},
        {"name": "layers.0.norm", "kind": "BatchNorm2d", "output": [1, 8], "parameters": 16},
        {"name": "layers.1", "kind": "Linear", "output": [1, 10], "parameters": 9_912},
    ],
)


@pytest.mark.parametrize(
    ("said", "kept", "overruled"),
    [
        ("It has 12,345 parameters.", "It has 10,000 parameters.",
         ["the LLM said 12,345 parameters, measured 10,000"]),
        ("12.3k trainable parameters", "10,000 trainable parameters",
         ["the LLM said 12.3 k parameters, measured 10,000"]),
        ("Parameters: 99", "Parameters: 10,000", ["the LLM said 99 parameters, measured 10,000"]),
        ("3.5 million multiply-adds", "2,036,010 multiply-adds",
         ["the LLM said 3.5 million multiply-adds, measured 2,036,010"]),
        ("The output shape is (1, 5).", "The output shape is (1, 10).",
         ["the LLM said output (1, 5), measured (1, 10)"]),
    ],
)  # fmt: skip
def test_a_wrong_number_is_overruled_and_noted(said: str, kept: str, overruled: list[str]) -> None:
    found = analysed(MEASURED, Scripted(json.dumps({"analysis": said})))
    assert (found["analysis"], found["overruled"]) == (kept, overruled)
    assert found["parameters"] == MEASURED.parameters


@pytest.mark.parametrize(
    "said",
    [
        "It has 10,000 parameters, 9996 trainable parameters and 2,036,010 multiply-adds.",
        "About 9.9k parameters sit in the last layer; the first has 72 parameters.",
        "Block 0 has 88 parameters. Roughly 10.4k parameters in total.",
        "2 M multiply-adds, about 2.0 million MACs; output of shape (10).",
        "4 parameters are frozen; 3 layers, 28 x 28 images, 95 % accuracy may be out of reach.",
        "It ends in output (1, 10), and the 2nd layer has most parameters.",
    ],
)
def test_a_right_number_stays(said: str) -> None:
    assert corrected(said, MEASURED.as_dict()) == (said, [])


@settings(max_examples=50)
@given(st.text(alphabet=st.sampled_from("0123456789.,km ~(x)params multiply-adds output"),
               max_size=60))  # fmt: skip
def test_no_words_break_the_judge(said: str) -> None:
    once, overruled = corrected(said, MEASURED.as_dict())
    assert overruled or once == said


def test_no_words_are_no_loss() -> None:
    assert analysed(MEASURED, None) == {**MEASURED.as_dict(), "analysis": "", "overruled": []}
    silent = analysed(MEASURED, Scripted(LLMFailure("503 five times")))
    assert (silent["analysis"], silent["no_analysis"]) == ("", "503 five times")
    with pytest.raises(BudgetSpent):
        analysed(MEASURED, Scripted(BudgetSpent("tokens")))

"""Config files mean the same to PyYAML's loader as params.yaml to DVC's, and hold plain values."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from genlab.core.config_yaml import MAX_DEPTH, format_config, parse_config, read_config
from genlab.core.io import parse_as_dvc

SCALARS = (
    "1e-3", "1E3", "1.e-3", "1.0e-3", "-.5", "5.", "+1", "010", "08", "0o10", "0x1F", "0b11",
    "1_000", "on", "off", "yes", "No", "y", "true", "TRUE", "~", "null", "1:30", "16:9", ".inf",
    "-.INF", "1e", "e3", "1.2.3", "0o9", "'1e-3'", "2026-01-31", "!!float 3", "[1e-3, {a: on}]",
)  # fmt: skip
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text("aeon01.:-_ +"),
    lambda values: st.lists(values) | st.dictionaries(st.text("aeon01.:-_"), values),
    max_leaves=8,
)


@pytest.mark.parametrize("scalar", SCALARS)
def test_a_scalar_is_read_as_dvc_reads_it(scalar: str) -> None:
    text = f"a: {scalar}\n"
    value = parse_config(text)["a"]
    assert value == parse_as_dvc(text)["a"]
    assert type(value) is type(parse_as_dvc(text)["a"])


def test_what_pyyaml_reads_otherwise_keeps_its_meaning() -> None:
    text = "[1e-3, on, 010, 1:30, -.5]"
    assert yaml.safe_load(text) == ["1e-3", True, 8, 90, "-.5"]
    assert parse_config(text) == [0.001, "on", 10, "1:30", -0.5]


@given(st.dictionaries(st.text("aeon01.:-_"), VALUES))
def test_what_is_written_is_read_alike_by_both_versions_of_yaml(values: dict[str, Any]) -> None:
    text = format_config(values)
    assert parse_config(text) == yaml.safe_load(text) == values


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: 1\nb: 2\na: 3", "duplicate key 'a'"),
        ("a: {b: 1, b: 1}", "duplicate key 'b'"),
        ("a: [1", "line 1"),
        ("a: 1\n---\na: 2", "single document"),
        ("a: !!python/name:os.system", "constructor"),
        ("a: !!bool x", "!!bool"),
        ("a: &x [*x]", "recursive"),
        ("a: " + "[" * 1_000_000, f"{MAX_DEPTH} levels"),
        ("a: " + "9" * 5000, "5000 digits"),
        ("? [1]\n: 2", "unhashable"),
        ("- 1", "keys and values"),
    ],
)
def test_a_fault_is_one_line_with_the_file(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "tools.yaml"
    path.write_text(text)
    with refused(path, fault):
        read_config(path)


def test_without_libyaml_the_values_are_the_same() -> None:
    text = "{a: [1e-3, on, 010, 1:30], b: {c: 0x1F}}"
    script = (
        "import yaml; del yaml.CSafeLoader\n"
        "from genlab.core.config_yaml import ConfigLoader, parse_config\n"
        "assert yaml.SafeLoader in ConfigLoader.__mro__\n"
        f"print(parse_config({text!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(parse_config(text))
    assert hasattr(yaml, "CSafeLoader")

"""Files are parsed once, and again as soon as they are other files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from genlab.core.errors import GenlabError
from genlab.web import shapes
from genlab.web.files import json_at, yaml_at


def test_another_file_of_the_same_size_and_time_is_read_again(tmp_path: Path) -> None:
    """What a checkout of an older version may look like."""
    file, other = tmp_path / "a.json", tmp_path / "b.json"
    file.write_text("[1]")
    other.write_text("[2]")
    assert json_at(file, producer_command="x") == [1]
    before = file.stat()
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(file)
    assert json_at(file, producer_command="x") == [2]


def test_a_truncated_file_is_a_fault_every_time_until_it_is_fixed(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text("[1,")
    for _ in range(2):
        with pytest.raises(GenlabError, match=r"a\.json is truncated"):
            json_at(file, producer_command="make repro")
    file.write_text("[1]")
    assert json_at(file, producer_command="make repro") == [1]


@pytest.mark.parametrize(
    "content", [b"[]", b"null", b'"x"', b"[[1]]", b"\xff\xfe{", b'{"stages": 1}']
)
@pytest.mark.parametrize(
    "shape",
    [shapes.Metrics, shapes.Verdict, shapes.Failures, shapes.Benchmarks],
)
def test_a_file_of_another_shape_is_named_with_its_fix(
    tmp_path: Path, content: bytes, shape: object
) -> None:
    file = tmp_path / "found.json"
    file.write_bytes(content)
    if content.startswith(b"{") and shape is shapes.Metrics:
        assert json_at(
            file, shape, producer_command="make x"
        )  # what else it holds is its own affair
        return
    with pytest.raises(GenlabError, match=r"found\.json.*make x"):
        json_at(file, shape, producer_command="make x")


@pytest.mark.parametrize(
    "content", [b"[]", b"", b"stages: [1]", b"a: {b", b"\xff", b"a: 2020-99-99"]
)
def test_a_foreign_yaml_is_named_with_its_fix(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "dvc.yaml"
    file.write_bytes(content)
    with pytest.raises(GenlabError, match=r"dvc\.yaml.*git checkout -- dvc\.yaml"):
        yaml_at(file, shapes.Pipeline)

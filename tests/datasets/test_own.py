"""What stage params says of data that no stage makes."""

import json
from pathlib import Path

import pytest
import tiny

from genlab.core.io import read_yaml
from genlab.core.params import parse_params
from genlab.datasets.own import write_placeholders


@pytest.mark.parametrize("name", ["dummy", "mnist"])
def test_the_agents_stages_have_something_to_depend_on(name: str, tmp_path: Path) -> None:
    values = read_yaml(tiny.PARAMS_FILE)
    values["agent"]["dataset"] = name
    params = parse_params(values, "params.yaml")
    write_placeholders(params, tmp_path)
    for file in ("data.json", "judges.json"):
        marker = tmp_path / name / file
        assert json.loads(marker.read_text())["dataset"] == name
        marker.write_text("{}")
    write_placeholders(params, tmp_path)  # what is there stays
    assert (tmp_path / name / "data.json").read_text() == "{}"


def test_data_of_a_stage_are_left_to_it(tmp_path: Path) -> None:
    params = parse_params(read_yaml(tiny.PARAMS_FILE), "params.yaml")
    assert params.agent.dataset in params.datasets
    write_placeholders(params, tmp_path)
    assert list(tmp_path.iterdir()) == []

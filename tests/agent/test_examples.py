"""The recorded runs of examples/agent are whole, and say which model answered."""

import pytest
from agent_runs import ROOT

from genlab.llm.journal import read_entries

FOLDER = ROOT / "examples" / "agent"


@pytest.mark.parametrize("name", ["expert-loop", "expert-tools", "generative"])
def test_a_recorded_run_is_readable_and_named_in_the_readme(name: str) -> None:
    path = FOLDER / f"{name}.jsonl"
    entries = read_entries(path)
    answers = [each.value for each in entries if each.kind == "answer"]
    assert answers
    assert {each["model"] for each in answers if each.get("outcome") == "answer"} == {"scripted"}
    assert f"`{path.name}`" in (FOLDER / "README.md").read_text()

"""The recorded runs of examples/agent can be read, and name the model that answered."""

import pytest
from agent_runs import ROOT

from genlab.llm.journal import read_entries

FOLDER = ROOT / "examples" / "agent"


@pytest.mark.parametrize("name", ["expert-loop", "expert-tools", "generative"])
def test_a_recorded_run_is_readable_and_named_in_the_readme(name: str) -> None:
    path = FOLDER / f"{name}.jsonl"
    entries = read_entries(path)
    outcomes = [entry.value for entry in entries if entry.kind == "answer"]
    answers = [outcome for outcome in outcomes if outcome.get("outcome") == "answer"]
    assert {answer["model"] for answer in answers} == {"scripted"}
    assert f"`{path.name}`" in (FOLDER / "README.md").read_text()

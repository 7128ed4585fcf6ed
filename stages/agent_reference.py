"""Stage agent_reference: train the pipeline's VAE within the budget of the agent's models.

Writes results/agent_reference.json; no metrics where agent.dataset holds no images of a stage.
"""

from pathlib import Path
from typing import Any

from genlab.core.errors import run_cli
from genlab.core.io import write_json
from genlab.core.params import describe_idle
from genlab.core.params.options import overridable, parse_options

RESULTS = Path("results/agent_reference.json")


class Options(overridable("seed")):
    """Train the VAE within the budget of the agent's models, as their reference.

    Example: dvc repro agent_reference
    """


def main() -> None:
    """Run the stage."""
    params = parse_options(Options).params
    conditions = params.agent.model_dump(include={"dataset", "examples", "subset", "validation"})
    measured: dict[str, Any] = {"metrics": {}}
    if reason := describe_idle():
        print(reason)
    else:
        from genlab.agent_reference import measure_reference  # which takes seconds to import

        measured = measure_reference(params)
        print(f"{RESULTS}: {measured['metrics']}")
    write_json(RESULTS, conditions | measured)


if __name__ == "__main__":
    run_cli(main)

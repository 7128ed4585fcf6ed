"""Stage params: resolve params.yaml into the values, and the code, that each stage depends on.

Writes results/DATASET/params.json, or results/params.json for the stages without a dataset:
{stage: {"code": digest, key: value}}. The other stages depend on their entry of it, so that a
parameter that only grids use, or a reworded comment, leaves the stages of images up to date.
Without a dataset it also writes results/own.json: the user's own datasets, which stage source
watches.
"""

from pathlib import Path

from pydantic import Field

from genlab.core.code import add_code
from genlab.core.errors import run_cli
from genlab.core.io import write_json
from genlab.core.params import IDLE, load_params
from genlab.core.params.options import StageOptions, parse_options
from genlab.datasets.own import resolve_stages, write_placeholders


class Options(StageOptions):
    """Resolve params.yaml for the stages of a dataset, or for those without one.

    Example: python stages/params.py --dataset arc_grids
    """

    dataset: str | None = Field(None, description="Name of the dataset.")
    output: Path | None = Field(None, description="Folder for the file, instead of DVC's.")


def main() -> None:
    """Run the stage."""
    options = parse_options(Options)
    dataset = options.dataset
    params = load_params(complete=False)
    if dataset:
        values = resolve_stages(params, dataset)
    else:
        # Results of the agent stay while the pipeline does not run over its dataset.
        has_results = Path("data/agent").exists() and not IDLE.exists()
        values = params.resolve_shared(idle=params.leaves_agent_out and not has_results)
    folder = options.output or Path("results", dataset or "")
    write_json(folder / "params.json", add_code(values))
    if not dataset:
        own_datasets = [name for name in params.datasets if params.dataset(name).source]
        write_json(folder / "own.json", {"own": own_datasets})
        write_placeholders(params, folder)
    print(folder / "params.json")


if __name__ == "__main__":
    run_cli(main)

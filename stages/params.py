"""Stage params: resolve params.yaml into what each stage depends on: its values and its code.

Writes results/DATASET/params.json, or results/params.json for the stages without a dataset:
{stage: {"code": digest, key: value}}. The other stages depend on their entry of it, so that a
parameter that only grids use, or a reworded comment, leaves the stages of images up to date. The
latter also writes results/own.json: the datasets of one's own, which stage source watches.
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
        # What the agent found stays while its dataset is left out; without that it has none.
        rests = not Path("data/agent").exists() or IDLE.exists()
        values = params.resolve_shared(idle=params.leaves_agent_out and rests)
    folder = options.output or Path("results", dataset or "")
    write_json(folder / "params.json", add_code(values))
    if not dataset:
        own = [name for name in params.datasets if params.dataset(name).source]
        write_json(folder / "own.json", {"own": own})
        write_placeholders(params, folder)
    print(folder / "params.json")


if __name__ == "__main__":
    run_cli(main)

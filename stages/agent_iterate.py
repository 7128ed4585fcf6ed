"""Stage agent_iterate: let the research agent work towards agent.goal, and keep what it found.

It works in workspaces/, where a killed or finished run is resumed, and writes snapshots:
data/agent/ (best model, report, transcript), metrics/agent.json and plots/agent/progress.png.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from genlab.agent import report, snapshot
from genlab.agent.progress import progress
from genlab.agent.run import check, run
from genlab.agent.settings import Settings
from genlab.agent.workspace import open_in
from genlab.core.errors import run_cli
from genlab.core.params import load_params, overrides


@overrides("seed")
def agent_iterate(
    data_path: Annotated[Path, typer.Option(help="Folder of the datasets' folders.")] = Path(
        "data"
    ),
    workspaces: Annotated[Path, typer.Option(help="Where it works.")] = Path("workspaces"),
    output: Annotated[Path, typer.Option(help="Snapshot of the best model.")] = Path("data/agent"),
    metrics_path: Annotated[Path, typer.Option(help="Numbers.")] = Path("metrics/agent.json"),
    plots_path: Annotated[Path, typer.Option(help="Folder for PNG.")] = Path("plots/agent"),
    *,
    overrides: dict[str, Any],
) -> None:
    """Work on agent.goal of params.yaml until it is reached or a limit is.

    Example: dvc repro agent_iterate
    """
    settings = Settings.of_stage(load_params().with_overrides(**overrides), data_path)
    print(f"goal: {settings.goal.words}")
    check(settings)
    workspace = open_in(workspaces, settings.goal.text, snapshot.key(settings))
    with progress(settings.goal) as say:
        run(settings, workspace, say)
    told = snapshot.write(workspace, output, metrics_path, plots_path)
    print(f"{metrics_path}: {report.line(told)}")


if __name__ == "__main__":
    run_cli(lambda: typer.run(agent_iterate))

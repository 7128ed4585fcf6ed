"""Stage agent_iterate: let the research agent work towards agent.goal, and keep what it found.

It works in workspaces/, where a killed or finished run is resumed, and writes snapshots:
data/agent/ (best model, report, transcript), results/agent.json, metrics/agent.json (the headline)
and plots/agent/progress.png.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from genlab.agent import report, snapshot
from genlab.agent.progress import progress
from genlab.agent.run import check, run
from genlab.agent.settings import Settings
from genlab.agent.workspace import open_in
from genlab.core.errors import run_cli
from genlab.core.options import overridable, parse_options


class Options(overridable("seed")):
    """Work on agent.goal of params.yaml until it is met or a limit is reached.

    Example: dvc repro agent_iterate
    """

    data_path: Path = Field(Path("data"), description="Folder of the datasets' folders.")
    workspaces: Path = Field(Path("workspaces"), description="Folder of workspaces.")
    output: Path = Field(Path("data/agent"), description="Snapshot of the best model.")
    metrics_path: Path = Field(Path("metrics/agent.json"), description="Headline numbers.")
    results_path: Path = Field(Path("results/agent.json"), description="All numbers.")
    plots_path: Path = Field(Path("plots/agent"), description="Folder for PNG.")


def main() -> None:
    """Run the stage."""
    options = parse_options(Options)
    settings = Settings.of_stage(options.params, options.data_path)
    print(f"goal: {settings.goal.words}")
    check(settings)
    workspace = open_in(options.workspaces, settings.goal.text, snapshot.key(settings))
    with progress(settings.goal) as reporter:
        run(settings, workspace, reporter)
    found = snapshot.write(
        workspace, options.output, options.metrics_path, options.results_path, options.plots_path
    )
    print(f"{options.results_path}: {report.line(found)}")


if __name__ == "__main__":
    run_cli(main)

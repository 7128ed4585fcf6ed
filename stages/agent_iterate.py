"""Stage agent_iterate: let the research agent work towards agent.goal; keep its results.

It works in workspaces/, where killed and finished runs are resumed, and writes snapshots:
data/agent/ (best model, report, transcript), results/agent.json, metrics/agent.json (the headline)
and plots/agent/progress.png.
"""

from pathlib import Path

from genlab.agent import report
from genlab.agent.config import Settings
from genlab.agent.run import check_settings, run
from genlab.agent.workspace import open_workspace
from genlab.core.errors import run_cli
from genlab.core.io import write_json
from genlab.core.params import IDLE, describe_idle
from genlab.core.params.options import overridable, parse_options

RESULTS = Path("results/agent.json")


class Options(overridable("seed")):
    """Work on agent.goal of params.yaml until it is met or a limit is reached.

    Example: dvc repro agent_iterate
    """


def main() -> None:
    """Run the stage."""
    params = parse_options(Options).params
    if reason := describe_idle():
        write_json(IDLE, {"reason": reason})
        write_json(RESULTS, {"reason": reason})
        write_json(Path("metrics/agent.json"), {})
        Path("plots/agent").mkdir(parents=True, exist_ok=True)
        print(reason)
        return
    settings = Settings.from_params(params, Path("data"))
    print(f"goal: {settings.goal.description}")
    check_settings(settings)
    workspace = open_workspace(Path("workspaces"), settings.goal, settings.stage_key)
    run(settings, workspace)
    snapshot = report.write_snapshot(
        workspace, Path("data/agent"), Path("metrics/agent.json"), RESULTS, Path("plots/agent")
    )
    print(f"{RESULTS}: {snapshot.summary_line}")


if __name__ == "__main__":
    run_cli(main)

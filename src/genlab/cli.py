"""The command `genlab`: one entry to every tool of the project.

Sub-commands are imported when they are called, so that `genlab --help` stays fast.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

import typer
import typer.main
from typer.core import TyperGroup

from genlab import __version__
from genlab.core.errors import run_cli

COMMANDS = {
    "data": ("genlab.data_cli", "Show how a path is understood as pictures; add it."),
    "sample": ("genlab.models_cli:sample_app", "Draw samples of a trained model."),
    "encode": ("genlab.models_cli:encode_app", "Encode items to a trained model's latents."),
    "reconstruct": ("genlab.models_cli:reconstruct_app", "Reconstruct items by a trained model."),
    "agent": ("genlab.agent.cli", "Look for a network that reaches a goal."),
    "benchmark": ("genlab.benchmark.cli", "Score image tools that replace people in photographs."),
    "report": ("genlab.evaluation.reports.cli", "Write the reports from the result files."),
    "experiments": ("genlab.experiments.cli", "Run the documented experiments."),
}
"""Name -> MODULE, or MODULE:APP if its Typer app is not called `app`; and its help."""


class LazyGroup(TyperGroup):
    """A group that lists its sub-commands by stubs and imports the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Replace the stub of a sub-command by the command itself."""
        name, command, rest = super().resolve_command(ctx, args)
        if name in COMMANDS:
            command = load_command(name)
        return name, command, rest


def load_command(name: str) -> Any:
    """Import a sub-command."""
    target, _ = COMMANDS[name]
    module, _, app_name = target.partition(":")
    return typer.main.get_command(getattr(import_module(module), app_name or "app"))


app = typer.Typer(
    cls=LazyGroup,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Reproducible experiments with generative models of images. The pipeline: make repro.",
)


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"genlab {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", is_eager=True, callback=_show_version, help="Show the version and exit."
    ),
) -> None:
    """Options of `genlab` itself; the help of the group is above."""


def _add_stub(name: str, description: str) -> None:
    @app.command(name, help=description)
    def stub() -> None:
        raise AssertionError("LazyGroup imports the command instead")


for _name, (_, _description) in COMMANDS.items():
    _add_stub(_name, _description)


@app.command()
def doctor(
    endpoints: bool = typer.Option(
        False, "--endpoints", help="Ask the language models of params.yaml a few short questions."
    ),
) -> None:
    """Show what this machine has and lacks, and what each thing is needed for.

    The exit status is 1 if the pipeline lacks something that it needs; with --endpoints, if a
    language model of agent.planning or agent.tools does not answer.
    """
    from genlab.core.params import load_params
    from genlab.doctor import check_endpoints, examine, format_table

    if endpoints:
        checks = list(check_endpoints(load_params().agent))
        typer.echo(format_table(checks, "the agent can ask these language models"))
    else:
        checks = list(examine(Path()))
        typer.echo(format_table(checks))
    if any(check.required and not check.passed for check in checks):
        raise typer.Exit(1)


def main() -> None:
    """The console script."""
    run_cli(app)


if __name__ == "__main__":
    main()

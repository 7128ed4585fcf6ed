"""The command line: a goal to work on, and what looks after workspaces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from genlab.agent import report as reports
from genlab.agent import tools
from genlab.agent.goal import Goal
from genlab.agent.goal import goal as read_goal
from genlab.agent.progress import progress
from genlab.agent.registry import Registry
from genlab.agent.run import check, run
from genlab.agent.settings import Settings
from genlab.agent.story import run_file, signed, story
from genlab.agent.toolbox import Toolbox, using
from genlab.agent.workspace import PROJECT, Workspace, goal_of, key_of, lay_out, open_in
from genlab.core.errors import GenlabError
from genlab.core.params import load_params, parse_params

WORKSPACES = Path("workspaces")


class GoalFirst(TyperGroup):
    """A group whose first word may be a goal: what is no command is one for `run`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ("--help", "-h")):
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=GoalFirst,
    add_completion=False,
    no_args_is_help=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Look for a network that reaches a goal: a sentence with a data set and a number in it.

It plans models, writes them, tests them behind walls, and stops when the numbers reach the goal or
a limit is reached. A run that was killed goes on when the same command is given again. What isn't
given comes from params.yaml, section agent; `run --help` lists the options.

    # with the small model on this machine: no key, no network
    python -m genlab.agent "simple CNN for Fashion-MNIST, > 80 % accuracy"
    # with an endpoint: OPENAI_API_KEY opens OpenAI's, --base-url names another
    python -m genlab.agent "MNIST, > 99 %" --backend openai --planning-model NAME
    # without any model: random search, on data that need no download
    python -m genlab.agent "dummy stripes, > 99 % accuracy" --backend search
    # what came of the latest run, and of all
    python -m genlab.agent report
    python -m genlab.agent list
""",
)

Folder = Annotated[Path, typer.Option(help="Folder that holds the workspaces.")]
Named = Annotated[
    Path | None,
    typer.Argument(help="Workspace, by its folder or its name. [default: the latest one]"),
]


@app.command("run")
def work(
    goal: Annotated[
        str,
        typer.Argument(help='What you want, with a number: "CNN for MNIST, > 99 % accuracy".'),
    ] = "",
    dataset: Annotated[str | None, typer.Option(help="Where the goal names none.")] = None,
    metric: Annotated[
        str | None, typer.Option(help="accuracy, val_loss, parameters or seconds.")
    ] = None,
    at_least: Annotated[float | None, typer.Option(help="The least it shall be.")] = None,
    at_most: Annotated[float | None, typer.Option(help="The most it shall be.")] = None,
    backend: Annotated[
        str | None,
        typer.Option(
            help="Who plans: embedded (a small model on this machine, no key), openai (any such"
            " endpoint), replay (a transcript), search (no LLM)."
        ),
    ] = None,
    max_iterations: Annotated[
        int | None, typer.Option(help="Most attempts, the baseline included.")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Most tokens; 0 = no limit.")] = None,
    max_cost: Annotated[
        float | None, typer.Option(help="Most dollars, by the prices of params.yaml; 0 = no limit.")
    ] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Most seconds; 0 = no limit.")] = None,
    base_url: Annotated[
        str | None, typer.Option(help="Endpoint, such as http://localhost:11434/v1 for Ollama.")
    ] = None,
    planning_model: Annotated[str | None, typer.Option(help="Model that plans.")] = None,
    tools_model: Annotated[str | None, typer.Option(help="Model that writes code.")] = None,
    gguf: Annotated[
        Path | None, typer.Option(help="Weights for the embedded backend, a GGUF file of yours.")
    ] = None,
    transcript: Annotated[
        Path | None, typer.Option(help="transcript.jsonl that replay answers from.")
    ] = None,
    compare: Annotated[
        bool | None, typer.Option(help="Give search the same budget, for the report.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of search and of the models.")] = None,
    data: Annotated[Path, typer.Option(help="Folder of the datasets' folders.")] = Path("data"),
    workspaces: Folder = WORKSPACES,
    workspace: Annotated[
        Path | None, typer.Option(help="This folder instead: empty, or of the same goal.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Open a new workspace, whatever is there.")
    ] = False,
) -> None:
    """Work on GOAL; what isn't given here comes from params.yaml, section agent.

    Example: python -m genlab.agent "CNN for Fashion-MNIST, > 88 % accuracy" --backend search

    Example: python -m genlab.agent "small net" --dataset mnist --metric val_loss --at-most 0.1
    """
    wanted = read_goal(goal, dataset=dataset, metric=metric, at_least=at_least, at_most=at_most)
    given = {
        "backend": backend,
        "max_iterations": max_iterations,
        "max_tokens": max_tokens,
        "max_cost": max_cost,
        "max_seconds": max_seconds,
        "base_url": base_url,
        "planning_model": planning_model,
        "tools_model": tools_model,
        "gguf": str(gguf) if gguf else None,
        "transcript": str(transcript) if transcript else None,
        "compare_with_search": compare,
    }
    settings = _settings(wanted, given, seed, data)
    check(settings)
    place = _place(settings, workspaces, workspace, fresh=fresh)
    typer.echo(f"workspace: {place.root}")
    typer.echo(f"goal: {wanted.words}")
    with progress(settings.goal) as say:
        done = run(settings, place, say)
    typer.echo(f"{done.report}: {reports.line(story(place))}")


@app.command()
def rebuild(workspace: Named = None, workspaces: Folder = WORKSPACES) -> None:
    """Write a damaged registry.json or project.json again from what else the workspace holds.

    Example: python -m genlab.agent rebuild design-a-simple-cnn
    """
    found = _found(workspace, workspaces)
    signed(found)
    count = Registry(found).rebuild()
    typer.echo(f"{Registry(found).path}: {count} attempt{'s' * (count != 1)}")


@app.command()
def promote(
    run_id: Annotated[str, typer.Argument(help="The attempt, such as qe_20260101_120000.")],
    epochs: Annotated[int, typer.Option(min=1, help="Epochs over the whole training part.")] = 20,
    seeds: Annotated[int, typer.Option(min=1, max=100, help="How many seeds.")] = 3,
    time_limit: Annotated[float, typer.Option(help="Seconds a seed, at most.")] = 3600.0,
    data: Annotated[Path, typer.Option(help="Folder of the datasets' folders.")] = Path("data"),
    workspace: Annotated[
        Path | None, typer.Option(help="Its workspace, by folder or name. [default: the latest]")
    ] = None,
    workspaces: Folder = WORKSPACES,
) -> None:
    """Train an attempt at full length on several seeds, behind the same walls.

    Example: python -m genlab.agent promote qe_20260101_120000 --epochs 30 --seeds 5
    """
    found = _found(workspace, workspaces)
    with Toolbox.of(found, load_params().agent, data) as box, using(box):
        told = tools.promote(run_id, epochs=epochs, seeds=range(seeds), time_limit=time_limit)
    low, high = told["interval"] or (None, None)
    shown = f", 95 % interval {low:.4f} to {high:.4f}" if low is not None else ""
    typer.echo(
        f"{run_id}: accuracy {told['accuracy']:.4f}{shown}, {seeds} seeds, {epochs} epochs,"
        f" on {told['n']:,} validation items"
    )
    if told["cut"]:
        typer.echo(
            f"the time limit of {time_limit:g} s cut the training of seeds"
            f" {', '.join(map(str, told['cut']))}: not all of their {epochs} epochs were done;"
            " raise --time-limit"
        )


@app.command("report")
def report_on(workspace: Named = None, workspaces: Folder = WORKSPACES) -> None:
    """Write the report again from the workspace's files, without an LLM and without training.

    Example: python -m genlab.agent report design-a-simple-cnn
    """
    found = _found(workspace, workspaces)
    typer.echo(f"{reports.write(found)}: {reports.line(story(found))}")


@app.command("list")
def list_all(workspaces: Folder = WORKSPACES) -> None:
    """List the workspaces, a line each, the latest one last."""
    for each in _all(workspaces):
        try:
            begun = run_file(Workspace(each)).exists()
            goal_of(each)  # damaged?
            line = reports.line(story(Workspace(each))) if begun else "opened, nothing run yet"
        except GenlabError as error:  # of this one alone
            line = str(error)
        typer.echo(f"{each}: {line}")


def _settings(wanted: Goal, given: dict[str, Any], seed: int | None, data: Path) -> Settings:
    """The settings of params.yaml with the options over them."""
    values = load_params().model_dump()
    options = {"goal": wanted.text, "dataset": wanted.dataset, **given}
    values["agent"].update({name: value for name, value in options.items() if value is not None})
    if seed is not None:
        values["seed"] = seed
    try:
        params = parse_params(values, "options")
    except GenlabError as error:  # the names that were typed
        fault = str(error)
        for name in (name for name, value in given.items() if value is not None):
            fault = fault.replace(f"agent.{name} ", f"--{name.replace('_', '-')} ")
        raise GenlabError(fault) from error
    return Settings(wanted, params.agent, params.seed, data)


def _place(
    settings: Settings, workspaces: Path, workspace: Path | None, *, fresh: bool
) -> Workspace:
    """The workspace to work in: a new one, or the one that this goal was begun in."""
    text = settings.goal.text
    if workspace is None:
        number, key = 1, settings.key
        while fresh and any(key_of(each) == key for each in _all(workspaces)):
            number, key = number + 1, f"{settings.key}-{number + 1}"
        return open_in(workspaces, text, key)
    if not workspace.exists() or (workspace.is_dir() and not any(workspace.iterdir())):
        return lay_out(workspace, text, settings.key)
    if goal_of(workspace) is None:
        raise GenlabError(f"{workspace} isn't empty and holds no project; name another folder")
    if goal_of(workspace) != text:
        raise GenlabError(
            f"{workspace} is the workspace of another goal ({goal_of(workspace)!r});"
            " name another folder"
        )
    if key_of(workspace) not in ("", settings.key):
        raise GenlabError(
            f"{workspace} was begun with other settings of backend, evaluation or seed; name"
            " another folder"
        )
    return Workspace(workspace)


def _all(workspaces: Path) -> list[Path]:
    found = [path.parent for path in workspaces.glob(f"*/{PROJECT}")]
    return sorted(found, key=lambda path: ((path / PROJECT).stat().st_mtime, path.name))


def _found(workspace: Path | None, workspaces: Path) -> Workspace:
    """The workspace that is meant. Raises GenlabError where there is none."""
    if workspace is None:
        every = _all(workspaces)
        if not every:
            raise GenlabError(f"{workspaces} holds no workspace; name one, or state a goal")
        return Workspace(every[-1])
    for path in (workspace, workspaces / workspace):
        if (path / PROJECT).is_file():
            return Workspace(path)
    raise GenlabError(f"{workspace} is no workspace; `python -m genlab.agent list` lists them")

"""The command line: a goal to work on, the tools one by one, and what looks after workspaces."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from genlab.core.errors import GenlabError

if TYPE_CHECKING:
    from genlab.agent.config import Settings
    from genlab.agent.goals import Goal
    from genlab.agent.workspace import Workspace

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

The agent plans models, writes them, trains them in a sandbox, and stops when the measured numbers
reach the goal or a limit is reached. The same command resumes a run that was stopped. What is not
given comes from params.yaml, section agent; `run --help` lists the options.

    # with the small model on this machine: no key, no network
    genlab agent "simple CNN for Fashion-MNIST, > 80 % accuracy"
    # with an endpoint: OPENAI_API_KEY is for OpenAI's, --base-url names another
    genlab agent "MNIST, > 99 %" --backend openai --planning-model NAME
    # without any model: random search, on data that need no download
    genlab agent "dummy stripes, > 99 % accuracy" --backend search
    # one tool on its own, in a workspace
    genlab agent tool list_directory '{"path": "experiments"}'
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
        str, typer.Argument(help='What you want, with a number: "CNN for MNIST, > 99 % accuracy".')
    ] = "",
    dataset: Annotated[
        str | None, typer.Option(help="Where the goal names none; path:FOLDER for own images.")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="accuracy, macro_f1, val_loss, bits_per_dim or frechet_distance."),
    ] = None,
    at_least: Annotated[float | None, typer.Option(help="Threshold, when more is better.")] = None,
    at_most: Annotated[float | None, typer.Option(help="Threshold, when less is better.")] = None,
    mode: Annotated[
        str | None, typer.Option(help="loop, or tools: the planning model calls the tools.")
    ] = None,
    backend: Annotated[
        str | None, typer.Option(help="Who plans: embedded, openai, replay or search (no LLM).")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="Endpoint, such as http://localhost:11434/v1 for Ollama.")
    ] = None,
    planning_model: Annotated[str | None, typer.Option(help="Model that plans.")] = None,
    tools_model: Annotated[str | None, typer.Option(help="Model that writes code.")] = None,
    gguf: Annotated[str | None, typer.Option(help="GGUF file for the embedded backend.")] = None,
    transcript: Annotated[str | None, typer.Option(help="Journal that is replayed.")] = None,
    max_iterations: Annotated[int | None, typer.Option(help="Most attempts.")] = None,
    max_parameters: Annotated[int | None, typer.Option(help="Most parameters of a model.")] = None,
    training_seconds: Annotated[
        float | None, typer.Option(help="Most seconds of the training of one seed.")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Most tokens; 0 = no limit.")] = None,
    max_cost: Annotated[float | None, typer.Option(help="Most dollars; 0 = no limit.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Most seconds; 0 = no limit.")] = None,
    candidates: Annotated[int | None, typer.Option(help="Proposals per round.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or mps.")] = None,
    compare: Annotated[
        bool | None, typer.Option(help="Give random search the same budget.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of search and of the models.")] = None,
    data: Annotated[Path, typer.Option(help="Folder of the datasets' folders.")] = Path("data"),
    workspaces: Folder = WORKSPACES,
    workspace: Annotated[
        Path | None, typer.Option(help="This folder instead: empty, or of the same goal.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin a new workspace.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Work on GOAL; what is not given here comes from params.yaml, section agent.

    Example: genlab agent "CNN for Fashion-MNIST, > 88 % accuracy" --backend search
    """
    from genlab.agent import record, report
    from genlab.agent.goals import parse_goal
    from genlab.agent.progress import progress
    from genlab.agent.run import check, run

    wanted = parse_goal(
        goal,
        dataset=dataset,
        metric=metric,
        at_least=at_least,
        at_most=at_most,
        max_parameters=max_parameters,
        max_seconds=training_seconds,
    )
    given = {
        "mode": mode, "backend": backend, "gguf": gguf, "transcript": transcript, "device": device,
        "max_iterations": max_iterations,
        "max_tokens": max_tokens, "max_cost": max_cost, "max_seconds": max_seconds,
        "candidates": candidates, "compare_with_search": compare,
    }  # fmt: skip
    roles = {"base_url": (base_url, base_url), "model": (planning_model, tools_model)}
    settings = _settings(wanted, given, roles, seed, data)
    typer.echo(f"goal: {wanted.description}")
    if not yes and sys.stdin.isatty():
        typer.confirm("Is this the goal?", default=True, abort=True)
    check(settings)
    place = _place(settings, workspaces, workspace, fresh=fresh)
    typer.echo(f"workspace: {place.root}")
    with progress(settings.goal) as reporter:
        path = run(settings, place, reporter)
    typer.echo(f"{path}: {report.line(record.read_run(place))}")


@app.command()
def tool(
    name: Annotated[str, typer.Argument(help="Name of the tool; without it, all are listed.")] = "",
    arguments: Annotated[str, typer.Argument(help="Its arguments, as a JSON object.")] = "{}",
    workspace: Annotated[
        Path | None, typer.Option(help="Workspace, by folder or name. [default: the latest]")
    ] = None,
    workspaces: Folder = WORKSPACES,
) -> None:
    """Call one tool of the agent, with the parameters, backend and workspace of a run.

    Example: genlab agent tool read_file '{"file_path": "src/models/current_model.py"}'
    """
    from genlab.agent import tools
    from genlab.agent.tools.functions import function_schemas, run
    from genlab.agent.tools.toolbox import Toolbox
    from genlab.core.text import printable

    if not name:
        for schema in function_schemas():
            typer.echo(f"{schema['function']['name']}: {schema['function']['description']}")
        return
    if name not in tools.TOOLS:
        raise GenlabError(f"no tool is called {name!r}; name one of {', '.join(tools.TOOLS)}")
    try:
        stated = json.loads(arguments)
    except ValueError as error:
        raise GenlabError(f"arguments must be a JSON object: {error}") from error
    if not isinstance(stated, dict):
        raise GenlabError(f"arguments must be a JSON object, got {arguments[:60]}")
    with Toolbox.of_workspace(_found(workspace, workspaces)) as box, tools.using(box):
        found = run(name, stated)
    text = found if isinstance(found, str) else json.dumps(found, indent=2)
    typer.echo("done" if found is None else printable(text))


@app.command("report")
def report_on(workspace: Named = None, workspaces: Folder = WORKSPACES) -> None:
    """Write the report again from the workspace's files, without an LLM and without training."""
    from genlab.agent import record, report

    found = _found(workspace, workspaces)
    typer.echo(f"{report.write(found)}: {report.line(record.read_run(found))}")


@app.command("list")
def list_all(workspaces: Folder = WORKSPACES) -> None:
    """List the workspaces, one per line, the latest one last."""
    from genlab.agent import record, report
    from genlab.agent.workspace import Workspace, all_workspaces

    for root in all_workspaces(workspaces):
        try:
            begun = (Workspace(root).experiments / record.RUN).exists()
            line = report.line(record.read_run(Workspace(root))) if begun else "nothing has run yet"
        except GenlabError as error:
            line = str(error)
        typer.echo(f"{root}: {line}")


@app.command()
def rebuild(workspace: Named = None, workspaces: Folder = WORKSPACES) -> None:
    """Write a damaged registry.json again from the attempts' own folders."""
    from genlab.agent.registry import Registry

    registry = Registry(_found(workspace, workspaces))
    count = registry.rebuild()
    typer.echo(f"{registry.path}: {count} attempt{'s' * (count != 1)}")


def _settings(
    goal: Goal,
    given: dict[str, Any],
    roles: dict[str, tuple[str | None, str | None]],
    seed: int | None,
    data: Path,
) -> Settings:
    """The settings of params.yaml with the options that were given."""
    from genlab.agent.config import Settings
    from genlab.core.params import load_params, parse_params

    content = load_params().model_dump()
    agent, options = content["agent"], {"goal": goal.text, "dataset": goal.dataset, **given}
    agent.update({name: value for name, value in options.items() if value is not None})
    for name, (planning, tools) in roles.items():
        for role, value in (("planning", planning), ("tools", tools)):
            if value is not None:
                agent[role][name] = value
    if seed is not None:
        content["seed"] = seed
    try:
        params = parse_params(content, "options")
    except GenlabError as error:  # name the options that were typed
        fault = str(error)
        for name in (name for name, value in given.items() if value is not None):
            fault = fault.replace(f"agent.{name} ", f"--{name.replace('_', '-')} ")
        raise GenlabError(fault) from error
    return Settings(goal, params.agent, params.seed, data=data)


def _place(
    settings: Settings, workspaces: Path, workspace: Path | None, *, fresh: bool
) -> Workspace:
    """The workspace to work in: a new one, or the one in which this run was begun."""
    from genlab.agent.workspace import Workspace, key_of, lay_out, open_workspace

    goal, key = settings.goal, settings.key
    if workspace is None:
        return open_workspace(workspaces, goal, key, fresh=fresh)
    if not workspace.exists() or (workspace.is_dir() and not any(workspace.iterdir())):
        return lay_out(workspace, goal, key)
    if key_of(workspace) is None:
        raise GenlabError(f"{workspace} is not empty and holds no project; name another folder")
    if key_of(workspace) != key:
        raise GenlabError(
            f"{workspace} belongs to a run with another goal, other parameters or another version"
            " of genlab; name another folder"
        )
    return Workspace(workspace)


def _found(workspace: Path | None, workspaces: Path) -> Workspace:
    """The workspace that is meant. Raises a GenlabError where there is none."""
    from genlab.agent.workspace import PROJECT, Workspace, all_workspaces

    if workspace is None:
        every = all_workspaces(workspaces)
        if not every:
            raise GenlabError(f"{workspaces} holds no workspace; name one, or state a goal")
        return Workspace(every[-1])
    for path in (workspace, workspaces / workspace):
        if (path / PROJECT).is_file():
            return Workspace(path)
    raise GenlabError(f"{workspace} is no workspace; `genlab agent list` lists them")

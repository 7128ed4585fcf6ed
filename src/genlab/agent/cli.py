"""`genlab agent`: start and resume runs, call single tools, list and report workspaces."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option
from typer.core import TyperGroup

from genlab.core.errors import GenlabError

if TYPE_CHECKING:
    from genlab.agent.config import Settings
    from genlab.agent.goals.goal import Goal
    from genlab.core.params import Params

WORKSPACES = Path("workspaces")
OVERRIDES = (  # options that replace parameters of the section agent
    "mode", "backend", "gguf", "transcript", "max_iterations", "max_tokens", "max_cost",
    "max_seconds", "candidates", "device", "compare_with_search",
)  # fmt: skip


class GoalFirst(TyperGroup):
    """A group of commands whose first word may be a goal instead, which means `run`."""

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
    help="""Look for a network that reaches a goal: a sentence that names a dataset and a number.

The agent plans models, writes them, trains them in a sandbox, and stops when the measured numbers
reach the goal or a limit is reached. The same command resumes a run that was stopped. Defaults come
from params.yaml, section agent; `run --help` lists the options.

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

Folder = Annotated[Path, Option(help="Folder that holds the workspaces.")]
Named = Annotated[Path | None, Argument(help="Workspace, by folder or name. [default: the latest]")]


@app.command("run")
def run_goal(
    context: typer.Context,
    goal: Annotated[str, Argument(help='With a number: "CNN for MNIST, > 99 % accuracy".')] = "",
    dataset: Annotated[str | None, Option(help="Name, or path:FOLDER for own images.")] = None,
    metric: Annotated[str | None, Option(help="accuracy, macro_f1, val_loss, ...")] = None,
    at_least: Annotated[float | None, Option(help="Threshold, when more is better.")] = None,
    at_most: Annotated[float | None, Option(help="Threshold, when less is better.")] = None,
    mode: Annotated[str | None, Option(help="loop, or tools: the LLM calls the tools.")] = None,
    backend: Annotated[str | None, Option(help="embedded, openai, replay or search.")] = None,
    base_url: Annotated[str | None, Option(help="Endpoint, as http://localhost:11434/v1.")] = None,
    planning_model: Annotated[str | None, Option(help="Model that plans.")] = None,
    tools_model: Annotated[str | None, Option(help="Model that writes code.")] = None,
    gguf: Annotated[str | None, Option(help="GGUF file for the embedded backend.")] = None,
    transcript: Annotated[str | None, Option(help="Journal that is replayed.")] = None,
    max_iterations: Annotated[int | None, Option(help="Maximum number of attempts.")] = None,
    max_parameters: Annotated[int | None, Option(help="Maximum parameters of a model.")] = None,
    training_seconds: Annotated[float | None, Option(help="Maximum seconds per training.")] = None,
    max_tokens: Annotated[int | None, Option(help="Maximum tokens; 0 = no limit.")] = None,
    max_cost: Annotated[float | None, Option(help="Maximum dollars; 0 = no limit.")] = None,
    max_seconds: Annotated[
        float | None, Option(help="Seconds after which no round begins; 0 = no limit.")
    ] = None,
    candidates: Annotated[int | None, Option(help="Proposals per round.")] = None,
    device: Annotated[str | None, Option(help="auto, cpu or cuda.")] = None,
    compare_with_search: Annotated[
        bool | None, Option("--compare/--no-compare", help="Give random search the same budget.")
    ] = None,
    seed: Annotated[int | None, Option(help="Seed of search and of the models.")] = None,
    data: Annotated[Path, Option(help="Folder that holds the datasets' folders.")] = Path("data"),
    workspaces: Folder = WORKSPACES,
    fresh: Annotated[bool, Option("--fresh", help="Begin a new workspace.")] = False,
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Look for a network that reaches GOAL; defaults come from params.yaml, section agent.

    Example: genlab agent "CNN for Fashion-MNIST, > 88 % accuracy" --backend search
    """
    from genlab.agent.record import read_run
    from genlab.agent.run import check_settings, run
    from genlab.agent.workspace import open_workspace

    settings, is_read = _read_settings(goal, context.params, workspaces, data)
    _confirm(settings, yes=yes, is_read=is_read)
    check_settings(settings)
    workspace = open_workspace(workspaces, settings.goal, settings.key, fresh=fresh)
    typer.echo(f"workspace: {workspace.root}")
    path = run(settings, workspace)
    typer.echo(f"{path}: {read_run(workspace).summary_line}")


@app.command()
def resume(workspace: Named = None, workspaces: Folder = WORKSPACES) -> None:
    """Continue the run in a workspace with the goal and the options that it was started with.

    Example: genlab agent resume
    """
    from genlab.agent.record import read_run
    from genlab.agent.run import check_settings, run
    from genlab.agent.workspace import find_workspace, read_key

    project = find_workspace(workspaces, workspace)
    settings = read_run(project).settings
    check_settings(settings)
    if read_key(project.root) not in (settings.key, settings.stage_key):
        fault = "code or data have changed since the run began, so that attempts do not compare"
        raise GenlabError(f"{project.root}: {fault}; begin a new run: genlab agent GOAL --fresh")
    path = run(settings, project)
    typer.echo(f"{path}: {read_run(project).summary_line}")


@app.command()
def tool(
    name: Annotated[str, Argument(help="Name of the tool; without it, all are listed.")] = "",
    arguments: Annotated[str, Argument(help="Its arguments, as a JSON object.")] = "{}",
    workspace: Annotated[Path | None, Option(help="Workspace, by folder or name.")] = None,
    workspaces: Folder = WORKSPACES,
) -> None:
    """Call one tool of the agent in a workspace, with the parameters and backend of params.yaml.

    Example: genlab agent tool read_file '{"file_path": "src/models/current_model.py"}'
    """
    from genlab.agent import tools
    from genlab.agent.library.toolbox import Toolbox
    from genlab.agent.tools.functions import function_schemas, run
    from genlab.agent.workspace import find_workspace
    from genlab.core.text import make_printable

    if not name:
        for schema in function_schemas():
            typer.echo(f"{schema['function']['name']}: {schema['function']['description']}")
        return
    try:
        values = dict(json.loads(arguments))
    except (TypeError, ValueError) as error:
        raise GenlabError(f"arguments must be a JSON object, got {arguments[:60]}") from error
    with ExitStack() as stack:
        if name != tools.create_pytorch_project_scaffold.__name__:  # which makes a workspace
            toolbox = Toolbox.from_workspace(find_workspace(workspaces, workspace))
            stack.enter_context(toolbox)
            stack.enter_context(tools.bind_toolbox(toolbox))
        result = run(name, values)
    text = result if isinstance(result, str) else json.dumps(result, indent=2)
    typer.echo("done" if result is None else make_printable(text))


@app.command("report")
def write_report(workspace: Named = None, workspaces: Folder = WORKSPACES) -> None:
    """Write report and registry.json again, without an LLM and without training."""
    from genlab.agent import report
    from genlab.agent.record import read_run
    from genlab.agent.registry import Registry
    from genlab.agent.workspace import find_workspace

    project = find_workspace(workspaces, workspace)
    Registry(project).write()
    path = report.write(project)
    typer.echo(f"{path}: {read_run(project).summary_line}")


@app.command("list")
def list_all(workspaces: Folder = WORKSPACES) -> None:
    """List the workspaces, one per line, the latest one last."""
    from genlab.agent.record import RUN, read_run
    from genlab.agent.workspace import Workspace, list_workspaces

    roots = list_workspaces(workspaces)
    if not roots:
        typer.echo(f"{workspaces} holds no workspace; begin one with: genlab agent GOAL")
    for root in roots:
        workspace = Workspace(root)
        line = "nothing has run yet"
        try:
            if (workspace.experiments / RUN).exists():
                line = read_run(workspace).summary_line
        except GenlabError as error:
            line = str(error)
        typer.echo(f"{workspace.root}: {line}")


def _confirm(settings: Settings, *, yes: bool, is_read: bool) -> None:
    """Show a goal with the words that are enforced and those that are not; ask on a terminal.

    is_read: whether a language model has read the goal; without a terminal that needs --yes.
    """
    from genlab.agent.goals.goal import explain_error, quote_enforced, quote_unenforced

    goal = settings.goal
    backend = settings.params.backend
    unenforced = "passed on to the planner, not enforced"
    if backend in ("search", "replay"):
        unenforced = f"not enforced, and with backend {backend} no planner reads it"
    lines = {
        "goal, as the planner reads it" if is_read else "goal": goal.description,
        "an error rate is judged as accuracy": explain_error(goal),
        "enforced": quote_enforced(goal),
        unenforced: quote_unenforced(goal),
    }
    for name, words in lines.items():
        if words:
            typer.echo(f"{name}: {words}")
    if yes:
        return
    if sys.stdin.isatty():
        typer.confirm("Is this the goal?", default=True, abort=True)
    elif is_read:
        fix = "confirm it with --yes, or give --dataset, --metric and --at-least or --at-most"
        raise GenlabError(f"goal: the planner reads it as {goal.description}; {fix}")


def _read_settings(
    text: str, options: dict[str, Any], workspaces: Path, data: Path
) -> tuple[Settings, bool]:
    """Read a goal and its options; returns the settings, and whether an LLM read the goal."""
    from genlab.agent.config import Settings
    from genlab.agent.goals.model_reading import read_goal
    from genlab.agent.run import print_line

    params = _read_params(options)
    goal, is_read = read_goal(
        text,
        params.agent,
        workspaces,
        own_datasets=params.own_images,
        seed=params.seed,
        note=print_line,
        dataset=options["dataset"],
        metric=options["metric"],
        at_least=options["at_least"],
        at_most=options["at_most"],
        max_parameters=options["max_parameters"],
        max_seconds=options["training_seconds"],
    )
    params = _read_params(options, goal)
    return Settings(goal, params.agent, params.seed, data=data), is_read


def _read_params(options: dict[str, Any], goal: Goal | None = None) -> Params:
    """Read params.yaml, and replace what the command line's options and the goal state."""
    from genlab.core.params import load_params, parse_params

    content = load_params().model_dump()
    stated = {name: value for name, value in options.items() if value is not None}
    agent = content["agent"]
    for name in OVERRIDES:
        if name in stated:
            agent[name] = stated[name]
    if goal:
        agent["goal"] = goal.text
        agent["dataset"] = goal.dataset
        if goal.max_parameters is not None:
            agent["max_parameters"] = goal.max_parameters
        if goal.max_seconds is not None:
            agent["time_limit"] = goal.max_seconds
    for role in ("planning", "tools"):
        for key, option in (("base_url", "base_url"), ("model", f"{role}_model")):
            if option in stated:
                agent[role][key] = stated[option]
    content["seed"] = stated.get("seed", content["seed"])
    try:
        return parse_params(content, "options")
    except GenlabError as error:  # name the option instead of the parameter
        fault = str(error)
        for name in OVERRIDES:
            if name in stated:
                fault = fault.replace(f"agent.{name} ", f"--{name.replace('_', '-')} ")
        raise GenlabError(fault) from error

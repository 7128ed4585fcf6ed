"""The command line `genlab benchmark` (alias `genlab-benchmark`)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genlab.benchmark.cli_files import (
    LAST,
    RUNS,
    OneRun,
    Runs,
    add_commands,
    find_run_id,
    open_store,
)
from genlab.core.errors import GenlabError, run_cli

if TYPE_CHECKING:  # importing them takes a second
    from genlab.benchmark.run.runner import Runner
    from genlab.core.params import BenchmarkParams

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="""Score image tools that replace the people in a photograph by given persons.

A case is a template photograph, avatars, and who replaces whom. `run` puts every case through every
tool and scores the images; people rate them in the app; `leaderboard` and `report` show the result.

Defaults come from params.yaml. Images, scores and ratings are kept in runs/.
""",
)

PRIVATE_CASES = Path("cases/private")
RESUME_FAULT = (
    "--resume continues the cases, tools, options and repeats of its run; leave out"
    " --cases, --case, --tools, --option and --repeats"
)
Consent = Annotated[bool, typer.Option("--consent", help="All persons shown agree to this use.")]
RunId = Annotated[str, typer.Argument(help="A run, such as 2026-01-31; 'last' is the newest.")]


@app.command()
def generate_cases(
    templates: Annotated[
        Path | None, typer.Option(help="Folder of photographs whose people are replaced.")
    ] = None,
    avatars: Annotated[
        Path | None, typer.Option(help="Folder of photographs of the persons who replace them.")
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(help="CSV file: template, face (1 is the leftmost), avatar; per line."),
    ] = None,
    consent: Consent = False,
    cases: Annotated[
        Path | None,
        typer.Option(help="Folder of the new cases. [default: cases/private, demo: cases]"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing cases.")] = False,
) -> None:
    """Make the demo's cases, or cases from your own photographs.

    Example: genlab benchmark generate-cases --templates photos --avatars friends --consent
    """
    from genlab.benchmark.cases.generate import copy_shipped_cases, generate_cases

    if (templates is None) != (avatars is None):
        raise GenlabError("--templates and --avatars go together; name both folders, or neither")
    if templates is not None and avatars is not None:
        folder = cases or PRIVATE_CASES
        outcomes = generate_cases(
            templates, avatars, folder, pairs=pairs, consent=consent, force=force
        )
    else:
        outcomes = copy_shipped_cases(cases or PRIVATE_CASES.parent, force=force)
    faults = 0
    for outcome in outcomes:
        typer.echo(outcome)
        faults += isinstance(outcome, GenlabError)
    if faults:
        raise GenlabError(f"photographs that could not be used: {faults}; the lines above say why")


@app.command("run")
def run_cases(
    cases: Annotated[Path | None, typer.Option(help="Folder of the cases.")] = None,
    only: Annotated[
        list[str] | None, typer.Option("--case", help="Only this case; repeatable.")
    ] = None,
    tools: Annotated[str, typer.Option(help="Tools by their ids, separated by commas.")] = "",
    option: Annotated[
        list[str] | None,
        typer.Option(help="tool.key=value; repeatable, two values make two contenders."),
    ] = None,
    repeats: Annotated[int | None, typer.Option(min=1, max=100, help="Images per case.")] = None,
    resume: Annotated[
        str, typer.Option(help="Continue this run ('last' is the newest); skipped items too.")
    ] = "",
    again: Annotated[bool, typer.Option("--again", help="Resume failed items, too.")] = False,
    max_cost: Annotated[
        float | None, typer.Option(min=0, help="Ceiling in dollars; asks before it is passed.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=256, help="Images generated at a time.")
    ] = None,
    runs: Runs = RUNS,
) -> None:
    """Run cases through tools and score the images.

    After a kill or an interruption, continue with `--resume last`: no image that arrived is paid
    for twice.

    Example: genlab benchmark run --tools baseline_local,control_pasted
    """
    from genlab.benchmark.run.runner import Runner
    from genlab.benchmark.store.repository import STORE, Store
    from genlab.benchmark.terminal import follow, name_folder, show_leaderboard

    names = [name.strip() for name in tools.split(",") if name.strip()]
    if resume and (only or names or option or cases or repeats):
        raise GenlabError(RESUME_FAULT)
    if again and not resume:
        raise GenlabError("--again tries failed items of a run again; name the run with --resume")
    params = _override_params(
        names,
        option or [],
        cases=cases and str(cases),
        repeats=repeats,
        concurrency=concurrency,
        max_cost=max_cost,
    )
    with Store(runs / STORE) as store:
        runner = Runner.configured(store, runs, params)
        if resume:
            run_id = find_run_id(store, resume)
            if max_cost is not None:
                store.set_run(run_id, max_cost=max_cost)
        else:
            run_id = _start(runner, params, only or [])
        typer.echo(f"run {run_id}")
        follow(runner, run_id, again=again)
        show_leaderboard(store, run_id)
    command = f"genlab benchmark report {run_id}{name_folder(runs)}"
    typer.echo(f"next: {command}; people rate it in the app: make app")


@app.command()
def report(
    run_id: RunId = LAST,
    output: Annotated[
        Path | None, typer.Option(help="File to write. [default: report_RUN.html]")
    ] = None,
    runs: Runs = RUNS,
) -> None:
    """Write a run as one self-contained HTML file.

    Example: genlab benchmark report 2026-01-31
    """
    from genlab.benchmark.report import render_report
    from genlab.core.io import write_text

    with open_store(runs) as store:
        name = find_run_id(store, run_id)
        path = output or Path(f"report_{name}.html")
        write_text(path, render_report(store, name))
    typer.echo(f"wrote {path}")


@app.command()
def leaderboard(
    run_id: OneRun = "",
    json_: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    runs: Runs = RUNS,
) -> None:
    """Show contenders with scores, intervals, failures, cost and people's stars.

    Example: genlab benchmark leaderboard --run last --json
    """
    from genlab.benchmark.terminal import show_leaderboard

    with open_store(runs) as store:
        show_leaderboard(store, find_run_id(store, run_id) if run_id else None, as_json=json_)


@app.command("rescore")
def rescore_runs(
    run_id: Annotated[str, typer.Argument(help="A run, 'last', or 'all'.")] = "all",
    runs: Runs = RUNS,
) -> None:
    """Score stored images again whose score is of an older version of the scorer.

    No tool is asked and nothing is paid. Scores of two versions are never ranked together.

    Example: genlab benchmark rescore all
    """
    from genlab.benchmark.run.rescore import rescore
    from genlab.benchmark.run.runner import Runner
    from genlab.benchmark.run.threads import complete
    from genlab.benchmark.scoring.scorer import versions
    from genlab.core.params import load_params

    with open_store(runs) as store:
        names = [run.run_id for run in store.runs()]
        if run_id != "all":
            names = [find_run_id(store, run_id)]
        runner = Runner.configured(store, runs, load_params().benchmark)
        for name in names:
            for line in complete(rescore(runner, name, versions())):
                typer.echo(line)


@app.command("tools")
def list_tools(
    init: Annotated[
        bool, typer.Option("--init", help="Write a commented sample of the file of tools.")
    ] = False,
) -> None:
    """List the tools, their options, and why one is not available here.

    Example: genlab benchmark tools
    """
    from genlab.benchmark.plugins.registry import TOOLS_FILE, load_tools, write_sample
    from genlab.benchmark.terminal import show_tools

    if init:
        write_sample(TOOLS_FILE)
        typer.echo(f"wrote {TOOLS_FILE}; edit it, then run: genlab benchmark tools")
    else:
        show_tools(load_tools())


@app.command()
def explain(
    item: Annotated[int, typer.Argument(help="Number of a run's item.")], runs: Runs = RUNS
) -> None:
    """Show every term of an item's score: value, one sentence, and an overlay in explained/.

    Example: genlab benchmark explain 12
    """
    from genlab.benchmark.explanations import write_explanation

    with open_store(runs) as store:
        for line in write_explanation(store, item, Path("explained")):
            typer.echo(line)


@app.command()
def ground_truth(
    ideal: Annotated[Path, typer.Argument(help="Photograph A1 of a person: the ideal result.")],
    avatar: Annotated[Path, typer.Argument(help="Photograph A2 of them, of another session.")],
    other: Annotated[Path, typer.Argument(help="Photograph B of somebody else, in A1's pose.")],
    case_id: Annotated[str, typer.Option("--name", help="Name of the case.")] = "",
    cases: Annotated[Path, typer.Option(help="Folder of the new case.")] = PRIVATE_CASES,
    consent: Consent = False,
) -> None:
    """Make a case with a known ideal result: B's head on A1 is the template, A2 the avatar.

    Example: genlab benchmark ground-truth ann-2019.jpg ann-2023.jpg bob.jpg
    """
    from genlab.benchmark.cases.files import slugify
    from genlab.benchmark.cases.ground_truth import build_ground_truth

    folder = cases / (case_id or slugify(f"{ideal.stem} {other.stem}"))
    if folder.exists():
        raise GenlabError(f"{folder} exists; name another case with --name")
    for warning in build_ground_truth(ideal, avatar, other, folder, consent=consent):
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(f"wrote {folder}")


add_commands(app)


def main() -> None:
    """The console script."""
    run_cli(app)


def _override_params(tools: list[str], option: list[str], **values: Any) -> BenchmarkParams:
    """Load the section `benchmark` of params.yaml with the command line's values in place.

    tools: ids, those of params.yaml if empty; values: None to keep that of params.yaml.
    """
    from genlab.core.params import load_params

    params = load_params().benchmark
    overrides = {name: value for name, value in values.items() if value is not None}
    overrides["tools"] = tools or params.tools
    if option:
        overrides["options"] = {**params.options, **_parse_options(option, overrides["tools"])}
    return params.model_copy(update=overrides)


def _parse_options(texts: list[str], tools: list[str]) -> dict[str, dict[str, Any]]:
    """Parse texts `tool.key=value`; returns lists of values by tool and key."""
    options: dict[str, dict[str, Any]] = {}
    for text in texts:
        name, _, value = text.partition("=")
        tool, _, key = name.partition(".")
        if not key or not value or tool not in tools:
            raise GenlabError(
                f"--option {text!r} is not tool.key=value of a tool of this run"
                f" ({', '.join(tools)}); write, for instance, --option {tools[0]}.key=value"
            )
        options.setdefault(tool, {}).setdefault(key, []).append(value)
    return options


def _start(runner: Runner, params: BenchmarkParams, only: list[str]) -> str:
    """Queue a run. In a terminal, ask for a new ceiling if the estimated cost exceeds it."""
    from genlab.benchmark.terminal import choose

    cases, contenders, cost = choose(params, only)
    ceiling = params.max_cost
    estimate = len(cases) * params.repeats * cost
    if estimate > ceiling and sys.stdin.isatty():
        question = f"The run costs about ${estimate:.2f}. Ceiling in dollars"
        try:
            ceiling = typer.prompt(question, default=ceiling, type=float)
        except typer.Abort as error:
            raise KeyboardInterrupt from error
    return runner.start(cases, contenders, repeats=params.repeats, max_cost=ceiling)

"""The command line `genlab-benchmark`, also `python -m genlab.benchmark`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from genlab.benchmark import inquiries
from genlab.benchmark.inquiries import (
    LAST,
    STORE,
    Bootstrap,
    Runs,
    Seed,
    ToolsFile,
    named,
    opened,
    print_standings,
)
from genlab.benchmark.store.repository import Store
from genlab.core.errors import GenlabError, run_cli
from genlab.core.params import load_params

if TYPE_CHECKING:
    from genlab.benchmark.cases import Case

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="""Score image tools that put a person into a photograph of others.

A case is a template photograph, avatars, and who takes whose place. `run` puts every case through
every tool and scores the pictures; `report` shows them; people rate them in the app; `leaderboard`
says what it comes to. Begin with: `genlab-benchmark tools`, then `genlab-benchmark run`.

What isn't given comes from params.yaml. Images, scores and stars live in runs/.
""",
)

RunId = Annotated[str, typer.Argument(help="The run, such as 2026-01-31; 'last' is the newest.")]


@app.command()
def generate_cases(
    templates: Annotated[
        Path | None, typer.Option(help="Folder of your own photographs, to be swapped into.")
    ] = None,
    avatars: Annotated[
        Path | None, typer.Option(help="Folder of photographs of the persons who take places.")
    ] = None,
    cases: Annotated[Path, typer.Option(help="Folder the cases go to.")] = Path("cases"),
    photographs: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the demo's samples: package/demo of npm's @vladmandic/face-api 1.7.15."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write over cases that are there.")
    ] = False,
) -> None:
    """Make the demo's cases, or cases of your own photographs.

    Your own cases hold `consent: false` until you write true: every person shown has to agree.

    Example: genlab-benchmark generate-cases --templates photos --avatars friends
    """

    from genlab.benchmark.demo_cases import generate_demo
    from genlab.benchmark.generate_cases import pair

    if (templates is None) != (avatars is None):
        raise GenlabError("--templates and --avatars go together; name both folders, or neither")
    if templates is not None and avatars is not None:
        told = pair(templates, avatars, cases, force=force)
    else:
        told = generate_demo(cases, photographs, force=force)
    faults = 0
    for one in told:
        typer.echo(one.line)
        faults += one.faulty
    if faults:
        raise GenlabError(
            f"{faults} of them could not be used; the lines above say why. Mend or remove them,"
            " then run the same command again"
        )


@app.command("run")
def run_cases(
    cases: Annotated[Path | None, typer.Option(help="Folder of the cases.")] = None,
    only: Annotated[
        list[str] | None, typer.Option("--case", help="This case alone; may be given often.")
    ] = None,
    tools: Annotated[str, typer.Option(help="Tools by their ids, with commas.")] = "",
    resume: Annotated[
        str, typer.Option(help="Go on with this run ('last' for the newest); tries skipped ones.")
    ] = "",
    again: Annotated[
        bool, typer.Option("--again", help="With --resume: try failed items once more, too.")
    ] = False,
    max_cost: Annotated[
        float | None, typer.Option(min=0, help="Most dollars; asks before it is passed.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=256, help="Images in the making at a time.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help="tool.key=value, such as baseline_gpt.model=gpt-image-1.5; often."),
    ] = None,
    tools_file: ToolsFile = None,
    runs: Runs = Path("runs"),
) -> None:
    """Put cases through tools, score the pictures, keep all of it.

    Killed or interrupted, it goes on with `--resume last`; what arrived is not paid for twice.

    Example: genlab-benchmark run --tools baseline_local,control_pasted
    """
    from genlab.benchmark.judging import judge_of
    from genlab.benchmark.plugins import chosen, load_tools
    from genlab.benchmark.runner import Runner
    from genlab.benchmark.terminal import Watch

    params = load_params().benchmark
    known = load_tools(tools_file)
    with Store(runs / STORE) as store:
        runner = Runner(
            store,
            runs,
            concurrency=concurrency or params.concurrency,
            timeout=params.timeout,
            retries=params.retries,
            max_cost=params.max_cost if max_cost is None else max_cost,
            ask=lambda ceiling, wanted: watch.ask(ceiling, wanted),
            tools=known,
            judge=judge_of(params),
        )
        if resume:
            if only or tools or option or cases:
                raise GenlabError(
                    "--resume goes on with the cases, tools and options of its run; leave"
                    " --cases, --case, --tools and --option away"
                )
            run_id = named(store, resume)
        else:
            wanted = [name.strip() for name in tools.split(",") if name.strip()] or params.tools
            picked = _loaded(cases or Path(params.cases), only or [])
            run_id = runner.start(picked, chosen(known, wanted), _options(option or [], wanted))
        begun = store.run(run_id)
        watch = Watch([tool["tool_id"] for tool in begun.tools], len(begun.cases))
        typer.echo(f"run {run_id}: {len(begun.cases)} cases, {len(begun.tools)} tools")
        try:
            asyncio.run(watch.follow(runner, run_id, again=again))
        except KeyboardInterrupt:
            typer.echo(f"stopped; go on with: genlab-benchmark run --resume {run_id}", err=True)
            raise
        print_standings(store, run_id, json_=False, csv_=False)
    typer.echo(f"next: genlab-benchmark report {run_id}; people rate it in the app: make app")


@app.command()
def report(
    run_id: RunId = LAST,
    output: Annotated[
        Path | None, typer.Option(help="File to write. [default: report_RUN.html]")
    ] = None,
    runs: Runs = Path("runs"),
    bootstrap: Bootstrap = 1000,
    seed: Seed = 0,
) -> None:
    """Write a run as one HTML file that needs nothing else.

    Example: genlab-benchmark report 2026-01-31
    """
    from genlab.benchmark.report import write_report

    with opened(runs) as store:
        name = named(store, run_id)
        path = output or Path(f"report_{name}.html")
        write_report(store, name, path, bootstrap=bootstrap, seed=seed)
    typer.echo(f"wrote {path}")


app.add_typer(inquiries.app)


def main() -> None:
    """The console script."""
    run_cli(app)


def _loaded(root: Path, only: list[str]) -> list[Case]:
    """The cases; all their faults are said, a line each."""
    from genlab.benchmark.cases import FaultyCases, load_cases

    try:
        return load_cases(root, only)
    except FaultyCases as found:
        if len(found.faults) == 1:
            raise
        for fault in found.faults:
            typer.echo(f"genlab: {fault}", err=True)
        raise GenlabError(
            f"{root}: {len(found.faults)} faults, a line each above; mend them, or choose cases"
            " with --case"
        ) from found


def _options(given: list[str], tools: list[str]) -> dict[str, dict[str, str]]:
    """`tool.key=value` by tool."""
    table: dict[str, dict[str, str]] = {}
    for text in given:
        name, _, value = text.partition("=")
        tool, _, key = name.partition(".")
        if not key or not value or tool not in tools:
            raise GenlabError(
                f"--option {text!r} is not tool.key=value of a tool of this run"
                f" ({', '.join(tools)}); write, for instance, --option {tools[0]}.key=value"
            )
        table.setdefault(tool, {})[key] = value
    return table


if __name__ == "__main__":
    main()

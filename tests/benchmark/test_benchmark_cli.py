"""The command line: what it prints, what it keeps, and one line for a mistake."""

import json
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import swap_runs
from typer.testing import CliRunner

from genlab.benchmark.cli import app
from genlab.benchmark.store.repository import Store
from genlab.core.errors import GenlabError

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def here(place: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the commands in the folder of a finished run."""
    shutil.copy(root / "params.yaml", place)
    monkeypatch.chdir(place)


def run(*arguments: str) -> str:
    """Call the command in this process and return what it prints; raise its error."""
    done = CliRunner().invoke(app, arguments)
    if done.exception is not None:
        raise done.exception
    return done.output


def test_leaderboard_and_report_come_from_the_store() -> None:
    reported = json.loads(run("leaderboard", "--run", "last", "--json"))
    assert reported["run_id"] == swap_runs.RUN
    rows = {row["tool_id"]: row for row in reported["contenders"]}
    assert rows["good_tool"]["rank"] == 1
    assert rows["hostile_tool"]["failures"] == {"refused": 7}
    assert reported["people"]["alpha"]["n"] == 21
    assert all(tool in run("leaderboard") for tool in rows)
    run("report", swap_runs.RUN)
    assert Path(f"report_{swap_runs.RUN}.html").stat().st_size > 10_000


def test_a_run_is_made_and_resumed() -> None:
    printed = run("run", "--tools", "control_untouched", "--case", "case_0")
    assert "1/1 control_untouched case_0: scored 0.00" in printed
    assert "1/1" not in run("run", "--resume", "last")  # nothing is left
    printed = run("run", "--tools", "control_untouched", "--case", "case_0", "--runs", "other runs")
    command = next(line for line in printed.splitlines() if line.startswith("next: ")).split(";")[0]
    run(*shlex.split(command)[3:])
    for arguments in ("leaderboard", "explain 1", "export-ratings r.csv", "import-ratings r.csv"):
        run(*arguments.split(" "), "--runs", "other runs")
    with Store("runs/genlab.sqlite3") as store:
        [item] = store.items(store.runs()[0].run_id)
    assert (item.status, item.score) == ("scored", 0.0)


def test_an_interrupt_ends_it_while_it_asks_for_more_money(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none of anybody's")
    monkeypatch.setattr(
        "genlab.benchmark.cli.sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    )
    done = CliRunner().invoke(app, ["run", "--tools=baseline_gpt", "--max-cost=0"], input="")
    assert "Ceiling in dollars" in done.output
    assert done.exit_code == 130


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("leaderboard --run never", "never"),
        ("leaderboard --runs elsewhere", "benchmark run --runs elsewhere"),
        ("run --tools baseline_locl", "baseline_local"),
        ("run --case nobody", "nobody"),
        ("run --cases nowhere", "nowhere"),
        ("run --resume last --tools x", "--tools"),
        ("run --option model=x", "model=x"),
        ("run --again", "--resume"),
        ("run --tools control_blurred --option control_blurred.strenght=1", "strength"),
        ("run --tools control_blurred --option control_blurred.strength=4", "'4'"),
        ("generate-cases --templates here", "--avatars"),
        ("generate-cases --templates cases --avatars cases", "cases"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(arguments: str, named: str) -> None:
    with pytest.raises(GenlabError) as error:
        run(*arguments.split(" "))
    assert named in str(error.value)
    with Store("runs/genlab.sqlite3") as store:
        assert len(store.runs()) == 1  # nothing was queued

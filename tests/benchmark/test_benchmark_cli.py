"""The command line: what it tells, what it keeps, and one line for a mistake."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import swap_runs
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner

from genlab.benchmark import power, snapshot
from genlab.benchmark.__main__ import app
from genlab.benchmark.cases import Case, load_cases
from genlab.benchmark.leaderboard import leaderboard
from genlab.benchmark.plugins import Needs, ToolFailure
from genlab.benchmark.rating import Session, rate_run
from genlab.benchmark.runner import Runner
from genlab.benchmark.scoring import Scorer
from genlab.benchmark.store.repository import Store
from genlab.benchmark.terminal import Watch
from genlab.core.errors import GenlabError

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with cases/ and runs/ of a finished run that nobody has rated."""
    folder = tmp_path_factory.mktemp("made")
    swap_runs.write_cases(folder / "cases")
    swap_runs.write_run(folder / "runs", folder / "cases", rated=False)
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(made / "runs", tmp_path / "runs")
    shutil.copy(ROOT / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _process(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command as people call it; a process costs two seconds of imports."""
    return subprocess.run(
        [sys.executable, "-m", "genlab.benchmark", *arguments],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )


def _run(*arguments: str, answers: str = "") -> str:
    """What the command prints, called within this process; its fault is raised."""
    done = CliRunner().invoke(app, arguments, input=answers)
    if done.exception is not None:
        raise done.exception
    return done.output


def test_leaderboard_and_report_come_from_the_store(place: Path) -> None:
    table, _, opinions = _run("leaderboard", "--csv").partition("\n\n")
    assert [row["people"] for row in csv.DictReader(io.StringIO(opinions))] == ["alpha", "spearman"]
    rows = {row["tool"]: row for row in csv.DictReader(io.StringIO(table))}
    assert rows["good_tool"]["rank"] == "1"
    assert rows["hostile_tool"]["failures"] == "refused:7"
    reported = json.loads(_run("leaderboard", "--run", "last", "--json"))
    assert reported["run_id"] == swap_runs.RUN
    assert [line["tool"] for line in reported["tools"]] == list(rows)
    assert "too few" in reported["people"]["alpha"]["why"]
    assert _run("report", swap_runs.RUN) == f"wrote report_{swap_runs.RUN}.html\n"
    assert (place / f"report_{swap_runs.RUN}.html").stat().st_size > 10_000


def test_as_a_command_a_mistake_is_one_line_and_status_2(place: Path) -> None:
    done = _process(place, "leaderboard", "--run", "never")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("genlab: error: runs/genlab.sqlite3: no run is called 'never'")
    assert done.stderr.count("\n") == 1


def test_an_interrupt_ends_it_while_it_asks_for_more_money(place: Path, made: Path) -> None:
    # The terminal is the child's own, so that the byte of Ctrl-C reaches it as it does people's.
    command = (
        "import os; os.open(os.ttyname(0), os.O_RDWR)\n"
        "from genlab.benchmark.__main__ import main; main()"
    )
    asking = ["run", "--tools", "baseline_gpt", "--max-cost", "0", "--cases", f"{made}/cases"]
    ours, its = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", command, *asking],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OPENAI_API_KEY": "none of anybody's"}
        | {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "TERM": "xterm"},
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
    )
    os.close(its)
    said = b""
    late = threading.Timer(60, process.kill)
    late.start()
    try:
        while b"0 to stop here" not in said:
            said += os.read(ours, 4096)
        os.write(ours, b"\x03")
        with contextlib.suppress(OSError):  # how the end of a terminal is reported
            while part := os.read(ours, 4096):
                said += part
        assert process.wait(20) == 130, said.decode()
    finally:
        late.cancel()
        process.kill()
        os.close(ours)
    assert b"go on with: genlab-benchmark run --resume" in said
    assert b"Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("leaderboard", "--run", "never"), "no run is called 'never'"),
        (("leaderboard", "--json", "--csv"), "exclude each other"),
        (("report", "--runs", "elsewhere"), "make a run with: genlab-benchmark run"),
        (("run", "--tools", "baseline_locl", "--cases", "{cases}"), "baseline_local"),
        (("run", "--case", "nobody", "--cases", "{cases}"), "no case 'nobody'; there are: case_0"),
        (("run", "--cases", "nowhere"), "generate-cases"),
        (("rate", "--rater", "a\tb", "--no-open"), "rater must be 1 to 80 printable"),
        (("run", "--resume", "last", "--tools", "x"), "leave --cases"),
        (("run", "--option", "model=x", "--cases", "{cases}"), "tool.key=value"),
        (
            (
                *("run", "--cases", "{cases}", "--tools", "control_blurred"),
                *("--option", "control_blurred.strenght=1"),
            ),
            "control_blurred has no option 'strenght'; did you mean strength?",
        ),
        (("generate-cases", "--templates", "here"), "go together"),
    ],
)
def test_a_mistake_names_its_fix(
    place: Path, made: Path, arguments: tuple[str, ...], words: str
) -> None:
    with pytest.raises(GenlabError) as fault:
        _run(*[argument.format(cases=made / "cases") for argument in arguments])
    assert words in str(fault.value)
    assert "\n" not in str(fault.value)
    assert not (place / "elsewhere").exists()
    with Store(place / "runs" / "genlab.sqlite3") as store:
        assert len(store.runs()) == 1  # nothing was queued


def test_stars_are_given_blind_and_go_on_where_one_stopped(place: Path) -> None:
    first = _run("rate", "--rater", "ada", "--no-open", answers="9\n4\n5\nq\n")
    assert "'9' is no answer" in first
    assert "2 rated, 19 left" in first
    assert "tool" not in first
    assert "19 images to rate" in _run("rate", "--rater", "ada", "--no-open", answers="q\n")
    assert _run("export-ratings", "stars.csv") == "wrote stars.csv: 2 ratings\n"
    assert _run("import-ratings", "stars.csv") == "stars.csv: 0 new ratings\n"


def test_all_faults_of_all_cases_are_listed(place: Path, made: Path) -> None:
    cases = shutil.copytree(made / "cases", place / "cases")
    for name, old, new in (
        ("case_0", "consent: true", "consent: perhaps"),
        ("case_0", "version: 1", "version: one"),
        ("case_3", "avatars:", "avatar:"),
    ):
        path = cases / name / "case.yaml"
        path.write_text(path.read_text().replace(old, new))
    done = CliRunner().invoke(app, ["run", "--cases", str(cases)])
    assert isinstance(done.exception, GenlabError)
    places = [re.findall(r"(case_\d)/case.yaml: (\w+)", line) for line in done.stderr.splitlines()]
    assert sorted(found for [found] in places) == [
        ("case_0", "consent"),
        ("case_0", "version"),
        ("case_3", "avatar"),
        ("case_3", "avatars"),
    ]
    assert [case.case_id for case in load_cases(cases, ["case_6", "case_1"])] == [
        "case_6",
        "case_1",
    ]


def test_a_rating_is_undone_and_the_sheet_says_nothing_of_the_tool(place: Path) -> None:
    answers = iter("3su1u25q")
    sheets: list[Path] = []
    with Store(place / "runs" / "genlab.sqlite3") as store:
        session = Session(store, swap_runs.RUN, "ada", place / "sheets")
        order = session.waiting()
        given = rate_run(
            session,
            ask=lambda question: next(answers),
            say=lambda line: None,
            open_picture=sheets.append,
        )
        stars = {rating.subject_hash: rating.stars for rating in store.ratings(rater="ada")}
        assert all(rating.blind for rating in store.ratings(rater="ada"))
        assert Session(store, swap_runs.RUN, "ada", place).waiting() == order[3:]
    # 3; skip, undone; 1, undone; 2; 5
    assert given == 3
    assert [stars[item.image_sha256] for item in order[:3]] == [3, 2, 5]
    for sheet in sheets:
        assert not any(tool in str(sheet) for tool in swap_runs.TOOLS)
        with Image.open(sheet) as image:
            assert image.width > 2 * image.height  # template, avatar, result
            assert image.info == {}
    tools = [item.tool_id for item in order]
    assert tools != sorted(tools)


def test_the_power_of_a_planned_study_is_printed_as_json(place: Path) -> None:
    printed = json.loads(_run("power", "--json"))
    assert printed["assumed"] is True
    assert printed["components"] == power.ASSUMED.as_dict()


class _Painter:
    """A tool that paints the template in one colour, and refuses one case."""

    def __init__(self, tool_id: str, refuses: str = "") -> None:
        self.tool_id, self.title, self.needs = tool_id, f"Painter {tool_id}", Needs()
        self.refuses, self.made = refuses, 0

    def unavailable(self) -> str:
        return ""

    async def swap(self, case: Case, options: Mapping[str, Any]) -> Image.Image:
        if case.case_id == self.refuses:
            raise ToolFailure("refused", "not this one")
        self.made += 1
        return Image.new("RGB", case.open_template().size, (len(self.tool_id) * 9, 90, 90))


def _follow(place: Path, cases: Path, tools: list[_Painter], scorer: Scorer) -> tuple[str, str]:
    """The stage's own run with these tools; the run's id and what was printed."""
    said = io.StringIO()
    with Store(place / "runs" / "genlab.sqlite3") as store:
        known = {tool.tool_id: tool for tool in tools}
        runner = Runner(store, place / "runs", scorers=1, scorer=scorer, tools=known)
        chosen = load_cases(cases)[:2]
        run_id = snapshot.own_run(runner, place / "runs", chosen, tools)
        watch = Watch([tool.tool_id for tool in tools], 2, Console(file=said))
        asyncio.run(watch.follow(runner, run_id))
        (place / f"{run_id}.json").write_text(
            json.dumps(
                [
                    snapshot.results(leaderboard(store, run_id=run_id), store.items(run_id)),
                    snapshot.listed(store.items(run_id)),
                ]
            )
        )
    return run_id, said.getvalue()


def test_the_stage_goes_on_with_its_own_run_and_pays_once(tmp_path: Path, made: Path) -> None:
    tools = [_Painter("red"), _Painter("blue", refuses="case_1")]
    run_id, _ = _follow(tmp_path, made / "cases", tools, swap_runs.bright)
    first = (tmp_path / f"{run_id}.json").read_bytes()
    again, _ = _follow(tmp_path, made / "cases", tools, swap_runs.bright)
    assert again == run_id
    assert [tool.made for tool in tools] == [2, 1]
    assert (tmp_path / f"{run_id}.json").read_bytes() == first
    measured, listed = json.loads(first)
    assert measured["tools"]["blue"]["failures"] == {"refused": 1}
    assert measured["tools"]["red"]["scored"] == 2
    assert {item["status"] for item in listed["items"]} == {"scored", "failed"}

    # Other scorer code: the images stay, their scores are new.
    sidecar = tmp_path / "runs" / run_id / snapshot.SIDECAR
    known = json.loads(sidecar.read_text())
    sidecar.write_text(json.dumps({**known, "scoring": "older"}))
    again, _ = _follow(tmp_path, made / "cases", tools, swap_runs.dark)
    assert again == run_id
    assert [tool.made for tool in tools] == [2, 1]
    rescored, _ = json.loads((tmp_path / f"{run_id}.json").read_text())
    assert rescored["tools"]["red"]["score"] != measured["tools"]["red"]["score"]

    # Another tool: other images, so another run.
    other, _ = _follow(tmp_path, made / "cases", [_Painter("green")], swap_runs.bright)
    assert other != run_id

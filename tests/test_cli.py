"""The command `genlab`: fast help, lazy sub-commands, and what `doctor` finds."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from genlab import __version__, doctor
from genlab.cli import COMMANDS, app
from genlab.core.errors import GenlabError
from genlab.datasets import emoji

ROOT = Path(__file__).resolve().parent.parent
SECRET = "sk-not-to-be-result"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.chdir(ROOT)
    return CliRunner()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_passes_its_options_on(run: CliRunner, command: str) -> None:
    result = run.invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert COMMANDS[command][1] not in result.output  # its own help, not the stub's
    assert run.invoke(app, [command, "--no-such-option"]).exit_code == 2


def test_the_version_is_shown(run: CliRunner) -> None:
    assert run.invoke(app, ["--version"]).output == f"genlab {__version__}\n"


@pytest.mark.parametrize("command", ["report", "experiments"])
def test_outside_of_the_project_a_command_says_where_to_run_it(
    command: str, run: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = run.invoke(app, [command]).exception
    assert isinstance(refused, GenlabError)
    assert "run from the repository's root" in str(refused)


def test_doctor_names_what_each_thing_affects_and_no_secret(
    run: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    result = run.invoke(app, ["doctor"])
    assert result.exit_code == 0, result.output
    machine = ("GPU", "bubblewrap", "landlock", "chromium", "fashion_mnist", "disk")
    for name in (*machine, "[app]", "[ray]"):
        assert name in result.output
    assert "OPENAI_API_KEY set" in result.output
    assert SECRET not in result.output


def test_doctor_fails_where_a_requirement_is_missing(
    run: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "NEEDED_DISK", 1 << 60)
    result = run.invoke(app, ["doctor"])
    assert result.exit_code == 1
    assert "missing: disk" in result.output


def test_doctor_reports_missing_programs_and_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(doctor.metadata, "requires", lambda _: ["numpy>=99", 'no-such; extra=="x"'])
    checks = {check.name: check for check in doctor.examine(ROOT)}
    assert not checks["packages"].passed
    assert checks["packages"].required
    assert not checks["git"].passed


def test_doctor_finds_the_emoji_font_where_the_dataset_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emoji, "SYSTEM_FONTS", tmp_path / "fonts")
    for folder, present in (("", False), ("fonts/noto", True), ("data/raw", True)):
        font = tmp_path / folder / emoji.FONT
        if folder:
            font.parent.mkdir(parents=True)
            font.touch()
        check = {check.name: check for check in doctor.check_datasets(tmp_path)}["emoji font"]
        assert (check.passed, str(font) in check.detail) == (present, present)

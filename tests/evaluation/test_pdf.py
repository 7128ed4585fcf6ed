"""Reports are printed as A4 pages where a Chromium is installed, and say so where none is."""

import shutil
from pathlib import Path

import pytest

from genlab.core.errors import GenlabError
from genlab.evaluation.reports.pdf import BROWSERS, print_pdf

REPORT = "# A report\n\n| metric | value |\n| --- | --- |\n| one | 1 |\n"


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "report.md"
    path.write_text(REPORT, encoding="utf-8")
    return path


@pytest.mark.skipif(not any(map(shutil.which, BROWSERS)), reason="no Chromium is installed")
@pytest.mark.parametrize(("lines", "pages"), [(1, 1), (400, 2)])
def test_a_report_is_printed_beside_itself(report: Path, lines: int, pages: int) -> None:
    report.write_text(REPORT + "\n\nA line of text.\n" * lines, encoding="utf-8")
    printed = print_pdf(report)
    assert printed == 1 if pages == 1 else printed > 1
    assert report.with_suffix(".pdf").read_bytes().startswith(b"%PDF")


def test_without_a_browser_it_is_one_line_with_the_fix(
    report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(report.parent))
    with pytest.raises(GenlabError, match=r"report\.md: not printed.*apt install chromium"):
        print_pdf(report)
    assert not report.with_suffix(".pdf").exists()


def test_a_browser_that_fails_is_one_line(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = report.parent / "chromium"
    fake.write_text("#!/bin/sh\necho broken >&2\nexit 1\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{report.parent}:/bin:/usr/bin")
    with pytest.raises(GenlabError, match=r"printed nothing \(broken\)"):
        print_pdf(report)

"""Print reports as A4 pages: Markdown to HTML, printed by Chromium."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from markdown_it import MarkdownIt

from genlab.core.errors import GenlabError
from genlab.core.io import write_bytes

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT = 120.0  # seconds
STYLE = """
@page { size: A4; margin: 11mm 12mm; }
body { font: 8.8pt/1.3 'DejaVu Sans', sans-serif; columns: 2; column-gap: 6mm; margin: 0; }
h1 { font-size: 13pt; margin: 0 0 2mm; column-span: all; }
h2 { font-size: 10pt; margin: 2mm 0 1mm; break-after: avoid; }
p, ul { margin: 0 0 1.2mm; }
ul { padding-left: 4mm; }
img { max-width: 100%; max-height: 95mm; display: block; margin: 0 auto 1mm; }
table { border-collapse: collapse; font-size: 7.4pt; width: 100%; margin: 0 0 1.5mm; }
td, th { border-bottom: 0.2pt solid #999; padding: 0.2mm 0.8mm; text-align: left; }
table, img { break-inside: avoid; }
pre { font-size: 7.4pt; margin: 1mm 0; white-space: pre-wrap; }
"""


def print_pdf(report: Path) -> int:
    """Print a Markdown file as a PDF beside it; return the number of pages.

    Raises GenlabError where no Chromium is installed, or where it fails.
    """
    installed = (shutil.which(name) for name in BROWSERS)
    browser = next((path for path in installed if path), None)
    if browser is None:
        fix = "apt install chromium"
        raise GenlabError(f"{report}: not printed, no Chromium is installed; {fix}", fix=fix)
    body = MarkdownIt().enable("table").render(report.read_text(encoding="utf-8"))
    body = re.sub(r"</?a\b[^>]*>", "", body)  # links would contain the path of this folder
    base = report.parent.resolve().as_uri()
    page = f"<!doctype html><meta charset=utf-8><base href='{base}/'><style>{STYLE}</style>{body}"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "report.html"
        target = Path(folder) / "report.pdf"
        source.write_text(page, encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
        options += ["--no-pdf-header-footer", f"--user-data-dir={folder}/profile"]
        command = [browser, *options, f"--print-to-pdf={target}", source.as_uri()]
        try:
            done = subprocess.run(command, capture_output=True, timeout=TIMEOUT)
        except subprocess.TimeoutExpired as error:
            raise GenlabError(f"{report}: {browser} took over {TIMEOUT:g} s to print it") from error
        if done.returncode or not target.is_file():
            messages = done.stderr.decode(errors="replace").strip().splitlines()
            reason = messages[-1] if messages else "silent"
            raise GenlabError(f"{report}: {browser} printed nothing ({reason})")
        content = target.read_bytes()
    write_bytes(report.with_suffix(".pdf"), content)
    return len(re.findall(rb"/Type\s*/Page\b", content))

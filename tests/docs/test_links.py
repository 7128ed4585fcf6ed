"""Relative links, pictures and anchors of README, SECURITY and docs lead somewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
GENERATED = {ROOT / f"docs/reference/{name}.md" for name in ("parameters", "metrics", "cli")}
GENERATED |= {ROOT / "docs/explanation/security.md"}
"""By scripts/reference.py; the strict build checks links to them."""


def targets(path: Path) -> list[str]:
    """Targets of the links and pictures of a page that are neither web addresses nor mail."""
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(path.read_text(encoding="utf-8"))
    parts = [part for token in tokens for part in token.children or []]
    found = [str(part.attrs.get("href") or part.attrs.get("src") or "") for part in parts]
    return [one for one in found if one and not re.match(r"[a-z]+:", one)]


def anchors(path: Path) -> set[str]:
    """Anchors of the headings of a page, as GitHub and mkdocs spell them."""
    tokens = MarkdownIt().parse(path.read_text(encoding="utf-8"))
    titles = [tokens[i + 1].content for i, one in enumerate(tokens) if one.type == "heading_open"]
    return {re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    dead = []
    for target in targets(page):
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if path in GENERATED:
            continue
        if not path.exists() or (anchor and anchor not in anchors(path)):
            dead.append(target)
    assert dead == [], f"{page.relative_to(ROOT)} links to what is not there"


def test_links_are_found() -> None:
    assert "docs/explanation/frechet.md" in targets(ROOT / "README.md")
    assert "benchmark.md#leaderboard" in targets(ROOT / "docs/how-to/photographs.md")
    assert "leaderboard" in anchors(ROOT / "docs/how-to/benchmark.md")


@pytest.mark.slow
def test_the_site_builds_strictly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]  # --quiet hides what it counts
    done = subprocess.run(
        [*command, "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "reference" / "parameters.html").is_file()

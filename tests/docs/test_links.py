"""Relative links, pictures and anchors of the pages lead somewhere."""

import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "SECURITY.md", "CONTRIBUTING.md")  # `make docs` checks those of docs


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


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    page, dead = ROOT / name, []
    for target in targets(page):
        file, _, anchor = target.partition("#")
        path = ROOT / file if file else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            dead.append(target)
    assert dead == [], f"{name} links to what is not there"

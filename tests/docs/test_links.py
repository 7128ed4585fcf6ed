"""Relative links, pictures and anchors of the pages exist."""

import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "SECURITY.md", "CONTRIBUTING.md")  # `make docs` checks those of docs


def targets(path: Path) -> list[str]:
    """Relative targets of the links and pictures of a page."""
    blocks = MarkdownIt("gfm-like", {"linkify": False}).parse(path.read_text(encoding="utf-8"))
    tokens = [token for block in blocks for token in block.children or []]
    addresses = [str(token.attrs.get("href") or token.attrs.get("src") or "") for token in tokens]
    return [address for address in addresses if address and not re.match(r"[a-z]+:", address)]


def anchors(path: Path) -> set[str]:
    """Anchors of the headings of a page, as GitHub and mkdocs spell them."""
    tokens = MarkdownIt().parse(path.read_text(encoding="utf-8"))
    titles = [
        tokens[index + 1].content
        for index, token in enumerate(tokens)
        if token.type == "heading_open"
    ]
    return {re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    dead = []
    for target in targets(page):
        file, _, anchor = target.partition("#")
        path = ROOT / file if file else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            dead.append(target)
    assert dead == [], f"{name} links to what is not there"

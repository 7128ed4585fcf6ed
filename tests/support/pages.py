"""What tests see of a page: of HTML, or of the app."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

ADDRESSES = ("src", "href", "srcset", "action", "data")
SAYING = ("html", "markdown", "info", "error", "warning", "success", "caption", "code")


class Page(HTMLParser):
    """The tags, addresses and text of a page, and the attributes of every picture."""

    def __init__(self, content: str = "") -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.images: list[dict[str, str | None]] = []
        self.addresses: list[str] = []
        self.text = ""
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.addresses += [str(value) for name, value in attrs if name in ADDRESSES]
        if tag == "img":
            self.images.append(dict(attrs))

    def handle_data(self, data: str) -> None:
        self.text += data


def words(shown: Any) -> str:
    """All that a page (an AppTest) says, without the backslashes that escape Markdown."""
    elements = [element for kind in SAYING for element in shown.get(kind)]
    said = (getattr(one, "value", "") or one.proto.body for one in elements)
    return " ".join(map(str, said)).replace("\\", "")

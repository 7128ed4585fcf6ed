"""What tests see of a page of HTML."""

from __future__ import annotations

from html.parser import HTMLParser

ADDRESSES = ("src", "href", "srcset", "action", "data")


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

"""What tests see of a page of HTML."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """The attributes of every picture, and every address, of what it is fed."""

    def __init__(self) -> None:
        super().__init__()
        self.images: list[dict[str, str | None]] = []
        self.addresses: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.addresses += [found[key] for key in ("src", "href") if key in found]
        if tag == "img":
            self.images.append(found)

"""Stars from the terminal: blind, in random order, with undo; goes on where one stopped.

Blind: the rater sees a sheet of template, avatars and result under a neutral name, without the
file's metadata; neither tool nor score is said. Every answer is kept at once.
"""

from __future__ import annotations

import hashlib
import os
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer
from PIL import Image, ImageDraw

from genlab.benchmark.cases import Case, load_case, open_upright
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Item
from genlab.benchmark.tallies import SUBJECT
from genlab.core.errors import GenlabError
from genlab.core.io import atomic_write

QUESTION = "1-5 stars, s skip, u undo, q quit"
HEIGHT = 480
"""Height of the template and the result on a sheet, in pixels; avatars are half as high."""
GAP = 12
PAPER, INK = (246, 247, 248), (34, 40, 46)


@dataclass(frozen=True)
class Shown:
    """An item to rate, and the sheet that shows it."""

    item: Item
    sheet: Path


@dataclass
class Session:
    """One person's rating of a run: what is left, and what was answered in this session."""

    store: Store
    run_id: str
    rater: str
    folder: Path

    def __post_init__(self) -> None:
        self.name = uuid.uuid4().hex
        self.cases = {
            str(case["case_id"]): Path(case.get("folder") or Path("cases") / case["case_id"])
            for case in self.store.run(self.run_id).cases
        }

    def waiting(self) -> list[Item]:
        """Items with an image that this rater has not rated, in the rater's own random order.

        The order depends on rater and image alone: it is the same when the session goes on later.
        """
        rated = {rating.subject_hash for rating in self.store.ratings(SUBJECT, rater=self.rater)}
        items = [
            item
            for item in self.store.items(self.run_id)
            if item.image and item.image_sha256 and item.image_sha256 not in rated
        ]
        return sorted(items, key=lambda item: _drawn(self.rater, item.image_sha256))

    def show(self, item: Item) -> Shown:
        """Draw the sheet of an item under a name that says nothing."""
        path = self.folder / f"{_drawn(self.name, str(item.item_id))[:12]}.png"
        result = open_upright(self.store.path.parent / item.image)
        try:
            case = load_case(self.cases[item.case_id])
        except (GenlabError, KeyError):
            case = None  # the case is gone: the result is shown alone
        sheet(path, result, case)
        return Shown(item, path)

    def rate(self, item: Item, stars: int | None) -> None:
        """Keep the stars, or take them back with None."""
        self.store.rate(
            SUBJECT,
            item.image_sha256,
            self.rater,
            stars,
            run_item_id=item.item_id,
            blind=True,
            session=self.name,
        )


def _drawn(*parts: str) -> str:
    """A draw that is the same for the same parts and tells nothing about them."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def sheet(path: Path, result: Image.Image, case: Case | None) -> None:
    """Write one PNG: template, avatars, result, left to right."""
    parts: list[tuple[str, Image.Image]] = []
    if case is not None:
        parts.append(("template", _scaled(case.open_template(), HEIGHT)))
        parts += [
            (f"avatar {name}", _scaled(case.open_avatar(name), HEIGHT // 2))
            for name in case.avatars
        ]
    parts.append(("result", _scaled(result, HEIGHT)))
    line = 20
    width = sum(part.width for _, part in parts) + GAP * (len(parts) + 1)
    board = Image.new("RGB", (width, HEIGHT + line + 2 * GAP), PAPER)
    draw, left = ImageDraw.Draw(board), GAP
    for words, part in parts:
        draw.text((left, GAP // 2), words, fill=INK, font_size=14)
        board.paste(part, (left, GAP + line))
        left += part.width + GAP
    with atomic_write(path) as temporary:
        board.save(temporary, format="PNG")


def _scaled(image: Image.Image, height: int) -> Image.Image:
    width = max(1, round(image.width * height / image.height))
    return image.resize((width, height), Image.Resampling.LANCZOS)


def can_open() -> bool:
    """Whether there is a desktop that could open a picture."""
    return sys.platform in ("darwin", "win32") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )


def rate_run(
    session: Session,
    *,
    ask: Callable[[str], str],
    say: Callable[[str], None],
    open_picture: Callable[[Path], None] | None = None,
) -> int:
    """Ask for the stars of every item that waits; returns how many were given.

    ask: shows a prompt and returns the answer; say: shows a line; open_picture: opens a sheet, or
    None where its path is said alone.
    """
    waiting = session.waiting()
    if not waiting:
        say("Nothing left to rate here: every image of this run has your stars.")
        return 0
    say(f"{len(waiting)} image{'s' * (len(waiting) > 1)} to rate. Each answer is kept at once.")
    place, given = 0, dict[int, int]()
    while place < len(waiting):
        shown = session.show(waiting[place])
        say(f"\n{place + 1} of {len(waiting)}: {shown.sheet}")
        if open_picture is not None:
            open_picture(shown.sheet)
        step = _answer(session, shown, ask, say, waiting[:place], given)
        if step is None:
            break
        place += step
    left = len(waiting) - len(given)
    say(f"{len(given)} rated, {left} left; the same command goes on from here.")
    return len(given)


def _answer(
    session: Session,
    shown: Shown,
    ask: Callable[[str], str],
    say: Callable[[str], None],
    before: Sequence[Item],
    given: dict[int, int],
) -> int | None:
    """Take one answer: 1 to go on, -1 after an undo, None to quit; so does the end of input."""
    while True:
        try:
            answer = ask(QUESTION).strip().lower()
        except (EOFError, typer.Abort):  # the end of the input, or Ctrl-C
            say("")
            return None
        if answer in ("1", "2", "3", "4", "5"):
            session.rate(shown.item, int(answer))
            given[shown.item.item_id] = int(answer)
            return 1
        if answer == "q":
            return None
        if answer == "s":
            return 1
        if answer == "u" and before:
            if given.pop(before[-1].item_id, None) is not None:
                session.rate(before[-1], None)
            return -1
        say(
            "There is nothing to undo yet."
            if answer == "u"
            else f"{answer[:20]!r} is no answer: {QUESTION}."
        )


def open_picture(path: Path) -> None:
    """Open a picture with what the desktop has for it."""
    typer.launch(str(path))

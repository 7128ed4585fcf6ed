"""Cases: a template photograph, avatars, and who replaces whom, as folders that people can read.

`cases/<case_id>/case.yaml` names the template, the avatars, for each swap the region of the face in
the template, and in ground-truth cases the ideal result. Images lie beside it. Shipped cases are in
`cases/`, a user's own in `cases/private/`, which git ignores.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from genlab.benchmark.photographs import read_photograph, upright_size
from genlab.core.errors import GenlabError, did_you_mean, violations

CASE_FILE = "case.yaml"
PRIVATE = "private"
VERSION = 1

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class FaultyCases(GenlabError):  # noqa: N818 - a list of errors
    """Faulty cases; faults: a line each, of which the message is the first."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = list(faults)
        more = len(self.faults) - 1
        super().__init__(self.faults[0] + (f" (and {more} more faults)" if more else ""))


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Region(_Part):
    """A person's face (or head) in the template, in pixels of the upright image."""

    left: int = Field(ge=0)
    top: int = Field(ge=0)
    width: int = Field(ge=8)
    height: int = Field(ge=8)


class Swap(_Part):
    """Who is replaced by whom."""

    region: Region = Field(description="Where the person's face is.")
    avatar: str = Field(description="Name of the avatar that replaces this person.")


class Source(_Part):
    """Where an image is from."""

    title: str = ""
    author: str = ""
    licence: str = Field(min_length=1, description="What allows its use.")
    url: str = ""


class _File(_Part):
    """The content of case.yaml."""

    version: int = Field(description="Version of this format.")
    title: str = Field(min_length=1, description="What the case shows, one line.")
    consent: bool = Field(description="Whether all persons shown agree to this use.")
    template: str = Field(description="File of the photograph, beside case.yaml.")
    avatars: dict[str, str] = Field(min_length=1, description="File of each avatar.")
    swaps: list[Swap] = Field(min_length=1, description="Who replaces whom.")
    ideal: str = Field(default="", description="File of the ideal result, where it is known.")
    sources: dict[str, Source] = Field(description="Licence of each image, by its name.")

    @model_validator(mode="after")
    def _consistent(self) -> _File:
        if self.version != VERSION:
            raise ValueError(f"version must be {VERSION}, got {self.version}")
        for name in self.avatars:
            if not _NAME.fullmatch(name) or name == "template":
                raise ValueError(f"avatars.{name}: a name is a-z, 0-9, _ and -; rename it")
        for number, swap in enumerate(self.swaps):
            if swap.avatar not in self.avatars:
                raise ValueError(
                    f"swaps.{number}.avatar must be one of {', '.join(self.avatars)},"
                    f" got {swap.avatar!r}"
                )
        for name in ("template", *self.avatars):
            if name not in self.sources:
                raise ValueError(f"sources.{name} is missing; say the licence of that image")
        for name in self.sources:
            if name != "template" and name not in self.avatars:
                raise ValueError(f"sources.{name} is no image of this case; remove it")
        return self


class Case(BaseModel):
    """A case as read and checked. Paths are absolute, or as the folder was given."""

    model_config = ConfigDict(frozen=True)

    case_id: str
    title: str
    template: Path
    avatars: dict[str, Path]
    swaps: tuple[Swap, ...]
    consent: bool
    sources: dict[str, Source]
    folder: Path
    ideal: Path | None = None
    version: int = VERSION

    @property
    def is_private(self) -> bool:
        """Whether it is a user's case."""
        return self.folder.parent.name == PRIVATE

    def without_ideal(self) -> Case:
        """The case as tools get it."""
        return self.model_copy(update={"ideal": None})

    def open_template(self) -> Image.Image:
        """The template, RGB, upright."""
        return read_photograph(self.template)

    def open_avatar(self, name: str) -> Image.Image:
        """The photograph of avatar `name`, RGB, upright."""
        return read_photograph(self.avatars[name])

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that a score depends on: images, regions, who is who."""
        whole = hashlib.sha256()
        ideal = [self.ideal] if self.ideal else []
        for path in (self.template, *(self.avatars[n] for n in sorted(self.avatars)), *ideal):
            whole.update(hashlib.sha256(path.read_bytes()).digest())
        for part in (*sorted(self.avatars), *(swap.model_dump_json() for swap in self.swaps)):
            whole.update(part.encode() + b"\0")
        return whole.hexdigest()


def load_case(folder: Path) -> Case:
    """Read and check a case.

    Raises a `GenlabError` of one line that names the file, the key and the fix; where there are
    several faults, `FaultyCases`.
    """
    path = folder / CASE_FILE
    if not _NAME.fullmatch(folder.name):
        raise GenlabError(
            f"{folder}: the name of a case's folder is a-z, 0-9, _ and -, at most 64; rename it"
        )
    try:
        content = _File.model_validate(_yaml(path))
    except ValidationError as error:
        raise FaultyCases(
            [f"{path}: {line}" for _, line in violations(error, _File.model_fields)]
        ) from error
    template = _beside(path, "template", content.template)
    avatars = {
        name: _beside(path, f"avatars.{name}", file) for name, file in content.avatars.items()
    }
    case = Case(
        case_id=folder.name,
        template=template,
        avatars=avatars,
        swaps=tuple(content.swaps),
        folder=folder,
        **content.model_dump(include={"title", "consent", "version"}),
        sources=content.sources,
        ideal=_beside(path, "ideal", content.ideal) if content.ideal else None,
    )
    _check_images(path, case)
    return case


def load_cases(root: Path, only: Sequence[str] = ()) -> list[Case]:
    """All cases of `root` and `root/private`, by name, or `only` those named, in their order.

    Raises a `GenlabError` where there is none, `FaultyCases` with all faults of all that are asked
    for.
    """
    files = [*root.glob(f"*/{CASE_FILE}"), *root.glob(f"{PRIVATE}/*/{CASE_FILE}")]
    folders = {path.parent.name: path.parent for path in sorted(files)}
    if not folders:
        raise GenlabError(
            f"{root} holds no case (no */{CASE_FILE}); make some with:"
            " genlab benchmark generate-cases"
        )
    for name in only:
        if name not in folders:
            raise GenlabError(
                f"{root} holds no case {name[:80]!r}{did_you_mean(name, folders)}; there are:"
                f" {', '.join(folders)}"
            )
    cases: list[Case] = []
    faults: list[str] = []
    for name in dict.fromkeys(only or sorted(folders)):
        try:
            cases.append(load_case(folders[name]))
        except FaultyCases as fault:
            faults += fault.faults
        except GenlabError as fault:
            faults.append(str(fault))
    if faults:
        raise FaultyCases(faults)
    return cases


def split_by_consent(cases: Sequence[Case]) -> tuple[list[Case], list[str]]:
    """The cases that may be run, and a line for each that is skipped."""
    skipped = [
        f"case {case.case_id} skipped: {case.folder / CASE_FILE} says consent: false; if all"
        " persons shown agree to this use, write there: consent: true"
        for case in cases
        if not case.consent
    ]
    return [case for case in cases if case.consent], skipped


def _yaml(path: Path) -> Any:
    try:
        content = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise GenlabError(
            f"{path} is missing; make cases with: genlab benchmark generate-cases"
        ) from error
    except UnicodeDecodeError as error:
        raise GenlabError(f"{path} is not UTF-8 text; save it as UTF-8") from error
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise GenlabError(f"{path}{line}: not valid YAML ({problem}); correct that line") from error
    if not isinstance(content, dict):
        raise GenlabError(f"{path} must hold keys and values, got {type(content).__name__}")
    return content


def _beside(path: Path, key: str, name: str) -> Path:
    """The file `name` in the case's own folder: nothing else of the disk is read."""
    if not name or Path(name).name != name or name.startswith("."):
        raise GenlabError(f"{path}: {key} must be a file beside it, got {name!r}")
    return path.parent / name


def _check_images(path: Path, case: Case) -> None:
    faults: list[str] = []
    sizes: dict[Path, tuple[int, int]] = {}
    for image in (case.template, *case.avatars.values(), *filter(None, [case.ideal])):
        try:
            if not image.is_file():
                raise GenlabError(f"{path}: {image.name} is not there; put that image beside it")
            sizes[image] = upright_size(image)
        except GenlabError as fault:
            faults.append(str(fault))
    for number, swap in enumerate(case.swaps if case.template in sizes else ()):
        region, (width, height) = swap.region, sizes[case.template]
        if region.left + region.width > width or region.top + region.height > height:
            faults.append(
                f"{path}: swaps.{number}.region ends at {region.left + region.width},"
                f" {region.top + region.height}, outside the template's {width} × {height} pixels;"
                " correct its numbers"
            )
    if faults:
        raise FaultyCases(faults)

"""A case: a photograph of people, and who is to take whose place in it. A folder people can read.

`cases/<case_id>/case.yaml` names the template, the avatars (photographs of the persons that take
places), and for each place the region of the face in the template's pixels. The images lie beside
it. A case without consent is not loaded for a run.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from genlab.core.errors import GenlabError, did_you_mean, violations

CASE_FILE = "case.yaml"
VERSION = 1
MAX_PIXELS = 50_000_000  # of an image of a case: some 7000 by 7000
MIN_SIDE = 64
FORMATS = ("JPEG", "PNG", "WEBP")

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class FaultyCases(GenlabError):  # noqa: N818 - as the other outcomes
    """Cases that can't be used; faults: a line each, of which the message is the first."""

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
    """Whose place an avatar takes."""

    region: Region = Field(description="Where the person's face is.")
    avatar: str = Field(description="Name of the avatar that takes this person's place.")


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
    swaps: list[Swap] = Field(min_length=1, description="Who takes whose place.")
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
    """A case as it was read and checked. Paths are absolute or as the folder was given."""

    model_config = ConfigDict(frozen=True)

    case_id: str
    title: str
    template: Path
    avatars: dict[str, Path]
    swaps: tuple[Swap, ...]
    consent: bool
    sources: dict[str, Source]
    folder: Path
    version: int = VERSION

    def open_template(self) -> Image.Image:
        """The photograph, RGB, upright."""
        return open_upright(self.template)

    def open_avatar(self, name: str) -> Image.Image:
        """The photograph of avatar `name`, RGB, upright."""
        return open_upright(self.avatars[name])

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that a score depends on: images, regions, who is who."""
        whole = hashlib.sha256()
        for path in (self.template, *(self.avatars[name] for name in sorted(self.avatars))):
            whole.update(hashlib.sha256(path.read_bytes()).digest())
        for part in (*sorted(self.avatars), *(swap.model_dump_json() for swap in self.swaps)):
            whole.update(part.encode() + b"\0")
        return whole.hexdigest()


def load_case(folder: Path) -> Case:
    """Read and check a case; one without consent can be shown, but see `require_consent`.

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
    )
    _check_images(path, case)
    return case


def load_cases(root: Path, only: Sequence[str] = ()) -> list[Case]:
    """All cases of a folder, by name, or `only` those named, in their order.

    Raises a `GenlabError` where none is there, `FaultyCases` with all faults of all that are asked
    for.
    """
    if not root.is_dir():
        raise GenlabError(
            f"{root} is no folder of cases; make some with: genlab-benchmark generate-cases"
        )
    folders = {path.parent.name: path.parent for path in sorted(root.glob(f"*/{CASE_FILE}"))}
    if not folders:
        raise GenlabError(
            f"{root} holds no case (no */{CASE_FILE}); make some with:"
            " genlab-benchmark generate-cases"
        )
    for name in only:
        if name not in folders:
            raise GenlabError(
                f"{root} holds no case {name[:80]!r}{did_you_mean(name, folders)}; there are:"
                f" {', '.join(folders)}"
            )
    cases: list[Case] = []
    faults: list[str] = []
    for name in dict.fromkeys(only or folders):
        try:
            cases.append(load_case(folders[name]))
        except FaultyCases as fault:
            faults += fault.faults
        except GenlabError as fault:
            faults.append(str(fault))
    if faults:
        raise FaultyCases(faults)
    return cases


def require_consent(case: Case) -> None:
    """Raise a `GenlabError` that names the line to change where a case has no consent."""
    if case.consent:
        return
    path = case.folder / CASE_FILE
    lines = path.read_text(encoding="utf-8").splitlines()
    number = next((n for n, line in enumerate(lines, 1) if line.startswith("consent:")), 1)
    raise GenlabError(
        f"{path}, line {number}: consent is false; if all persons shown agree to this use, write"
        " there: consent: true"
    )


def open_upright(path: Path) -> Image.Image:
    """An image file as RGB, turned as its EXIF says.

    Raises a `GenlabError` where it is no JPEG, PNG or WebP, is cut short, or has over 50 million
    pixels.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # bounded below
            with Image.open(path, formats=FORMATS) as image:
                _check_size(path, image)
                return ImageOps.exif_transpose(image).convert("RGB")
    except FileNotFoundError as error:
        raise GenlabError(f"{path} is missing; put the image there, or name another") from error
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        said = " ".join(str(error).split())[:120]
        raise GenlabError(
            f"{path} is cut short or no JPEG, PNG or WebP ({said}); save it again"
        ) from error


def upright_size(path: Path) -> tuple[int, int]:
    """Width and height of an image file, upright. A PNG is decoded: its EXIF may come last."""
    try:
        with Image.open(path, formats=FORMATS) as image:
            _check_size(path, image)
            turned = image.getexif().get(0x0112, 1) in (5, 6, 7, 8)
            return (image.height, image.width) if turned else image.size
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        said = " ".join(str(error).split())[:120]
        raise GenlabError(f"{path} is no JPEG, PNG or WebP ({said}); save it again") from error


def _check_size(path: Path, image: Image.Image) -> None:
    if image.width * image.height > MAX_PIXELS:
        raise GenlabError(
            f"{path} has {image.width} × {image.height} pixels, over {MAX_PIXELS // 10**6}"
            " million; scale it down"
        )
    if min(image.size) < MIN_SIDE:
        raise GenlabError(
            f"{path} has {image.width} × {image.height} pixels; it takes {MIN_SIDE} a side"
        )


def _yaml(path: Path) -> Any:
    try:
        content = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise GenlabError(
            f"{path} is missing; make cases with: genlab-benchmark generate-cases"
        ) from error
    except UnicodeDecodeError as error:
        raise GenlabError(f"{path} is not UTF-8 text; save it as UTF-8") from error
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise GenlabError(f"{path}{line}: not valid YAML ({problem}); mend that line") from error
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
    for image in (case.template, *case.avatars.values()):
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
                " mend its numbers"
            )
    if faults:
        raise FaultyCases(faults)

"""Cases, as folders that people can read: `cases/<case_id>/case.yaml`, the images beside it.

The file names the template, the avatars, for each swap the region of the face in the template, and
in ground-truth cases the ideal result. Shipped cases are in `cases/`, a user's own in
`cases/private/`, which git ignores.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from PIL import Image
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from genlab.benchmark.cases.photographs import read_photograph, same_shape, upright_size
from genlab.core.errors import GenlabError, did_you_mean, to_genlab_error
from genlab.core.io import read_yaml
from genlab.core.paths import match_disk_names, resolve_beside

if TYPE_CHECKING:
    from genlab.benchmark.store.repository import Store

CASE_FILE = "case.yaml"
PRIVATE = "private"

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Region(_Part):
    """A person's face (or head) in the template, in pixels of the upright image."""

    left: int = Field(ge=0)
    top: int = Field(ge=0)
    width: int = Field(ge=8)
    height: int = Field(ge=8)

    @property
    def box(self) -> tuple[int, int, int, int]:
        """Left, top, right, bottom."""
        return self.left, self.top, self.left + self.width, self.top + self.height


class Swap(_Part):
    """Who is replaced by whom."""

    region: Region = Field(description="Where the person's face is.")
    avatar: str = Field(description="Name of the avatar that replaces this person.")


class Source(_Part):
    """Where an image is from."""

    title: str = ""
    author: str = ""
    licence: str = Field(min_length=1, description="What allows its use.")
    consent: str = Field(default="", description="What the consent of the persons shown rests on.")
    url: str = ""


def _beside(name: object, info: ValidationInfo) -> Path:
    """The file `name` in the case's own folder: nothing else of the disk is read."""
    if not isinstance(name, str) or not name or Path(name).name != name or name.startswith("."):
        raise PydanticCustomError("file", "Input must be a file beside it")
    return match_disk_names(Path(str(info.context)) / name)


File = Annotated[Path, BeforeValidator(_beside)]


class Case(_Part):
    """A case as read from case.yaml; validated with its folder as context."""

    version: Literal[1] = Field(description="Version of this format.")
    title: str = Field(min_length=1, description="What the case shows, one line.")
    consent: bool | None = Field(
        default=None, description="Whether all persons shown agree to this use."
    )
    basis: str = Field(default="", description="What allows it where no consent is documented.")
    template: File = Field(description="Photograph whose persons are replaced.")
    avatars: dict[str, File] = Field(min_length=1, description="Photograph of each avatar.")
    swaps: list[Swap] = Field(min_length=1, description="Who replaces whom.")
    ideal: File | None = Field(default=None, description="Ideal result, where it is known.")
    sources: dict[str, Source] = Field(description="Licence of each image, by its name.")

    _folder: Path
    _size: tuple[int, int] | None = None

    def model_post_init(self, context: Any, /) -> None:
        self._folder = context

    @model_validator(mode="after")
    def _consistent(self) -> Case:
        if self.consent is None and not self.basis:
            raise ValueError("consent is missing; write true where all persons shown agree")
        if self.consent is not None and self.basis:
            raise ValueError("basis stands in the place of consent; remove one of them")
        for name in self.avatars:
            if not _NAME.fullmatch(name) or name == "template":
                raise ValueError(f"avatars.{name}: a name is a-z, 0-9, _ and -; rename it")
        for number, swap in enumerate(self.swaps):
            if swap.avatar not in self.avatars:
                known = ", ".join(self.avatars)
                raise ValueError(
                    f"swaps.{number}.avatar must be one of {known}, got {swap.avatar!r}"
                )
        images = {"template", *self.avatars}
        for name in sorted(images ^ {*self.sources}):
            fix = "is missing; say the licence of that image"
            if name in self.sources:
                fix = "is no image of this case; remove it"
            raise ValueError(f"sources.{name} {fix}")
        return self

    @property
    def folder(self) -> Path:
        return self._folder

    @property
    def run_record(self) -> dict[str, str]:
        """What a run keeps of it."""
        where = {"case_id": self.case_id, "folder": str(self.folder.resolve())}
        return {**where, "title": self.title, "digest": self.digest}

    @property
    def case_id(self) -> str:
        return self._folder.name

    @property
    def is_private(self) -> bool:
        """Whether it is a user's case."""
        return self._folder.parent.name == PRIVATE

    @property
    def may_run(self) -> bool:
        """Whether runs take it: the persons shown agree, or a basis is stated in its place."""
        return bool(self.consent or self.basis)

    @property
    def permission(self) -> str:
        """What allows the use of its photographs, in words."""
        if self.basis:
            return f"the persons' consent is not documented; basis of use: {self.basis}"
        return "all persons shown agree" if self.consent else "no consent"

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the template, upright; the file is read once."""
        if self._size is None:
            self._size = upright_size(self.template)
        return self._size

    def open_template(self) -> Image.Image:
        """The template, RGB, upright."""
        return read_photograph(self.template)

    def open_avatar(self, name: str) -> Image.Image:
        """The photograph of avatar `name`, RGB, upright."""
        return read_photograph(self.avatars[name])

    def check(self) -> None:
        """Read all images. Raises a `GenlabError` for a damaged one, or an ideal that cannot be."""
        for path in (self.template, *self.avatars.values()):
            read_photograph(path)
        if self.ideal and not same_shape(read_photograph(self.ideal).size, self.size):
            raise GenlabError(f"{self.ideal} has another shape than the template; crop it")

    @property
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

    Raises a `GenlabError` of one line that names the file, the key and the fix.
    """
    path = folder / CASE_FILE
    if not _NAME.fullmatch(folder.name):
        raise GenlabError(
            f"{folder}: the name of a case's folder is a-z, 0-9, _ and -, at most 64; rename it"
        )
    if not path.exists():
        raise GenlabError(f"{path} is missing; restore a shipped case with: git checkout -- cases")
    try:
        case = Case.model_validate(read_yaml(path), context=folder)
    except ValidationError as error:
        raise to_genlab_error(error, path, Case.model_fields) from error
    for image in (*case.avatars.values(), *filter(None, [case.ideal])):
        upright_size(image)
    width, height = case.size
    for number, swap in enumerate(case.swaps):
        _, _, right, bottom = swap.region.box
        if right > width or bottom > height:
            raise GenlabError(
                f"{path}: swaps.{number}.region ends at {right}, {bottom}, outside the template's"
                f" {width} × {height} pixels; correct its numbers"
            )
    return case


def load_run_case(folder: Path, run_id: str, digest: str) -> Case:
    """Read the case of a run that began when the case had this digest.

    Raises a `GenlabError` where it is faulty or has changed: the run's images would not compare.
    """
    case = load_case(folder)
    if case.digest != digest:
        fault = f"case {case.case_id} has changed since run {run_id} began"
        raise GenlabError(f"{fault}; restore {folder}, or start a new run")
    return case


def load_stored_case(store: Store, run_id: str, stored: Mapping[str, Any]) -> Case:
    """Read a case as a run's record names it. Raises a `GenlabError` as `load_run_case` does."""
    return load_run_case(store.case_folder(stored), run_id, stored.get("digest", ""))


def load_cases(root: Path, only: Sequence[str] = ()) -> list[Case]:
    """All cases of `root` and `root/private`, by name, or `only` those named, in their order.

    Raises a `GenlabError` where there is none, or two have one name; where cases are faulty, with
    the fault of the first and the names of the others.
    """
    root = resolve_beside(Path(), root)
    folders: dict[str, Path] = {}
    for file in sorted([*root.glob(f"*/{CASE_FILE}"), *root.glob(f"{PRIVATE}/*/{CASE_FILE}")]):
        if (other := folders.setdefault(file.parent.name, file.parent)) != file.parent:
            raise GenlabError(f"{other} and {file.parent} have one name; rename one of the two")
    if not folders:
        raise GenlabError(
            f"{root} holds no case (no */{CASE_FILE}); restore the shipped ones with:"
            " git checkout -- cases"
        )
    for name in only:
        if name not in folders:
            fix = f"{did_you_mean(name, folders)}; there are: {', '.join(folders)}"
            raise GenlabError(f"{root} holds no case {name[:80]!r}{fix}")
    cases: list[Case] = []
    faults: dict[str, GenlabError] = {}
    for name in dict.fromkeys(only or sorted(folders)):
        try:
            cases.append(load_case(folders[name]))
        except GenlabError as fault:
            faults[name] = fault
    if faults:
        first, *others = faults
        more = f" (faulty as well: {', '.join(others)})" if others else ""
        raise GenlabError(f"{faults[first]}{more}")
    return cases


def describe_missing_consent(case: Case) -> str:
    """Why a case must not be run, and the fix."""
    fix = "if all persons shown agree to this use, write there: consent: true"
    return f"{case.folder / CASE_FILE} says consent: false; {fix}"


def split_by_consent(cases: Sequence[Case]) -> tuple[list[Case], list[str]]:
    """The cases that may be run, and a line for each that is skipped."""
    skipped = [
        f"case {case.case_id} skipped: {describe_missing_consent(case)}"
        for case in cases
        if not case.may_run
    ]
    return [case for case in cases if case.may_run], skipped

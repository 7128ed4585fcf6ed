"""Read cases: folders with a `case.yaml` and its images, `cases/<case_id>/`.

The file names the template, the avatars, the region of the face in the template for each swap, and
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
from genlab.core.config_yaml import read_config
from genlab.core.errors import GenlabError, did_you_mean, to_genlab_error
from genlab.core.paths import match_disk_names, resolve_beside

if TYPE_CHECKING:
    from genlab.benchmark.store.repository import Store

CASE_FILE = "case.yaml"
PRIVATE = "private"

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class _CaseModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Region(_CaseModel):
    """A person's face (or head) in the template, in pixels of the upright image."""

    left: int = Field(ge=0)
    top: int = Field(ge=0)
    width: int = Field(ge=8)
    height: int = Field(ge=8)

    @property
    def box(self) -> tuple[int, int, int, int]:
        """Left, top, right, bottom."""
        return self.left, self.top, self.left + self.width, self.top + self.height


class Swap(_CaseModel):
    """Who is replaced by whom."""

    region: Region = Field(description="Where the person's face is.")
    avatar: str = Field(description="Name of the avatar that replaces this person.")


class Source(_CaseModel):
    """The origin and the licence of an image."""

    title: str = ""
    author: str = ""
    licence: str = Field(min_length=1, description="What allows its use.")
    consent: str = Field(default="", description="What the consent of the persons shown rests on.")
    url: str = ""


def _resolve_file(name: object, info: ValidationInfo) -> Path:
    """Resolve a file name in the case's folder; paths that lead elsewhere are refused."""
    if not isinstance(name, str) or not name or Path(name).name != name or name.startswith("."):
        raise PydanticCustomError("file", "Input must be a file beside it")
    return match_disk_names(Path(str(info.context)) / name)


File = Annotated[Path, BeforeValidator(_resolve_file)]


class Case(_CaseModel):
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
                names = ", ".join(self.avatars)
                raise ValueError(
                    f"swaps.{number}.avatar must be one of {names}, got {swap.avatar!r}"
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
        """The values that a run stores about its case."""
        return {
            "case_id": self.case_id,
            "folder": str(self.folder.resolve()),
            "title": self.title,
            "digest": self.digest,
        }

    @property
    def case_id(self) -> str:
        return self._folder.name

    @property
    def is_private(self) -> bool:
        """Whether it is a user's own case, which git ignores."""
        return self._folder.parent.name == PRIVATE

    @property
    def may_run(self) -> bool:
        """Whether runs include it: the persons shown agree, or another basis is stated."""
        return bool(self.consent or self.basis)

    @property
    def permission(self) -> str:
        """What allows the use of its photographs, in words."""
        if self.basis:
            return f"the persons' consent is not documented; basis of use: {self.basis}"
        return "all persons shown agree" if self.consent else "no consent"

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the upright template; the file is read once."""
        if self._size is None:
            self._size = upright_size(self.template)
        return self._size

    def open_template(self) -> Image.Image:
        """Open the template, RGB and upright."""
        return read_photograph(self.template)

    def open_avatar(self, name: str) -> Image.Image:
        """Open the photograph of an avatar, RGB and upright."""
        return read_photograph(self.avatars[name])

    def check(self) -> None:
        """Read all images. Raises a `GenlabError` for a damaged one or a misshapen ideal."""
        for path in (self.template, *self.avatars.values()):
            read_photograph(path)
        if self.ideal and not same_shape(read_photograph(self.ideal).size, self.size):
            raise GenlabError(f"{self.ideal} has another shape than the template; crop it")

    @property
    def digest(self) -> str:
        """SHA-256 of all that a score depends on: images, names of avatars, and swaps."""
        names = sorted(self.avatars)
        paths = [self.template, *(self.avatars[name] for name in names)]
        if self.ideal:
            paths.append(self.ideal)
        sha256 = hashlib.sha256()
        for path in paths:
            sha256.update(hashlib.sha256(path.read_bytes()).digest())
        for text in (*names, *(swap.model_dump_json() for swap in self.swaps)):
            sha256.update(text.encode() + b"\0")
        return sha256.hexdigest()


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
        case = Case.model_validate(read_config(path), context=folder)
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
    """Read the case of a run, and check that it still has the digest with which the run began.

    Raises a `GenlabError` where it is faulty or has changed: the run's images would not compare.
    """
    case = load_case(folder)
    if case.digest != digest:
        fault = f"case {case.case_id} has changed since run {run_id} began"
        raise GenlabError(f"{fault}; restore {folder}, or start a new run")
    return case


def load_stored_case(store: Store, run_id: str, stored: Mapping[str, Any]) -> Case:
    """Read a case that a run stored as `run_record`. Raises errors as `load_run_case` does."""
    return load_run_case(store.case_folder(stored), run_id, stored.get("digest", ""))


def load_cases(root: Path, only: Sequence[str] = ()) -> list[Case]:
    """Read all cases of `root` and `root/private`, sorted by name, or `only` those named.

    Raises a `GenlabError` where there is none, where two have one name, and where cases are faulty:
    it states the fault of the first and names the others.
    """
    root = resolve_beside(Path(), root)
    folders: dict[str, Path] = {}
    for file in sorted([*root.glob(f"*/{CASE_FILE}"), *root.glob(f"{PRIVATE}/*/{CASE_FILE}")]):
        folder = file.parent
        if folder.name in folders:
            first = folders[folder.name]
            raise GenlabError(f"{first} and {folder} have one name; rename one of the two")
        folders[folder.name] = folder
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
        first_name, *others = faults
        also_faulty = f" (faulty as well: {', '.join(others)})" if others else ""
        raise GenlabError(f"{faults[first_name]}{also_faulty}")
    return cases


def describe_missing_consent(case: Case) -> str:
    """Describe why a case without consent is not run, and the fix."""
    fix = "if all persons shown agree to this use, write there: consent: true"
    return f"{case.folder / CASE_FILE} says consent: false; {fix}"


def split_by_consent(cases: Sequence[Case]) -> tuple[list[Case], list[str]]:
    """Return the cases that may run, and a line for each case that is skipped."""
    skipped = [
        f"case {case.case_id} skipped: {describe_missing_consent(case)}"
        for case in cases
        if not case.may_run
    ]
    return [case for case in cases if case.may_run], skipped

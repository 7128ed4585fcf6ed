"""Find cases, and create private ones from photographs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field

from genlab.benchmark.cases import CASE_FILE, PRIVATE, Case, Region, Source, Swap
from genlab.benchmark.cases.files import write_case
from genlab.benchmark.cases.photographs import TEMPLATE_SIDE, crop_avatar, read_photograph, shrink
from genlab.core.errors import GenlabError

MAX_AVATARS = 16

CaseId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", max_length=64)]


class CaseDraft(BaseModel):
    """Description of a new case; its images are passed separately."""

    model_config = ConfigDict(extra="forbid", strict=True)

    case_id: CaseId
    title: str = Field(min_length=1, max_length=200)
    consent: bool = False
    regions: list[Region] = Field(
        min_length=1, max_length=MAX_AVATARS, description="Faces to replace, one per avatar."
    )
    source: str = Field(default="", max_length=500)
    licence: str = Field(min_length=1, max_length=500)


def find_folder(cases: Path, case_id: str) -> Path | None:
    """Return the folder of a case below the folder `cases`; None if there is no such case."""
    folders = (cases / case_id, cases / PRIVATE / case_id)
    return next((folder for folder in folders if (folder / CASE_FILE).exists()), None)


def save_case(
    cases: Path, draft: CaseDraft, template: Image.Image, avatars: Sequence[Image.Image]
) -> Case:
    """Write a private case below the folder `cases`. avatars: in the order of the regions.

    Raises a `GenlabError` if there is a case of that name.
    """
    if find_folder(cases, draft.case_id):
        raise GenlabError(f"there is a case {draft.case_id!r} already; choose another name")
    names = [f"person-{number}" for number in range(1, len(avatars) + 1)]
    pairs = zip(draft.regions, names, strict=True)
    source = Source(title=draft.source, licence=draft.licence)
    return write_case(
        cases / PRIVATE / draft.case_id,
        title=draft.title,
        consent=draft.consent,
        template=template,
        avatars=dict(zip(names, avatars, strict=True)),
        swaps=[Swap(region=region, avatar=name) for region, name in pairs],
        sources=dict.fromkeys(("template", *names), source),
    )


def make_case(
    cases: Path, draft: CaseDraft, template: bytes, avatars: Sequence[tuple[str, bytes]]
) -> Case:
    """Write a private case from image files as they were uploaded.

    draft: with regions in pixels of `template`; avatars: (file name, photograph of one person), one
    per region. Raises a `GenlabError` that names a photograph which cannot be used.
    """
    if len(avatars) != len(draft.regions):
        raise GenlabError(f"{len(draft.regions)} regions need as many avatars, got {len(avatars)}")
    photograph = read_photograph(template, "the template")
    image = shrink(photograph, TEMPLATE_SIDE)
    scale = image.width / photograph.width
    regions = [_scale(region, scale, image.size) for region in draft.regions]
    heads = [crop_avatar(read_photograph(data, name), name) for name, data in avatars]
    return save_case(cases, draft.model_copy(update={"regions": regions}), image, heads)


def _scale(region: Region, scale: float, size: tuple[int, int]) -> Region:
    """Scale a region with its image, which then has `size`; `write_case` checks the region."""
    left, top, right, bottom = (round(scale * edge) for edge in region.box)
    box = {
        "left": left,
        "top": top,
        "width": min(right, size[0]) - left,
        "height": min(bottom, size[1]) - top,
    }
    return region.model_copy(update=box)

"""Routes of the cases: list, show, create."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, File, Form, Request, UploadFile
from PIL import Image
from pydantic import Field, Json
from starlette.responses import Response

from genlab.benchmark.cases import CASE_FILE, PRIVATE, Case, Region, Source, Swap, load_case
from genlab.benchmark.cases.files import write_case
from genlab.benchmark.cases.photographs import TEMPLATE_SIDE, crop_avatar, read_photograph, shrink
from genlab.core.errors import GenlabError
from genlab.web.api.schema import CaseId, Part, Refusal
from genlab.web.images import IMAGES, Width, case_image_url, serve_image
from genlab.web.jobs import Here, Jobs

MAX_AVATARS = 16

router = APIRouter()


class CaseOut(Part):
    """A case, and where its images are."""

    case_id: CaseId
    title: str
    consent: bool = Field(description="Runs skip a case without it.")
    private: bool = Field(description="Whether it is a user's own case.")
    ground_truth: bool = Field(description="Whether the ideal result is known.")
    template_url: str
    avatar_urls: dict[str, str]
    swaps: list[Swap]
    licences: dict[str, str] = Field(description="Licence of each image.")

    @classmethod
    def of(cls, case: Case) -> CaseOut:
        """The case as the API shows it."""
        return cls(
            case_id=case.case_id,
            title=case.title,
            consent=case.consent,
            private=case.is_private,
            ground_truth=case.ideal is not None,
            template_url=case_image_url(case.case_id, "template"),
            avatar_urls={name: case_image_url(case.case_id, name) for name in case.avatars},
            swaps=case.swaps,
            licences={name: source.licence for name, source in case.sources.items()},
        )


class CaseIn(Part):
    """What a new case says; its images come beside it."""

    case_id: CaseId
    title: str = Field(min_length=1, max_length=200)
    consent: bool = False
    regions: list[Region] = Field(
        min_length=1, max_length=MAX_AVATARS, description="Faces to replace, one per avatar."
    )
    source: str = Field(default="", max_length=500)
    licence: str = Field(min_length=1, max_length=500)


def find_folder(jobs: Jobs, case_id: str) -> Path | None:
    """The folder of a case; None where there is no such case."""
    cases = jobs.cases_folder  # which reads params.yaml
    folders = (cases / case_id, cases / PRIVATE / case_id)
    return next((folder for folder in folders if (folder / CASE_FILE).exists()), None)


def save_case(
    jobs: Jobs, asked: CaseIn, template: Image.Image, avatars: Sequence[Image.Image]
) -> Case:
    """Write a private case. avatars: PIL images in the order of the regions."""
    if find_folder(jobs, asked.case_id):
        raise GenlabError(f"there is a case {asked.case_id!r} already; choose another name")
    names = [f"person-{number}" for number in range(1, len(avatars) + 1)]
    swaps = [Swap(region=r, avatar=name) for r, name in zip(asked.regions, names, strict=True)]
    source = Source(title=asked.source, licence=asked.licence)
    return write_case(
        jobs.cases_folder / PRIVATE / asked.case_id,
        title=asked.title,
        consent=asked.consent,
        template=template,
        avatars=dict(zip(names, avatars, strict=True)),
        swaps=swaps,
        sources=dict.fromkeys(("template", *names), source),
    )


@router.get("/test-cases", summary="The cases")
def list_cases(jobs: Here) -> list[CaseOut]:
    return [CaseOut.of(case) for case in jobs.cases()]


@router.post("/test-cases", status_code=201, summary="Create a private case from photographs")
def create(
    jobs: Here,
    case: Annotated[Json[CaseIn], Form(description="A CaseIn as JSON.")],
    template: Annotated[UploadFile, File(description="JPEG, PNG or WebP.")],
    avatars: Annotated[
        list[UploadFile], File(description="One per region.", max_length=MAX_AVATARS)
    ],
) -> CaseOut:
    """Write a case of photographs. Its regions are in pixels of the template as it was sent."""
    if len(avatars) != len(case.regions):
        count = len(case.regions)
        raise Refusal(422, f"{count} regions need as many avatars, got {len(avatars)}")
    try:
        photograph = read_photograph(template.file.read(), "the template")
        image = shrink(photograph, TEMPLATE_SIDE)
        scale = image.width / photograph.width
        regions = [_scale(region, scale, image.size) for region in case.regions]
        heads = []
        for file in avatars:
            name = file.filename or "an avatar"
            heads.append(crop_avatar(read_photograph(file.file.read(), name), name))
        asked = case.model_copy(update={"regions": regions})
        return CaseOut.of(save_case(jobs, asked, image, heads))
    except GenlabError as error:
        raise Refusal(422, str(error)) from error


@router.get(
    "/test-cases/{case_id}/{name}",
    summary="A case's template, or an avatar by its name",
    response_class=Response,
    responses=IMAGES,
)
def show_image(
    request: Request, jobs: Here, case_id: CaseId, name: CaseId, width: Width | None = None
) -> Response:
    folder = find_folder(jobs, case_id)
    if folder is None:
        raise Refusal(404, f"there is no case {case_id}")
    case = load_case(folder)
    path = case.template if name == "template" else case.avatars.get(name)
    if path is None:
        raise Refusal(404, f"case {case_id} has no avatar {name!r}")
    return serve_image(request, path, width)


def _scale(region: Region, scale: float, size: tuple[int, int]) -> Region:
    """The region after its image was scaled to `size`; writing the case checks it."""
    left, top, right, bottom = (round(scale * edge) for edge in region.box)
    width, height = min(right, size[0]) - left, min(bottom, size[1]) - top
    sides = {"left": left, "top": top, "width": width, "height": height}
    return region.model_copy(update=sides)

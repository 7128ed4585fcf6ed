"""Routes of the cases: list, show, create."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, File, Form, Path, Query, Request, UploadFile
from pydantic import Field, ValidationError
from starlette.responses import Response

from genlab.benchmark.cases import PRIVATE, Case, Region, Source, Swap, load_cases
from genlab.benchmark.cases.files import Draft, write_case
from genlab.benchmark.cases.photographs import TEMPLATE_SIDE, crop_avatar, read_photograph, shrink
from genlab.core.errors import GenlabError, violations
from genlab.web.api.problems import Refusal, responses
from genlab.web.api.types import CaseId, Part
from genlab.web.images import WIDTHS, serve_image
from genlab.web.jobs import Jobs

MAX_AVATARS = 16
NAME = r"^[a-z0-9][a-z0-9_-]{0,63}$"
Width = Literal["160", "320", "640", "1280"]  # images.WIDTHS, as a query spells them

_FILE = {"schema": {"type": "string", "format": "binary"}}
IMAGES: dict[int | str, dict[str, Any]] = {
    200: {"content": {f"image/{kind}": _FILE for kind in ("jpeg", "png", "webp")}}
}


class RegionOut(Part):
    """A face in the template, in pixels."""

    left: int
    top: int
    width: int
    height: int


class SwapOut(Part):
    """Who is replaced by whom."""

    region: RegionOut
    avatar: str


class CaseOut(Part):
    """A case, and where its images are."""

    case_id: CaseId
    title: str
    consent: bool = Field(description="Runs skip a case without it.")
    private: bool = Field(description="Whether it is a user's own case.")
    ground_truth: bool = Field(description="Whether the ideal result is known.")
    template_url: str
    avatar_urls: dict[str, str]
    swaps: list[SwapOut]
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
            template_url=image_url(case.case_id, "template"),
            avatar_urls={name: image_url(case.case_id, name) for name in case.avatars},
            swaps=[
                SwapOut(region=RegionOut(**swap.region.model_dump()), avatar=swap.avatar)
                for swap in case.swaps
            ],
            licences={name: source.licence for name, source in case.sources.items()},
        )


class CaseIn(Part):
    """What a new case says; its images come beside it."""

    case_id: CaseId
    title: str = Field(min_length=1, max_length=200)
    consent: bool = False
    regions: list[RegionOut] = Field(
        min_length=1, max_length=MAX_AVATARS, description="Faces to replace, one per avatar."
    )
    source: str = Field(default="", max_length=500)
    licence: str = Field(min_length=1, max_length=500)


def image_url(case_id: str, name: str) -> str:
    """Address of a case's template, ideal or avatar."""
    return f"/api/test-cases/{case_id}/{name}"


def create_case(
    jobs: Jobs, case: CaseIn, template: bytes, avatars: list[tuple[str, bytes]]
) -> Case:
    """Write a private case from uploads. Raises a `GenlabError` for what is wrong with them.

    avatars: (file name, bytes) in the order of the regions.
    """
    if len(avatars) != len(case.regions):
        raise GenlabError(f"{len(case.regions)} regions need as many avatars, got {len(avatars)}")
    names = [f"person-{number}" for number in range(1, len(avatars) + 1)]
    photograph = read_photograph(template, "the template")
    shrunk = shrink(photograph, TEMPLATE_SIDE)
    scale = shrunk.width / photograph.width
    heads = {
        name: crop_avatar(read_photograph(data, file), file)
        for name, (file, data) in zip(names, avatars, strict=True)
    }
    source = Source(title=case.source, licence=case.licence)
    draft = Draft(
        case.case_id,
        case.title,
        case.consent,
        shrunk,
        heads,
        [
            Swap(region=_scaled(region, scale), avatar=name)
            for region, name in zip(case.regions, names, strict=True)
        ],
        dict.fromkeys(("template", *names), source),
    )
    if any(known.case_id == case.case_id for known in load_cases(jobs.cases_folder)):
        raise GenlabError(f"there is a case {case.case_id!r} already; choose another name")
    return write_case(draft, jobs.cases_folder / PRIVATE)


def find_case(jobs: Jobs, case_id: str) -> Case:
    """The case of this id. Raises a `Refusal` where there is none, or it cannot be read."""
    try:
        [case] = load_cases(jobs.cases_folder, [case_id])
        return case
    except GenlabError as error:
        known = any(jobs.cases_folder.glob(f"**/{case_id}/case.yaml"))
        status, detail = (409, str(error)) if known else (404, f"there is no case {case_id}")
        raise Refusal(status, detail) from error


def make_router(jobs: Jobs) -> APIRouter:
    """The routes under `/test-cases`."""
    router = APIRouter()

    @router.get("/test-cases", summary="The cases")
    def cases() -> list[CaseOut]:
        return [CaseOut.of(case) for case in jobs.cases()]

    @router.post(
        "/test-cases",
        status_code=201,
        summary="Create a private case from photographs",
        responses=responses(404, 422),
    )
    def create(
        case: Annotated[str, Form(description="A CaseIn as JSON.", max_length=20_000)],
        template: Annotated[UploadFile, File(description="JPEG, PNG or WebP.")],
        avatars: Annotated[
            list[UploadFile], File(description="One per region.", max_length=MAX_AVATARS)
        ],
    ) -> CaseOut:
        try:
            asked = CaseIn.model_validate_json(case)
        except ValidationError as error:
            raise Refusal(422, f"case: {violations(error)[0][1]}") from error
        uploads = [(file.filename or "an avatar", file.file.read()) for file in avatars]
        try:
            return CaseOut.of(create_case(jobs, asked, template.file.read(), uploads))
        except GenlabError as error:
            raise Refusal(422, str(error)) from error

    @router.get(
        "/test-cases/{case_id}/{name}",
        summary="A case's template, or an avatar by its name",
        response_class=Response,
        responses=IMAGES | responses(404, 422),
    )
    def image(
        request: Request,
        case_id: CaseId,
        name: Annotated[str, Path(pattern=NAME)],
        width: Annotated[Width | None, Query()] = None,
    ) -> Response:
        case = find_case(jobs, case_id)
        path = case.template if name == "template" else case.avatars.get(name)
        if path is None:
            raise Refusal(404, f"case {case_id} has no avatar {name!r}")
        assert width is None or int(width) in WIDTHS
        return serve_image(path, int(width) if width else None, request.headers)

    return router


def _scaled(region: RegionOut, scale: float) -> Region:
    return Region(**{name: round(value * scale) for name, value in region.model_dump().items()})

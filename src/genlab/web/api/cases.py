"""Routes for cases: list, show, create."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, File, Form, Request, UploadFile
from pydantic import Field, Json
from starlette.responses import Response

from genlab.benchmark.cases import Case, Swap, load_case
from genlab.benchmark.service.cases import MAX_AVATARS, CaseDraft, CaseId, find_folder, make_case
from genlab.core.errors import GenlabError
from genlab.web.api.schema import ProjectJobs
from genlab.web.images import IMAGES, Width, case_image_url, serve_image
from genlab.web.problems import Refusal, StrictModel

router = APIRouter()


class CaseOut(StrictModel):
    """A case, with the addresses of its images."""

    case_id: CaseId
    title: str
    consent: bool = Field(description="Whether all persons shown agree to this use.")
    basis: str = Field(description="What allows this use without consent; runs need either.")
    private: bool = Field(description="Whether it is a user's own case.")
    ground_truth: bool = Field(description="Whether the ideal result is known.")
    template_url: str
    avatar_urls: dict[str, str]
    swaps: list[Swap]
    licences: dict[str, str] = Field(description="Licence of each image.")

    @classmethod
    def of(cls, case: Case) -> CaseOut:
        """Describe a case."""
        return cls(
            case_id=case.case_id,
            title=case.title,
            consent=bool(case.consent),
            basis=case.basis,
            private=case.is_private,
            ground_truth=case.ideal is not None,
            template_url=case_image_url(case.case_id, "template"),
            avatar_urls={name: case_image_url(case.case_id, name) for name in case.avatars},
            swaps=case.swaps,
            licences={name: source.licence for name, source in case.sources.items()},
        )


@router.get("/test-cases", summary="List the cases")
def list_cases(jobs: ProjectJobs) -> list[CaseOut]:
    return [CaseOut.of(case) for case in jobs.cases()]


@router.post("/test-cases", status_code=201, summary="Create a private case from photographs")
def create(
    jobs: ProjectJobs,
    case: Annotated[Json[CaseDraft], Form(description="A CaseDraft as JSON.")],
    template: Annotated[UploadFile, File(description="JPEG, PNG or WebP.")],
    avatars: Annotated[
        list[UploadFile], File(description="One per region.", max_length=MAX_AVATARS)
    ],
) -> CaseOut:
    """Create a case from photographs. Its regions are in pixels of the uploaded template."""
    photographs = [(file.filename or "an avatar", file.file.read()) for file in avatars]
    try:
        new_case = make_case(jobs.cases_folder, case, template.file.read(), photographs)
    except GenlabError as error:
        raise Refusal(422, str(error)) from error
    return CaseOut.of(new_case)


@router.get(
    "/test-cases/{case_id}/{name}",
    summary="Show a case's template, or an avatar by its name",
    response_class=Response,
    responses=IMAGES,
)
def show_image(
    request: Request, jobs: ProjectJobs, case_id: CaseId, name: CaseId, width: Width | None = None
) -> Response:
    folder = find_folder(jobs.cases_folder, case_id)
    if folder is None:
        raise Refusal(404, f"there is no case {case_id}")
    case = load_case(folder)
    path = case.template if name == "template" else case.avatars.get(name)
    if path is None:
        raise Refusal(404, f"case {case_id} has no avatar {name!r}")
    return serve_image(request, path, width)

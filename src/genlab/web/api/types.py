"""Types that several routers share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

RunId = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(-[0-9]{1,6})?$", max_length=20)]
CaseId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", max_length=64)]
ToolId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_]{0,47}$", max_length=48)]
ItemId = Annotated[int, Field(ge=1, le=2**53 - 1)]


class Part(BaseModel):
    """A part of the API: no key beside those that it names, no value of another type."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

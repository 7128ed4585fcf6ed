"""The base class of all sections of params."""

from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue


class Section(BaseModel):
    """Base of all sections: frozen; unknown keys and values of another type are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def effective(self) -> dict[str, Any]:
        """Values by key, without keys at their neutral value.

        So a new parameter, at its neutral value, makes nothing stale that depends on the section.
        """
        values: dict[str, Any] = {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            extra = field.json_schema_extra
            if isinstance(extra, dict) and "neutral" in extra and value == extra["neutral"]:
                continue
            values[name] = value.effective() if isinstance(value, Section) else value
        return values


def neutral(value: JsonValue) -> dict[str, JsonValue]:
    """Declare the value of a field at which the parameter changes nothing."""
    return {"neutral": value}

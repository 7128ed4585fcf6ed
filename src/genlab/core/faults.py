"""A pydantic error as one line in the words of the file it is about."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, get_args

import annotated_types
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

WANTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list, such as [a, b]",
    "dict_type": "a section of keys and values ({} where empty)",
    "model_type": "a section of keys and values",
    "model_attributes_type": "a section of keys and values",
    "finite_number": "a finite number",
}
SIGNS = {"greater_than": ">", "greater_than_equal": ">=", "less_than": "<", "less_than_equal": "<="}


def first_fault(error: ValidationError, model: type[BaseModel]) -> str:
    """The first fault of `error` as one line; where there are more, how many."""
    # A misspelt key is also a missing one: its own line says more.
    faults = sorted(error.errors(), key=lambda fault: fault["type"] == "missing")
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return _line(faults[0], model) + more


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`"; did you mean beta_max?"`, or nothing where no known word is near."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else ""


def _line(fault: ErrorDetails, model: type[BaseModel]) -> str:
    place = [str(part) for part in fault["loc"] if part != "[key]"]
    key = ".".join(place)
    kind = fault["type"]
    section, field = _locate(place, model)
    got = f"got {fault['input']!r}"
    if kind == "value_error":  # a rule of the model itself, already in words
        return ".".join([*place, str(fault["ctx"]["error"])])
    if kind == "extra_forbidden":
        return f"{key} is not a known key{did_you_mean(place[-1], section.model_fields)}"
    if kind == "missing":
        return f"{key} is missing; add it{_meaning(field)}"
    if kind == "literal_error":
        return _not_a_choice(fault, key, field)
    if kind in SIGNS:
        return f"{key} must be {_range(fault, field)}, {got}{_meaning(field)}"
    if kind == "too_short":
        return f"{key} must hold at least {fault['ctx']['min_length']}, {got}{_meaning(field)}"
    if kind in WANTED:
        return f"{key} must be {WANTED[kind]}, {got}{_meaning(field)}"
    return f"{key}: {fault['msg'][:1].lower()}{fault['msg'][1:]}, {got}"


def _not_a_choice(fault: ErrorDetails, key: str, field: FieldInfo | None) -> str:
    choices = _choices(field.annotation) if field else []
    if not choices:
        return f"{key} must be {fault['ctx']['expected']}, got {fault['input']!r}"
    if fault["loc"][-1] == "[key]":
        return f"{key} is not a known key{did_you_mean(str(fault['input']), choices)}"
    near = did_you_mean(str(fault["input"]), choices)
    return f"{key} must be one of {', '.join(choices)}, got {fault['input']!r}{near}"


def _choices(annotation: Any) -> list[str]:
    """The words a Literal allows, also one inside `list[...]` or `dict[..., ...]`."""
    arguments = get_args(annotation)
    if arguments and all(isinstance(argument, str) for argument in arguments):
        return list(arguments)
    return _choices(arguments[0]) if arguments else []


def _locate(place: list[str], model: type[BaseModel]) -> tuple[type[BaseModel], FieldInfo | None]:
    """The section that a place lies in, and the field it belongs to."""
    section, field = model, None
    for part in place:
        field = section.model_fields.get(part, field)
        nested = field.annotation if field else None
        if part != place[-1] and isinstance(nested, type) and issubclass(nested, BaseModel):
            section = nested
    return section, field


def _range(fault: ErrorDetails, field: FieldInfo | None) -> str:
    bounds: list[str] = []
    for rule in field.metadata if field else ():
        for kind, name, sign in (
            (annotated_types.Gt, "gt", ">"),
            (annotated_types.Ge, "ge", ">="),
            (annotated_types.Lt, "lt", "<"),
            (annotated_types.Le, "le", "<="),
        ):
            if isinstance(rule, kind):
                bounds.append(f"{sign} {getattr(rule, name):g}")
    if bounds:
        return " and ".join(bounds)
    ((_, bound),) = fault["ctx"].items()
    return f"{SIGNS[fault['type']]} {bound:g}"


def _meaning(field: FieldInfo | None) -> str:
    text = field.description if field else None
    return f" ({text[:1].lower()}{text[1:].rstrip('.')})" if text else ""

"""Placeholders such as `{prompt}` in the request templates of `tools.yaml`.

A string that consists of one placeholder becomes its value, with its type; inside a longer string
the value becomes text (files as base64). A list item that contains `{avatar}` is repeated for each
avatar; elsewhere `{avatar}` is the first one, and `{avatar_2}` the second. `${NAME}` is the value
of an environment variable.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from genlab.core.errors import did_you_mean

NAMES = ("prompt", "template", "avatar", "swaps", "seed", "width", "height")
MOST_AVATARS = 99
_PLACEHOLDER = re.compile(r"(?<!\$)\{([a-z][a-z0-9_]*)\}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def check(value: Any, known: Collection[str]) -> None:
    """Raise `ValueError` where `value` contains a placeholder that is none of `known`."""
    try:
        fill(value, dict.fromkeys(known, ""), [""] * MOST_AVATARS)
    except KeyError as error:
        [name] = error.args
        fix = did_you_mean(name, known) or f"; there are {', '.join(known)}"
        raise ValueError(f"{{{name}}} is not a placeholder{fix}") from error


def fill(value: Any, values: Mapping[str, Any], avatars: Sequence[Any]) -> Any:
    """Return a copy of `value` with its placeholders replaced.

    values: by name; avatars: a value per avatar. Raises `KeyError` for `{avatar_2}` of a case with
    one avatar.
    """
    numbered = {f"avatar_{number}": avatar for number, avatar in enumerate(avatars, 1)}

    def replace(value: Any, avatar: Any) -> Any:
        known = {**values, "avatar": avatar, **numbered}
        if isinstance(value, str):
            whole = _PLACEHOLDER.fullmatch(value)
            if whole:
                return known[whole[1]]
            return _PLACEHOLDER.sub(lambda found: _text(known[found[1]]), value)
        if isinstance(value, Mapping):
            return {key: replace(item, avatar) for key, item in value.items()}
        if isinstance(value, list):
            own = [avatars if _has_avatar(item) else [avatar] for item in value]
            pairs = zip(value, own, strict=True)
            return [replace(item, each) for item, repeated in pairs for each in repeated]
        return value

    return replace(value, avatars[0])


def variables(text: str) -> list[str]:
    """The names of the environment variables in `text`."""
    return list(dict.fromkeys(_VARIABLE.findall(text)))


def expand(text: str) -> str:
    """Replace each `${NAME}` by the environment variable's value; unset ones become empty."""
    return _VARIABLE.sub(lambda found: os.environ.get(found[1], ""), text)


def to_base64(data: bytes) -> str:
    """`data` as base64 text."""
    return base64.b64encode(data).decode("ascii")


def _has_avatar(item: Any) -> bool:
    """Whether a list item contains `{avatar}`, outside of lists in it."""
    if isinstance(item, Mapping):
        return any(map(_has_avatar, item.values()))
    return isinstance(item, str) and "avatar" in _PLACEHOLDER.findall(item)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return to_base64(value)
    return value if isinstance(value, str) else json.dumps(value)

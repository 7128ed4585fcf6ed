"""YAML files that genlab alone reads: tools.yaml, case.yaml and the configs of the agent's models.

PyYAML reads and writes them, in C where libyaml is there. By default it follows YAML 1.1, in which
`on` is true, `010` is 8, `1:30` is 90 and `1e-3` is text. Numbers and truth values are read by
YAML 1.2 instead, as in params.yaml, so that a value means the same in every file.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import yaml

from genlab.core.io import read_yaml

MAX_DEPTH = 100  # of lists and mappings within each other; libyaml overflows the stack far above
TAG = "tag:yaml.org,2002:"
SCALARS = {
    "bool": ("true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": ("[-+]?([0-9][0-9_]*|0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+)", "-+0123456789"),
    "float": (
        r"[-+]?([0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?|\.[0-9]+([eE][-+]?[0-9]+)?"
        r"|\.(inf|Inf|INF))|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
}
"""Patterns of unquoted scalars in YAML 1.2 and the characters that they begin with, by type.

The first pattern that matches counts. Binary numbers and underscores are read as ruamel.yaml does.
"""
BASES = {"0b": 2, "0o": 8, "0x": 16}


class ConfigLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """PyYAML's safe loader with the numbers and truth values of YAML 1.2.

    A duplicate key is an error.
    """

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, pattern) for tag, pattern in rules if tag.removeprefix(TAG) not in SCALARS]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_integer(self, node: yaml.ScalarNode) -> int:
        """Read a whole number: decimal, with leading zeros too, or with its base as a prefix."""
        digits = self.construct_scalar(node).replace("_", "").lower()
        return int(digits, BASES.get(digits.lstrip("+-")[:2], 10))

    def construct_unique_mapping(self, node: yaml.MappingNode) -> dict[Any, Any]:
        """Read a mapping. Raises a ConstructorError for a key that stands in it twice."""
        keys = set[str]()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in keys:
                    fault = f"found duplicate key {key.value!r}"
                    raise yaml.constructor.ConstructorError(None, None, fault, key.start_mark)
                keys.add(key.value)
        return dict(self.construct_mapping(node, deep=True))


class ConfigDumper(yaml.SafeDumper):  # type: ignore[misc]
    """PyYAML's safe dumper, which quotes text that YAML 1.1 or 1.2 would not read as text."""


for _name, (_pattern, _first) in SCALARS.items():
    for _class in (ConfigLoader, ConfigDumper):
        _class.add_implicit_resolver(TAG + _name, re.compile(f"^(?:{_pattern})$"), list(_first))
ConfigLoader.add_constructor(f"{TAG}int", ConfigLoader.construct_integer)
ConfigLoader.add_constructor(f"{TAG}map", ConfigLoader.construct_unique_mapping)


def parse_config(text: str) -> Any:
    """Parse YAML. Raises a ValueError for invalid YAML, objects of Python and deep nesting."""
    try:
        depth = 0
        for event in yaml.parse(text, ConfigLoader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise ValueError(f"nested more than {MAX_DEPTH} levels deep")
        return yaml.load(text, ConfigLoader)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    except (AttributeError, KeyError) as error:
        raise ValueError("a tag such as !!bool does not fit its value") from error


def read_config(path: str | Path) -> dict[str, Any]:
    """Read a mapping from a YAML file. Raises a `GenlabError` of one line."""
    return read_yaml(path, parse_config)


def format_config(value: Mapping[str, Any]) -> str:
    """Write plain values as YAML in block style, which YAML 1.1 and 1.2 read alike."""
    text: str = yaml.dump(dict(value), Dumper=ConfigDumper, sort_keys=False, allow_unicode=True)
    return text

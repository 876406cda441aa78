"""YAML that :mod:`hookgw.config.yaml_reader` reads as the same values. No I/O.

PyYAML's own writer follows YAML 1.1, in which ``1e5`` is a text.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import yaml

from hookgw.config.yaml_reader import read_scalar


class _Dumper(yaml.SafeDumper):
    """Writes each value where it stands: an alias would be hard to edit."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 -- PyYAML's signature
        return True


class _Plain(str):
    """A text that is written without quotes."""


def _write_text(dumper: Any, value: str) -> Any:
    # What the reader takes for text may be a number, null or true without quotes, and the reverse.
    is_plain = read_scalar(value) == value and "${" not in value and value.isprintable()
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if is_plain else '"')


_Dumper.add_representer(
    _Plain, lambda dumper, value: dumper.represent_scalar("tag:yaml.org,2002:str", str(value), style="")
)
_Dumper.add_representer(str, _write_text)


def write_document(document: Any, plain: Collection[str] = (), *, in_ascii: bool = False) -> str:
    """Return a document as YAML.

    Args:
        plain: texts to write without quotes: references to values that are no texts.
        in_ascii: whether to escape all other characters.
    """

    def prepared(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: prepared(one) for name, one in value.items()}
        if isinstance(value, list):
            return [prepared(one) for one in value]
        return _Plain(value) if isinstance(value, str) and value in plain else value

    text: str = yaml.dump(
        prepared(document), Dumper=_Dumper, sort_keys=False, allow_unicode=not in_ascii, width=10**6
    )
    # PyYAML leaves some that turn a line of a terminal around. Texts with one are in double quotes.
    return "".join(one if one.isprintable() or one == "\n" else f"\\U{ord(one):08X}" for one in text)

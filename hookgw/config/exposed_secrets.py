"""Secrets that stand in a configuration file which others can read."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hookgw.config.yaml_reader import join, read_yaml

_SECRET_KEYS = frozenset(
    {"global_key", "key_password", "master_key", "old_master_keys", "secret", "headers", "proxy"}
)


def exposed_secrets(path: Path) -> list[str]:
    """The keys whose secrets others can read in a configuration file.

    Args:
        path: a file that was read as a configuration.

    Returns:
        Their paths. Empty where the file is its owner's and its group's alone to read, or has no secret in
        it: a value that comes from the environment (``${NAME}``) is none.

    Raises:
        OSError: the file cannot be read.
    """
    if not path.stat().st_mode & stat.S_IROTH:
        return []
    return list(_secrets_in(read_yaml(path.read_text("utf-8-sig")).value, ""))


def _secrets_in(value: Any, path: str, *, is_secret: bool = False) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _secrets_in(item, join(path, key), is_secret=is_secret or key in _SECRET_KEYS)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _secrets_in(item, join(path, index), is_secret=is_secret)
    elif value and "${" not in str(value) and (is_secret or _has_password(str(value))):
        yield path


def _has_password(text: str) -> bool:
    """Whether a text is a URL with a user or a password."""
    scheme, mark, rest = text.partition("://")
    return bool(scheme and mark) and "@" in rest.partition("/")[0]

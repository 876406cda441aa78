"""Secrets in files that environment variables name: ``HOOKGW_GLOBAL_KEY_FILE=/run/secrets/key``.

Docker and Kubernetes mount secrets as files, and images take the variable with ``_FILE`` behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_origin

import msgspec

from hookgw.config.typed import KeyInfo

SUFFIX = "_FILE"
_LARGEST = 2**16
"""Bytes. A wrong path must not fill the memory."""

_SECRETS = frozenset({"global_key", "key_password", "old_master_keys", "secret"})
# URLs may have a password in them. The key storage.master_key_file is as old as storage.master_key.
_URLS = frozenset({"storage.url", "delivery.proxy", "operations.url"})


def may_be_in_file(key: KeyInfo) -> bool:
    return key.path in _URLS or key.path.rpartition(".")[2] in _SECRETS


def with_files(
    environ: Mapping[str, str],
    secrets: Mapping[str, Any],
    report: Callable[[str, str], None],
) -> dict[str, str]:
    """Return the environment with the contents of files instead of their names.

    Beside ``X``, the environment may have ``X_FILE``; empty counts as missing.

    Args:
        secrets: the types of the secrets, by the names of their variables.
        report: called with a variable and a sentence for each mistake. No sentence has a content.
    """
    found = dict(environ)
    for variable, kind in secrets.items():
        name = found.pop(variable + SUFFIX, "")
        if not name:
            continue
        if environ.get(variable):
            report(variable + SUFFIX, f"{variable} is set, too: remove one of them.")
            continue
        try:
            text = read_secret(name)
        except ValueError as error:
            report(variable + SUFFIX, f"{error}")
            continue
        if get_origin(kind) is tuple:  # one in each line
            text = msgspec.json.encode([line for line in text.splitlines() if line]).decode()
        found[variable] = text
    return found


def read_secret(file: str | Path) -> str:
    """Return the secret in a file.

    Raises:
        ValueError: with a sentence, which has nothing of the content.
    """
    try:
        with Path(file).open("rb") as opened:
            content = opened.read(_LARGEST + 1)
        text = content.decode("utf-8")
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8: it should have the secret as text.") from error
    # One newline, which editors and `echo` add: other white space may be part of a password.
    text = text.removesuffix("\n").removesuffix("\r")
    if not text or len(content) > _LARGEST or "\0" in text:
        raise ValueError(f"{file} has no secret in it: it is empty, too large, or no text.")
    return text

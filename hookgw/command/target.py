"""Finds a command's gateway and key: from options, environment, profiles, in this order."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import click

from hookgw.command.failure import Failed
from hookgw.command.output import say
from hookgw.command.profiles import NoHome, Profile, load_profiles, profiles_file
from hookgw.kernel.language import gettext as _

DEFAULT_SERVER = "http://127.0.0.1:8080"


class Target(NamedTuple):
    """Where requests go, with which key, and what gave it: an option, a variable, a profile or a file."""

    server: str
    key: str | None
    source: str = ""


Source = tuple[str, Callable[[], str | None]]
"""The name of what may have a key, and what reads it."""


def find_target(
    server: str | None,
    key: str | None,
    key_file: Path | None,
    profile: str | None,
    environ: Mapping[str, str] = os.environ,
) -> Target:
    """Decide where a command's requests go.

    Options come before the environment, the environment before the profile in use, and that before the
    default. A profile that ``--profile`` names is an option: it comes before the environment as a whole, so
    that a leftover variable does not redirect a command. A profile's key is sent only to the profile's URL.

    Raises:
        click.UsageError: options, or variables, contradict each other.
        Failed: a key or the profiles cannot be read, a key is not valid, or there is no such profile.
    """
    if key is not None and key_file is not None:
        raise click.UsageError(_("Give either --key or --key-file."))
    if profile is not None and server is not None:
        raise click.UsageError(_("Give either --server or --profile."))
    url, name = environ.get("HOOKGW_URL") or None, environ.get("HOOKGW_PROFILE") or None
    if profile is None and server is None and url is not None and name is not None:
        raise click.UsageError(_("HOOKGW_URL and HOOKGW_PROFILE are both set. Unset one of them."))
    found: Profile | None = None
    if profile is not None or (server is None and url is None):
        name = profile or name
        try:
            file = profiles_file(environ)
        except NoHome:
            if name is not None:
                raise
        else:
            profiles = load_profiles(file)
            name = name or profiles.use
            found = None if name is None else profiles.named(name, file)
    # In this order; a file is read only if nothing before it has a key.
    key_path = environ.get("HOOKGW_KEY_FILE")
    from_environment: tuple[Source, ...] = (
        ("HOOKGW_KEY", lambda: check_key(environ.get("HOOKGW_KEY", ""), "HOOKGW_KEY")),
        (f"the file {key_path} (HOOKGW_KEY_FILE)", lambda: key_from_file(key_path)),
    )
    stored = found or Profile(url="")
    from_profile: tuple[Source, ...] = (
        (f"the profile {name!r}", lambda: check_key(stored.key or "", f"the profile {name!r}")),
        (f"the file {stored.key_file} of the profile {name!r}", lambda: key_from_file(stored.key_file)),
    )
    rest = (*from_profile, *from_environment) if profile is not None else (*from_environment, *from_profile)
    options: tuple[Source, ...] = (
        ("--key", lambda: None if key is None else _read_key(key)),
        (f"the file {key_file} (--key-file)", lambda: key_from_file(key_file)),
    )
    address = found.url if found is not None else server or url or DEFAULT_SERVER
    for source, read in (*options, *rest):
        if own := read():
            return Target(address, own, source)
    return Target(address, None)


def check_key(text: str, source: str) -> str:
    """Return a key without a byte order mark and without space around it; empty if it is missing.

    The message names the source, and never repeats the key.

    Raises:
        Failed: no header can contain it.
    """
    key = text.strip().removeprefix("\ufeff").strip()
    if not (key.isascii() and key.isprintable()):
        raise Failed(
            _(
                "The key from {source} is not valid: a key is one line of printable ASCII characters.",
                source=source,
            )
        )
    return key


def key_from_file(file: str | Path | None) -> str | None:
    """Return the key in a file; ``None`` without one. Raise ``Failed`` if it cannot be read or has no key."""
    if not file:
        return None
    try:
        text = Path(file).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError, RuntimeError) as error:  # the last for "~" without a home
        reason = getattr(error, "strerror", None) or error
        raise Failed(_("The key cannot be read from {file}: {error}.", file=file, error=reason)) from error
    key = check_key(text, str(file))
    if not key:
        raise Failed(_("{file} contains no key.", file=file))
    return key


def _read_key(given: str) -> str:
    if given != "-":
        say(
            _(
                "Warning: other users of this machine can see a key on the command line. Use "
                "HOOKGW_KEY, --key-file FILE, --key - or a profile."
            ),
            err=True,
        )
        return check_key(given, "--key")
    key = check_key(read_secret_line("Key"), "standard input")
    if not key:
        raise Failed(_("There is no key on standard input."))
    return key


def read_secret_line(prompt: str) -> str:
    """Return a line of standard input; a terminal does not show the typed text."""
    if sys.stdin.isatty():
        typed: str = click.prompt(prompt, hide_input=True, err=True)
        return typed.strip()
    # The bytes: a text stream would read ahead, and what follows may be a command's data.
    return sys.stdin.buffer.readline().decode(errors="surrogateescape").strip()

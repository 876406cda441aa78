"""Profiles: a person's gateways, with their addresses and keys, in one private file."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import click
import msgspec

from hookgw.command.failure import Failed
from hookgw.config.yaml_reader import read_yaml
from hookgw.config.yaml_writer import write_document
from hookgw.kernel.language import gettext as _
from hookgw.kernel.masking import repr_without


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One gateway.

    Attributes:
        url: as for ``--server``.
        key_file: a file that contains the key, instead of ``key``.
    """

    url: str
    key: str | None = None
    key_file: str | None = None

    __repr__ = repr_without("key")


class Profiles(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The content of the file. ``use`` is the profile of commands if no option or variable names one."""

    use: str | None = None
    profiles: dict[str, Profile] = {}

    def named(self, name: str, file: Path) -> Profile:
        if name not in self.profiles:
            known = ", ".join(sorted(self.profiles))
            others = _("Known profiles: {known}.", known=known) if known else _("There are no profiles yet.")
            raise Failed(_("There is no profile {name!r} in {file}.", name=name, file=file) + f" {others}")
        return self.profiles[name]


class NoHome(Failed):
    """There is no place for profiles, as in a container with any user id. So there are none."""


def profiles_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the file, whether or not it exists.

    Raises:
        NoHome: this user has no home folder.
    """
    given = Path(environ.get("XDG_CONFIG_HOME", ""))
    # Relative paths in this variable are to be ignored, says the XDG Base Directory Specification.
    try:
        folder = given if given.is_absolute() else Path.home() / ".config"
    except RuntimeError:
        raise NoHome(
            "There is no folder for profiles: HOME is not set, and this user has no passwd entry. "
            "Set HOME or XDG_CONFIG_HOME."
        ) from None
    return folder / "hookgw" / "profiles.yaml"


def load_profiles(file: Path) -> Profiles:
    """Read the file; without one, there are no profiles.

    Raises:
        Failed: other users can read the file, or its content is wrong.
    """
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return Profiles()
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(
            _("{file} cannot be read: {error}.", file=file, error=getattr(error, "strerror", None) or error)
        ) from error
    if hasattr(os, "geteuid") and mode & 0o077:  # on Windows, modes say nothing of other users
        from hookgw.config.file_permissions import keeps_modes  # of Unix alone

        if not keeps_modes(file.parent):
            raise Failed(
                _(
                    "{file} contains keys, and other users can access it: the file system gives all files "
                    "one mode ({mode}), which chmod does not change. Set XDG_CONFIG_HOME to a folder of "
                    "another file system, or set the mode where this one is mounted, such as umask=077.",
                    file=file,
                    mode=f"{mode:04o}",
                )
            )
        raise Failed(
            _(
                "{file} contains keys, and other users can access it (mode {mode}). Run: chmod 600 {path}",
                file=file,
                mode=f"{mode:04o}",
                path=shlex.quote(str(file)),
            )
        )
    document = read_yaml(text)
    if document.problems:
        raise Failed(
            *(
                _("{file}, line {line}: {sentence}", file=file, line=problem.line, sentence=problem.sentence)
                for problem in document.problems
            )
        )
    try:
        return msgspec.convert(document.value or {}, Profiles)
    except msgspec.ValidationError as error:
        raise Failed(
            _("{file} is not valid: {error}.", file=file, error=error)
        ) from None  # the value may be a key: show none


def save_profiles(file: Path, profiles: Profiles) -> None:
    """Replace the file in one step; only its owner can read it. Raise ``Failed``."""
    content = write_document(msgspec.to_builtins(profiles))
    draft = file.with_name(f"{file.name}.{os.getpid()}.new")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # With its mode from the beginning: a chmod afterwards would leave a moment in which others can read.
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as new:
            new.write(content)
        draft.replace(file)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise Failed(
            _("{file} cannot be written: {error}.", file=file, error=error.strerror or error)
        ) from error


def complete_profiles(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    try:
        names = load_profiles(profiles_file()).profiles
    except Failed:
        return []
    return [name for name in sorted(names) if name.startswith(incomplete)]

"""Who else can write to what hookgw runs or trusts: its data file, and the folders of its plugins.

Whoever writes there is hookgw, so a file or folder that others can write to is refused, as ``sshd`` refuses
such keys. ``docs/configuration.md`` has the rule, under "Files that others can write to".
"""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

OwnGroup = Callable[[int, int], bool]


def writable_by_others(path: Path, *, trusted: frozenset[int], own_group: OwnGroup) -> str | None:
    """Why a file or folder cannot be trusted, as a sentence with the command that mends it.

    It must belong to a trusted user. Nobody else may write to it: others never, its group only where
    the owner is alone in it (then git and ``umask 002`` made it so, and it means nothing).

    Args:
        path: what exists; symbolic links are followed.
        trusted: the numbers of the users whose files are as good as ours.
        own_group: whether a group, by number, is a user's own, by number.

    Returns:
        ``None`` where it can be trusted.

    Raises:
        OSError: it cannot be looked at.
    """
    status = path.stat()
    if status.st_uid not in trusted:
        mend = f"chown {_name_of_user(os.geteuid())} {shlex.quote(str(path))}"
        return f"{path} belongs to {_name_of_user(status.st_uid)}, who can write to it. Run: {mend}"
    if status.st_mode & stat.S_IWOTH:
        return f"{path} can be written to by every user. Run: chmod o-w {shlex.quote(str(path))}"
    if status.st_mode & stat.S_IWGRP and not own_group(status.st_gid, status.st_uid):
        group = _name_of_group(status.st_gid)
        return f"{path} can be written to by the group {group}. Run: chmod g-w {shlex.quote(str(path))}"
    return None


def replaceable_by_others(path: Path) -> str | None:
    """Why what is at a path could be taken away by others: a folder above it is open to every user.

    A folder with the sticky bit, such as ``/tmp``, is not: there everybody can remove only what is theirs.

    Returns:
        A sentence with the command that mends it, or ``None``.

    Raises:
        OSError: a folder cannot be looked at.
    """
    for folder in path.resolve().parents:
        mode = folder.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            mend = f"chmod o-w {shlex.quote(str(folder))}"
            return f"{path} can be replaced by every user, who can write to {folder}. Run: {mend}"
    return None


def first_trouble(paths: Iterable[Path]) -> str | None:
    """Why one of some files or folders cannot be trusted, with the users and groups of this system.

    Args:
        paths: those to look at; one that does not exist is passed over.

    Returns:
        The first reason of :func:`writable_by_others` or :func:`replaceable_by_others`, or ``None``.

    Raises:
        OSError: one cannot be looked at.
    """
    trusted, folders = trusted_users(), set()
    for path in paths:
        with suppress(FileNotFoundError):
            if reason := writable_by_others(path, trusted=trusted, own_group=is_own_group):
                return reason
            parent = path.resolve().parent
            if parent not in folders and (reason := replaceable_by_others(path)):
                return reason
            folders.add(parent)
    return None


def everything_in(folder: Path) -> Iterator[Path]:
    """A folder and all files and folders below it, also through symbolic links, each once.

    Raises:
        OSError: a folder cannot be read.
    """
    seen, waiting = set(), [folder]
    while waiting:
        path = waiting.pop()
        real = path.resolve()
        if real not in seen:
            seen.add(real)
            yield path
            waiting += sorted(path.iterdir(), reverse=True) if path.is_dir() else ()


def trusted_users() -> frozenset[int]:
    """Root, ourselves, and whoever installed hookgw: it is their code that runs here anyway."""
    return frozenset((0, os.geteuid(), Path(__file__).stat().st_uid))


@cache
def is_own_group(gid: int, uid: int) -> bool:
    """Whether a group is a user's own: its first group, of the same name, with nobody else in it.

    Where the system does not know the two by name, as in many containers, their numbers must be the same.
    """
    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return gid == uid
    return user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _name_of_user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _name_of_group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)

"""Files that others can write to or read: the data file, plugin folders, and secrets in the configuration.

A user who can write to the data file or to a plugin controls hookgw, so hookgw refuses such files, as
``sshd`` refuses such keys. All functions raise ``OSError`` if a path cannot be examined.
``docs/configuration.md`` describes the rule, under "Files that others can write to".
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import shlex
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from hookgw.config.yaml_reader import join, read_yaml

_FIRST_PERSON, _NOBODY = 1_000, 65_534
"""The ids of users who may be people."""

_CHANGES_NOTHING = (
    "changes nothing there: the file system gives all files one owner and one mode, as those of Windows do."
)

OwnGroup = Callable[[int, int], bool]

# By their form, because plugins name their options. `key` alone is the path of a file.
_SECRET_KEYS = re.compile(
    r".*(password|token|secret)|(?!routing|public).+key|old_master_keys|headers|proxy", re.IGNORECASE
)


def writable_by_others(path: Path, *, trusted: frozenset[int], own_group: OwnGroup) -> str | None:
    """Check that only trusted users can write to a file or folder. Symbolic links are followed.

    Args:
        trusted: the ids of the users who may own the file.
        own_group: returns whether a group id is the private group of a user id.

    Returns:
        A sentence with the command that fixes it, or with another place; ``None`` if the file can be trusted.
    """
    status = path.stat()
    mode, quoted, folder = status.st_mode, shlex.quote(str(path)), path if path.is_dir() else path.parent
    # Under umask 002, common where each user has a private group, git and pip make group-writable files.
    is_shared = mode & stat.S_IWGRP and not own_group(status.st_gid, status.st_uid)
    if status.st_uid in trusted and not mode & stat.S_IWOTH and not is_shared:
        return None
    if is_read_only(path):
        return None
    if status.st_uid not in trusted:
        fix = f"chown {_name_of_user(os.geteuid())} {quoted}"
        reason = f"{path} belongs to {_name_of_user(status.st_uid)}, who can write to it."
        return f"{reason} {_way(fix, folder, may_run=os.geteuid() == 0)}"
    if shared_by_all(path):
        return f"{path} is a shared folder. Use a folder of its own, such as {path / 'hookgw'}."
    may_run = os.geteuid() in (0, status.st_uid)
    if mode & stat.S_IWOTH:
        way = _way(f"chmod o-w {quoted}", folder, may_run=may_run)
        return f"{path} can be written to by every user. {way}"
    try:
        group = grp.getgrgid(status.st_gid).gr_name
    except KeyError:
        group = str(status.st_gid)
    way = _way(f"chmod g-w {quoted}", folder, may_run=may_run)
    return f"{path} can be written to by the group {group}. {way}"


def _way(command: str, folder: Path, *, may_run: bool) -> str:
    """Return how to fix it: in a container, this process's user can often not run a command."""
    if not keeps_modes(folder):
        return (
            f"{command.partition(' ')[0]} {_CHANGES_NOTHING} Use a folder of another file system, such as "
            "a volume of Docker; mount what hookgw only reads as read-only; or set the owner and the mode "
            "where it is mounted, such as uid=0,umask=077."
        )
    if may_run:
        return f"Run: {command}"
    return (
        f"This process may not run {command}: let the owner run it, or use a folder that belongs to this "
        "process. In Kubernetes, set securityContext.fsGroup, or mount what hookgw only reads with readOnly."
    )


def keeps_modes(folder: Path) -> bool:
    """Return whether a new file there has the mode that it was made with; also if none can be made."""
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            return not os.fstat(probe.fileno()).st_mode & 0o077
    except OSError:
        return True


def is_read_only(path: Path) -> bool:
    """Return whether a path is on a read-only mount, where no mode allows writing."""
    return os.statvfs(path).f_flag & os.ST_RDONLY != 0


def shared_by_all(path: Path) -> bool:
    """Return whether a path is a folder that every user can write to by intent: it has the sticky bit."""
    mode = path.stat().st_mode
    is_shared = stat.S_ISDIR(mode) and mode & stat.S_IWOTH != 0 and mode & stat.S_ISVTX != 0
    return is_shared and not is_read_only(path)


def replaceable_by_others(path: Path) -> str | None:
    """Check that no folder above a path is writable by every user.

    Return a sentence with the command that fixes it; ``None`` if others cannot replace the file.
    """
    for folder in path.resolve().parents:
        mode = folder.stat().st_mode
        # With the sticky bit, as /tmp has it, users can remove only their own files.
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX and not is_read_only(folder):
            fix = f"chmod o-w {shlex.quote(str(folder))}"
            may_run = os.geteuid() in (0, folder.stat().st_uid)
            reason = f"{path} can be replaced by every user, who can write to {folder}."
            return f"{reason} {_way(fix, folder, may_run=may_run)}"
    return None


def first_trouble(paths: Iterable[Path]) -> str | None:
    """Return the first sentence about any of these files and folders, if there is one.

    Missing ones are skipped. The users and groups are this system's.
    """
    trusted, checked = trusted_users(), set()
    for path in paths:
        # A file can vanish between listing and looking: SQLite removes its -wal and -shm files.
        with suppress(FileNotFoundError):
            if reason := writable_by_others(path, trusted=trusted, own_group=is_own_group):
                return reason
            # A plugin folder may have thousands of files; the folders above are the same for all of them.
            parent = path.resolve().parent if path.is_symlink() else path.parent
            if parent not in checked and (reason := replaceable_by_others(path)):
                return reason
            checked.add(parent)
    return None


def everything_in(folder: Path) -> Iterator[Path]:
    """Yield a folder and everything below it, also through symbolic links, each path once."""
    # Path.rglob does not follow links to folders, but imports do. A link can form a cycle.
    # Only links are resolved: each call looks at every folder above, which took a tenth of a start.
    seen, waiting = set(), [(folder, folder.resolve(), folder.is_dir())]
    while waiting:
        path, real, is_folder = waiting.pop()
        if real in seen:
            continue
        seen.add(real)
        yield path
        if is_folder:
            with os.scandir(path) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name, reverse=True):
                    below = path / entry.name
                    # Path.resolve() has a RuntimeError for links in a circle before Python 3.13.
                    target = Path(os.path.realpath(below)) if entry.is_symlink() else real / entry.name
                    waiting.append((below, target, entry.is_dir()))


def trusted_users() -> frozenset[int]:
    """Return the ids of root, of this process's user, and of the user who installed hookgw."""
    # The owner of this very file could change the code that is running: refusing that user protects nothing.
    # In the single binary, modules are no files.
    code = Path(sys.executable if getattr(sys, "frozen", False) else __file__)
    return frozenset((0, os.geteuid(), code.stat().st_uid))


@cache
def is_own_group(gid: int, uid: int) -> bool:
    """Return whether only trusted users are in a group.

    These are a user's private group (primary, with the same name, and no other members; if the system does
    not know their names, as in many containers, the two ids must be equal), and a group of this process (such
    as the ``fsGroup`` of a volume) in which the system knows no other user.
    """
    if gid in {os.getegid(), *os.getgroups()} and not _has_other_members(gid, os.geteuid()):
        return True
    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return gid == uid
    return user.pw_gid == gid and group.gr_name == user.pw_name and not _has_other_members(gid, uid)


def _has_other_members(gid: int, uid: int) -> bool:
    """Return whether a person or program beside a user, and root, is in a group."""
    with suppress(KeyError):
        if set(grp.getgrgid(gid).gr_mem) - {_name_of_user(uid), "root"}:
            return True
    # Not in the list of members: those whose first group it is. Below 1000 are the users of the system, some
    # of them in the group root.
    return any(
        user.pw_gid == gid and _FIRST_PERSON <= user.pw_uid < _NOBODY and user.pw_uid != uid
        for user in pwd.getpwall()
    )


def _name_of_user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def way_to_hide(path: Path) -> str:
    """Return how to keep other users from reading a file that this process must still be able to read."""
    if not keeps_modes(path.parent):
        return (
            f"chmod {_CHANGES_NOTHING} Take the secrets from the environment, or set the mode where it is "
            "mounted, such as umask=077."
        )
    status, quoted = path.stat(), shlex.quote(str(path))
    is_ours = os.geteuid() in (0, status.st_uid)
    if is_ours or (status.st_mode & stat.S_IRGRP and status.st_gid in {os.getegid(), *os.getgroups()}):
        return f"chmod o-r {quoted}"
    return (
        "This process reads it as one of the others: give the file a group of this process, with chgrp and "
        f"(under systemd) SupplementaryGroups=, and run: chmod g+r,o-r {quoted}"
    )


def exposed_secrets(path: Path) -> list[str]:
    """Return the paths of the secrets in a configuration file that other users can read.

    Values from the environment (``${NAME}``) are not secrets of the file.
    """
    if not path.stat().st_mode & stat.S_IROTH:
        return []
    return list(_secrets_in(read_yaml(path.read_text("utf-8-sig")).value, ""))


def _secrets_in(value: Any, path: str, *, is_secret: bool = False) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _secrets_in(
                item, join(path, key), is_secret=is_secret or bool(_SECRET_KEYS.fullmatch(key))
            )
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _secrets_in(item, join(path, index), is_secret=is_secret)
    elif value and "${" not in str(value):
        # Any key may hold a URL with a user or a password.
        scheme, mark, rest = str(value).partition("://")
        if is_secret or (scheme and mark and "@" in rest.partition("/")[0]):
            yield path

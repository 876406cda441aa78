"""New keys: their values are stored before they open anything.

A value is made here, stored where the document says, and only then sent to hookgw, which keeps its hash. So
one that nobody has never opens anything, and one that hookgw knows is never lost: a file gets it under the
name with ``.new`` first, and an apply that was killed finds it there again.
"""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from hookgw.command.failure import Failed

COMMAND_WITHIN = 60.0
"""Seconds that a command has to store a key."""
PENDING = ".new"
LEAST = 32
"""Characters of a key that counts as complete."""
MOMENT = 0.2
"""Seconds that another apply has to write a value."""
STALE = 60.0
"""Seconds after which an incomplete file is nobody's: to write it takes no time."""


class KeyPlace:
    """Where the value of a new key goes.

    Args:
        fields: of the key in the document.
        folder: that relative paths refer to.
    """

    def __init__(self, name: str, fields: dict[str, Any], folder: Path) -> None:
        self.name = name
        self.value: str | None = fields.get("value")
        file = fields.get("file")
        self._file = None if file is None else folder / Path(file).expanduser()
        self._command: str | None = fields.get("command")
        self._folder = folder

    def pending(self) -> str | None:
        """Return the value that an earlier apply has stored, and that hookgw may know or not."""
        if self._file is None or self.value is not None:
            return None
        try:
            found = self._pending_file().read_text("ascii")
        except (OSError, UnicodeDecodeError):
            return None  # `store` says what is wrong
        return found.strip() if found.endswith("\n") and len(found) > LEAST else None

    def _pending_file(self) -> Path:
        assert self._file is not None  # noqa: S101 -- the callers have checked it
        return self._file.with_name(self._file.name + PENDING)

    def store(self) -> str:
        """Store a new value, or find the one that an earlier apply has stored. Return it.

        Raises:
            Failed: it was not stored.
        """
        if self.value is not None:
            return self.value
        if self._file is not None:
            return self.pending() or self._store_in_file(self._pending_file())
        if self._command is not None:
            value = secrets.token_urlsafe(32)
            self._run(self._command, value)
            return value
        raise Failed("Give it file or command, where its value goes: hookgw cannot show it again.")

    def settle(self, value: str, *, is_created: bool) -> None:
        """Put a value into its file, once hookgw knows it; or forget it, if hookgw refused it.

        Raises:
            Failed: the file could not be written; the message says where the value is.
        """
        if self._file is None or self.value is not None:
            return
        pending = self._pending_file()
        try:
            if is_created:
                # Not renamed: by now, the pending file may be another apply's, whose value hookgw refuses.
                descriptor, part = tempfile.mkstemp(prefix=f".{self._file.name}.", dir=self._file.parent)
                try:
                    _write(descriptor, value)
                    Path(part).replace(self._file)
                except OSError:
                    Path(part).unlink()
                    raise
            if self.pending() == value:
                pending.unlink(missing_ok=True)
        except OSError as error:
            raise Failed(
                f"The key is in {pending}: {self._file} cannot be written ({error.strerror})."
            ) from error

    def _store_in_file(self, pending: Path) -> str:
        value = secrets.token_urlsafe(32)
        try:
            pending.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if pending.exists() and time.time() - pending.stat().st_mtime > STALE:
                pending.unlink()  # an apply was killed while it wrote this: hookgw does not know it
            # Exclusive: another apply may be at work, and both must send the same value.
            descriptor = os.open(pending, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            if isinstance(error, FileExistsError) and pending.parent.is_dir():
                time.sleep(MOMENT)
                if not pending.exists():
                    return self._store_in_file(pending)
            if (found := self.pending()) is not None:
                return found
            why = "another apply writes it" if pending.exists() else error.strerror or error
            raise Failed(f"{pending} cannot be written: {why}. The key was not created.") from error
        try:
            _write(descriptor, value)
        except OSError as error:
            pending.unlink(missing_ok=True)
            why = error.strerror or error
            raise Failed(f"{pending} cannot be written: {why}. The key was not created.") from error
        return value

    def _run(self, command: str, value: str) -> None:
        try:
            # Without a shell: a text is divided into words as one does it, and nothing in it is expanded.
            done = subprocess.run(  # noqa: S603 -- the file is the user's own
                shlex.split(command),
                input=f"{value}\n".encode(),
                stdout=subprocess.DEVNULL,
                env={**os.environ, "HOOKGW_KEY_NAME": self.name},
                cwd=self._folder,
                timeout=COMMAND_WITHIN,
                check=False,
            )
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            why = "took too long" if isinstance(error, subprocess.TimeoutExpired) else f"cannot run: {error}"
            raise Failed(f"Its command {why}. The key was not created.") from error
        if done.returncode:
            raise Failed(f"Its command failed with exit code {done.returncode}. The key was not created.")


def _write(descriptor: int, value: str) -> None:
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{value}\n")
        file.flush()
        os.fsync(file.fileno())

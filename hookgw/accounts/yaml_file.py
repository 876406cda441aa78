"""Reads a document of ``apply`` from a YAML file, with the place of everything in it.

``${NAME}`` is a variable of the environment, ``${file:PATH}`` the text of a file beside the document. The
server never sees either: it gets the values, and its messages name paths, which are found again here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from hookgw.command.failure import Failed
from hookgw.config.load import expand
from hookgw.config.secret_files import read_secret
from hookgw.config.yaml_reader import Document, Problem, read_yaml
from hookgw.kernel.masking import SHORTEST, mask_secrets

MAX_FILE = 16 * 2**20
"""Bytes. A wrong path, such as a backup's, must not fill the memory."""
_MOST_WORDS = 8
_END = re.compile(r"[^\w.\[\]@-]")


class FileWrong(Failed):
    """The file has mistakes; nothing was changed."""

    exit_code = 2


class AccountsFile:
    """A document that was read from a file.

    Attributes:
        body: for ``POST /apply``; an empty object if it cannot be read.
        folder: that relative paths in it refer to.
        problems: found without the server.
    """

    def __init__(self, name: str, text: str, folder: Path, environ: Mapping[str, str]) -> None:
        self.name = name
        self.folder = folder
        self._secrets: set[str] = set()
        self._unread = 0
        self._document: Document = read_yaml(text, lambda one: self._expand(one, environ), anchors=True)
        self.problems = list(self._document.problems)
        self.body: dict[str, Any] = {}
        if isinstance(self._document.value, dict):
            self.body = self._document.value
        elif not self.problems:
            self.problems.append(
                Problem("", 1, "the file has no mapping: write instances: and their names.", 1)
            )

    @property
    def may_be_asked(self) -> bool:
        """Whether to ask the server for further mistakes: only values are missing, not structure."""
        return bool(self.body) and len(self.problems) == self._unread

    def _expand(self, text: str, environ: Mapping[str, str]) -> str:
        if "${" not in text:
            return text
        try:
            found = expand(text, environ, lambda file: read_secret(self.folder / Path(file).expanduser()))
        except ValueError:
            self._unread += 1
            raise
        # What a reference stands for: the text around it may be anything.
        self._secrets |= {part for part in _inserted(text, found) if len(part) >= SHORTEST}
        return found

    def masked(self, text: str) -> str:
        """Return a text without the values that references stand for."""
        return mask_secrets(text, self._secrets)

    def mistakes(self, messages: Iterable[str] = ()) -> list[str]:
        """Return the problems of the file, and the server's messages about it, in the file's order."""
        found = [(one.line or 0, one.column or 0, one.path, one.sentence) for one in self.problems]
        known = {path for _, _, path, _ in found}
        for message in messages:
            path = self._path_in(message)
            if path in known and path:
                continue  # its value could not be read, which was said
            line, column = self._document.find(path) or (0, 0)
            found.append((line, column, "", message))
        return [
            self.masked(f"{self._place(line, column)}{path}{': ' if path else ''}{sentence}")
            for line, column, path, sentence in sorted(found, key=lambda one: one[:2])
        ]

    def _place(self, line: int, column: int) -> str:
        return f"{self.name}:{line}:{column}: " if line and column else f"{self.name}:{line or 1}: "

    def _path_in(self, message: str) -> str:
        words = message.split(" ", _MOST_WORDS)
        for count in range(len(words), 0, -1):  # a name may have spaces, which is a mistake
            path = " ".join(words[:count]).rstrip(":")
            if path in self._document.lines:
                return path
        end = _END.search(message)
        return message[: end.start() if end else None].rstrip(".")


def read_file(path: str, environ: Mapping[str, str]) -> AccountsFile:
    """Read a document, from standard input if the path is ``-``.

    Raises:
        FileWrong: it cannot be read as text.
    """
    name, folder = ("standard input", Path.cwd()) if path == "-" else (path, Path(path).parent)
    try:
        # The bytes of standard input, too: as a text, it would have the encoding of the terminal.
        with click.open_file(path, "rb") as opened:
            content = opened.read(MAX_FILE + 1)
        text = content.decode("utf-8-sig")  # editors on Windows write a byte order mark
    except OSError as error:
        raise FileWrong(f"{name} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FileWrong(f"{name}:{line}: this is not UTF-8: save the file as UTF-8.") from error
    if len(content) > MAX_FILE:
        raise FileWrong(f"{name} is larger than 16 MiB: this is not a file of accounts.")
    return AccountsFile(name, text, folder, environ)


def _inserted(text: str, found: str) -> Iterable[str]:
    """Return the parts of an expanded text that are not in the text with the references."""
    start = text.partition("${")[0]
    end = text.rpartition("}")[2]
    inner = found.removeprefix(start)
    yield inner.removesuffix(end) if end else inner
    yield found

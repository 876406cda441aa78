"""What a program does to the files below a folder, as plain records in the order in which it happened.

Files and folders have numbers, because names change; the folder that is watched is number 0.
"""

from typing import NamedTuple, TypeAlias


class Write(NamedTuple):
    """Bytes were written to a file."""

    node: int
    offset: int
    data: bytes


class Truncate(NamedTuple):
    """A file was cut off, or extended with zeros."""

    node: int
    size: int


class Sync(NamedTuple):
    """A file or folder was synchronized.

    Attributes:
        begun: how many operations were done when it began: it covers no later ones.
    """

    node: int
    begun: int


class Link(NamedTuple):
    """A file or folder got a name, for example at its creation."""

    folder: int
    name: str
    node: int
    is_folder: bool = False


class Unlink(NamedTuple):
    """A file or folder lost a name."""

    folder: int
    name: str


class Rename(NamedTuple):
    """A file or folder got another name, in the place of what had that name."""

    folder: int
    name: str
    to_folder: int
    to_name: str


class Mark(NamedTuple):
    """The program said something: what it has promised by now."""

    text: bytes


Operation: TypeAlias = Write | Truncate | Sync | Link | Unlink | Rename | Mark
FOLDER = 0
"""The folder that is watched."""

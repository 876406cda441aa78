"""Draws a picture on a terminal in place."""

from __future__ import annotations

from rich.console import Console, RenderableType


class Painter:
    """Draws a picture, and writes only the lines that changed.

    A terminal drops a selection when its text is written again: if the whole picture were always drawn, as
    :class:`rich.live.Live` does, no user could copy an unchanged line.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._size = console.size
        self._shown: list[str] = []

    def draw(self, picture: RenderableType) -> None:
        """Replace the last picture. Lines beyond the height are left out."""
        size = self._console.size
        with self._console.capture() as drawn:
            self._console.print(picture)
        # The last row is the cursor's.
        lines = [line.rstrip() for line in drawn.get().splitlines()][: size.height - 1]
        shown, count = self._shown, len(self._shown)
        if size != self._size:
            # The terminal has wrapped the lines anew: their places are unknown.
            written = "\x1b[H\x1b[2J" + "".join(f"{line}\n" for line in lines)
        elif len(lines) != count:
            up = f"\x1b[{count}A" if count else ""
            written = f"\r{up}\x1b[J" + "".join(f"{line}\n" for line in lines)
        else:
            # Erase first: behind a line of the full width, that would erase its last character.
            written = "".join(
                f"\x1b[{count - row}A\r\x1b[K{line}\r\x1b[{count - row}B"
                for row, line in enumerate(lines)
                if line != shown[row]
            )
        self._shown, self._size = lines, size
        if written:
            self._console.file.write(written)
            self._console.file.flush()

"""Pictures drawn in place on a terminal."""

import io

from rich.console import Console
from rich.text import Text

from tests.public.demo import Painter


class Terminal(Console):
    """A terminal of 20 columns and a few lines that records what is written."""

    def __init__(self, height: int = 6) -> None:
        super().__init__(file=io.StringIO(), force_terminal=True, width=20, height=height)

    def written(self) -> str:
        """Return what was written since the last call."""
        assert isinstance(self.file, io.StringIO)
        text = self.file.getvalue()
        self.file = io.StringIO()
        return text


def test_only_a_line_that_changed_is_written() -> None:
    terminal = Terminal()
    painter = Painter(terminal)
    painter.draw(Text("the link\nn8n 1\nend"))
    assert terminal.written() == "\r\x1b[Jthe link\nn8n 1\nend\n"
    painter.draw(Text("the link\nn8n 2\nend"))
    assert terminal.written() == "\x1b[2A\r\x1b[Kn8n 2\r\x1b[2B"
    painter.draw(Text("the link\nn8n 2\nend"))
    assert terminal.written() == ""


def test_a_picture_of_another_height_replaces_the_last_one() -> None:
    terminal = Terminal()
    painter = Painter(terminal)
    painter.draw(Text("a\nb\nc"))
    terminal.written()
    painter.draw(Text("a\nb"))
    assert terminal.written() == "\r\x1b[3A\x1b[Ja\nb\n"


def test_what_does_not_fit_the_height_is_left_out() -> None:
    terminal = Terminal(height=3)
    Painter(terminal).draw(Text("a\nb\nc"))
    assert terminal.written() == "\r\x1b[Ja\nb\n"


def test_a_window_of_another_size_is_drawn_anew() -> None:
    terminal = Terminal()
    painter = Painter(terminal)
    painter.draw(Text("a"))
    terminal.written()
    terminal.width = 10
    painter.draw(Text("a"))
    assert terminal.written() == "\x1b[H\x1b[2Ja\n"

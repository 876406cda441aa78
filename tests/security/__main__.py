"""Try families of hostile input on a running gateway: ``python -m tests.security``.

Prints the table of ``docs/security.md``; ``--write`` puts it there. Every surprise is printed, and makes
the exit code 1. All of it stays on loopback.
"""

import argparse
import logging
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import structlog

from tests.security import files, incoming, outgoing
from tests.security.families import FAMILIES, HEADER, Result, run
from tests.support.live import running

PAGE = Path(__file__).parent.parent.parent / "docs" / "security.md"
BEGIN, END = "<!-- the table begins -->\n", "<!-- the table ends -->"
SOURCES = (outgoing, incoming, files)
"""Where the families are, in the order of the table."""


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.security", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="FAMILY", help="all by default")
    parser.add_argument("--write", action="store_true", help="put the table into docs/security.md")
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    results = list(try_all(arguments.names))
    if arguments.write:
        write([HEADER, *(result.row for result in results)])
    surprises = [(result.family.name, trial) for result in results for trial in result.surprises]
    for name, trial in surprises:
        print(f"surprise: {name}: {trial.what!r:.200}: {trial.happened}", file=sys.stderr)
    return 1 if surprises else 0


def try_all(names: list[str]) -> Iterator[Result]:
    """Each family on a gateway of its own, so that none finds what another one left."""
    print(HEADER)
    for name in names or in_order():
        with tempfile.TemporaryDirectory() as folder, running(Path(folder), receivers=1) as live:
            result = run(FAMILIES[name], live)
        print(result.row, flush=True)
        yield result


def in_order() -> list[str]:
    """The names of all families, as the table has them."""
    modules = [source.__name__ for source in SOURCES]
    return sorted(FAMILIES, key=lambda name: modules.index(FAMILIES[name].tries.__module__))


def write(lines: list[str]) -> None:
    """Put the table between its marks."""
    text = PAGE.read_text(encoding="utf-8")
    table = BEGIN + "".join(f"{line}\n" for line in lines) + END
    PAGE.write_text(re.sub(f"{BEGIN}.*?{END}", lambda _: table, text, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

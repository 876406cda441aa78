"""``nox -s isolation``: attack a running gateway, with a victim beside the attacker, and print a table.

Each attack has a gateway of its own: ``hookgw serve`` in a process, on loopback. Every process that is
started here ends with the attack. The exit code is 1 if an attack hurt the victim.
"""

import argparse
import os
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from tests.bench.parts import ROOT
from tests.isolation.arena import run
from tests.isolation.attacks import ATTACKS
from tests.isolation.report import HEADER, UNMEASURED, Figures, row, shortcomings

PAGE = ROOT / "docs" / "security.md"
BEGIN = "<!-- the table of attacks begins -->\n"
END = "<!-- the table of attacks ends -->\n"


def main() -> int:
    parser = argparse.ArgumentParser("isolation", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=ATTACKS, metavar="NAME", help="this attack; repeatable"
    )
    parser.add_argument("--seconds", type=float, default=4.0, help="how long each attack takes (4)")
    parser.add_argument("--full", action="store_true", help="the full sizes, which take minutes each")
    parser.add_argument("--steps", action="store_true", help="also print the longest steps of the event loop")
    parser.add_argument(
        "--list", action="store_true", help="print the names of the attacks, and attack nothing"
    )
    parser.add_argument("--write", action="store_true", help="put these rows into docs/security.md")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(f"{attack.name}: {attack.what}" for attack in ATTACKS.values()))
        return 0
    rows: dict[str, str] = {}
    hurt = 0
    print(HEADER, flush=True)
    for name in arguments.only or ATTACKS:
        figures = run(ATTACKS[name], seconds=arguments.seconds, full=arguments.full, steps=arguments.steps)
        rows[name] = row(name, ATTACKS[name].what, figures)
        hurt += bool(shortcomings(figures))
        print(rows[name], flush=True)
        used = f"the gateway used {figures.processor:.0%} of a processor"
        load = f"{used}, the machine's load is {os.getloadavg()[0]:.1f}"
        print(f"{name}: {load}; the attacker's counts: {dict(figures.counts)}", file=sys.stderr, flush=True)
        for step in figures.steps:
            print(f"  {step}", file=sys.stderr, flush=True)
    if arguments.write:
        write(PAGE, rows)
    print(f"{len(rows)} attacks, {hurt} of them hurt somebody else.", file=sys.stderr)
    return 1 if hurt else 0


def write(page: Path, rows: Mapping[str, str]) -> None:
    """Put rows into the table between its marks, with today's date; other attacks keep their rows."""
    text = page.read_text(encoding="utf-8")
    former = {line[2:].partition(" |")[0]: line for line in text.partition(BEGIN)[2].splitlines()}
    unmeasured = Figures(failure=UNMEASURED)
    lines = [
        rows.get(name) or former.get(name) or row(name, attack.what, unmeasured)
        for name, attack in ATTACKS.items()
    ]
    day = datetime.now(UTC).date().isoformat()
    table = f"{BEGIN}Measured on {day}:\n\n" + "".join(f"{line}\n" for line in [HEADER, *lines]) + END
    page.write_text(re.sub(f"{BEGIN}.*?{END}", lambda _: table, text, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

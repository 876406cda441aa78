"""Compare hookgw's HTTP/1.1, both ways, with suites and servers of others: ``python -m tests.http_suites``.

A case agrees if hookgw's class is what its suite, or the RFC, demands; where a suite demands nothing, if it
is that of a reference. Every other class must be on the list of explained differences: the exit code is 1 if
one is not, and 0 otherwise. ``--write`` puts the table into docs/security.md.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import structlog
import trio

from tests.http_suites import chunks, rfc
from tests.http_suites.cases import REFUSED, Case, requests_of_packages, responses_of_packages
from tests.http_suites.clients import class_by_h11, class_by_hookgw, classes_by_others
from tests.http_suites.explained import EXPLAINED, covers, reason_of
from tests.http_suites.servers import class_of, open_servers

PAGE = Path(__file__).parent.parent.parent / "docs" / "security.md"
BEGIN, END = "<!-- the table of suites begins -->\n", "<!-- the table of suites ends -->"
AT_ONCE = 8


class Compared(NamedTuple):
    """A case, and what each side made of it."""

    case: Case
    ours: str
    references: Mapping[str, str]

    @property
    def agrees(self) -> bool:
        """Whether hookgw's class is right by the suite, or like a reference's."""
        if not self.case.expected:
            return any(_is_like(self.ours, other) for other in self.references.values())
        return any(_is_like(self.ours, one) for one in self.case.expected.split("|"))


def _is_like(ours: str, wanted: str) -> bool:
    """Return whether a class is the wanted one: any status refuses, unless one is named."""
    ours_last, wanted_last = ours.rpartition(REFUSED), wanted.rpartition(REFUSED)
    if wanted_last[1] and not wanted_last[2].strip():
        # A request that is refused in its body, or behind another one, is refused all the same.
        return bool(ours_last[1]) or ours == "closed"
    return ours == wanted or (wanted == "accepted" and bool(ours) and set(ours.split()) == {"accepted"})


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.http_suites", description=__doc__)
    parser.add_argument("packages", type=Path, help="the folder with the source packages")
    parser.add_argument("--write", action="store_true", help="put the table into docs/security.md")
    parser.add_argument("--all", action="store_true", help="print the explained differences, too")
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    sent = [*requests_of_packages(arguments.packages), *rfc.requests()]
    answers = [*responses_of_packages(arguments.packages), *rfc.responses()]
    compared = {
        "server": trio.run(_compare_servers, sent),
        "client": trio.run(_compare_clients, answers),
    }
    rows, unexplained = [], 0
    for side, results in compared.items():
        rows += _rows(side, results)
        unexplained += _report(side, results, with_explained=arguments.all)
    keys = {one.case.key for results in compared.values() for one in results if not one.agrees}
    for name in (name for names in EXPLAINED.values() for name in names):
        if not any(covers(name, key) for key in keys):
            print(f"explained, but no difference any more: {name}")
    table = "\n".join(
        ["| side | suite | cases | agree | differ (explained) | fail |", "|---|---|---|---|---|---|", *rows]
    )
    print(table)
    print(chunks.compare())
    if arguments.write:
        today = datetime.now().astimezone().date()
        written = f"{BEGIN}Measured on {today}:\n\n{table}\n{END}"
        text = PAGE.read_text("utf-8")
        PAGE.write_text(re.sub(f"{BEGIN}.*?{END}", lambda _: written, text, flags=re.DOTALL), "utf-8")
    return 1 if unexplained else 0


async def _compare_servers(cases: Sequence[Case]) -> list[Compared]:
    found: dict[tuple[int, str], str] = {}
    limit = trio.CapacityLimiter(AT_ONCE)

    async def ask(number: int, name: str, port: int) -> None:
        async with limit:
            found[number, name] = await class_of(cases[number].sent, port)

    with tempfile.TemporaryDirectory() as folder:
        async with open_servers(Path(folder)) as ports, trio.open_nursery() as nursery:
            names = tuple(ports)
            for number in range(len(cases)):
                for name, port in ports.items():
                    nursery.start_soon(ask, number, name, port)
    return [
        Compared(case, found[number, "hookgw"], {name: found[number, name] for name in names[1:]})
        for number, case in enumerate(cases)
    ]


async def _compare_clients(cases: Sequence[Case]) -> list[Compared]:
    others = await classes_by_others([case.sent for case in cases])
    results = []
    for number, case in enumerate(cases):
        references = {name: classes[number] for name, classes in others.items()}
        references["h11"] = class_by_h11(case.sent)
        ours = class_by_hookgw(case.sent)
        # Suites of parsers say only whether a response is one.
        expected = case.expected
        if expected == "accepted":
            expected = ours if ours != "failed" else "a status"
        results.append(
            Compared(case._replace(expected=expected.replace(REFUSED, "failed")), ours, references)
        )
    return results


def _rows(side: str, results: Sequence[Compared]) -> list[str]:
    counts: dict[str, Counter[str]] = {}
    for one in results:
        verdict = "agree" if one.agrees else "differ" if reason_of(one.case.key) else "fail"
        counts.setdefault(one.case.suite, Counter())[verdict] += 1
    return [
        f"| {side} | {suite} | {count.total()} | {count['agree']} | {count['differ']} | {count['fail']} |"
        for suite, count in counts.items()
    ]


def _report(side: str, results: Sequence[Compared], *, with_explained: bool) -> int:
    """Print the differences, and return how many nobody has explained."""
    failed = 0
    for one in results:
        reason = reason_of(one.case.key)
        if one.agrees or (reason and not with_explained):
            continue
        failed += reason is None
        others = ", ".join(f"{name}: {found}" for name, found in one.references.items())
        print(f"{side}: {one.case.key}: {one.ours}; wanted: {one.case.expected or 'as others'}; {others}")
        print(f"    {reason or 'NOT EXPLAINED'}: {one.case.sent[:200]!r}")
    return failed


if __name__ == "__main__":
    sys.exit(main())

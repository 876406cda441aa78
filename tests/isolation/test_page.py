"""The table in ``docs/security.md`` has every attack."""

from pathlib import Path

from tests.isolation.__main__ import BEGIN, END, PAGE, write
from tests.isolation.attacks import ATTACKS
from tests.isolation.report import HEADER, UNMEASURED

TABLE = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


def test_the_page_has_every_attack_in_order() -> None:
    date, _, *lines = TABLE.splitlines()
    assert date.startswith("Measured on 20")
    assert lines[:2] == HEADER.splitlines()
    rows = [line.split(" | ")[:2] for line in lines[2:]]
    assert rows == [[f"| {name}", attack.what] for name, attack in ATTACKS.items()]


def test_what_tenants_share_is_attacked_by_what_there_is() -> None:
    _, _, section = PAGE.read_text(encoding="utf-8").partition("\n## What tenants share\n")
    rows = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 30
    for row in rows:
        for name in row.split(" | ")[3].removesuffix(" |").split(", "):
            assert name in ATTACKS or name == "none yet" or name.startswith("`tests/"), row


def test_written_rows_replace_the_former_ones_of_their_attacks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    first, second, third, *_ = ATTACKS
    former = f"| {first} | kept |\n| {second} | old |\n| of the past | gone |\n"
    page.write_text(f"before\n{BEGIN}{former}{END}after\n", encoding="utf-8")
    write(page, {second: f"| {second} | new |"})
    lines = page.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "before"
    assert lines[-1] == "after"
    assert f"| {first} | kept |" in lines
    assert f"| {second} | new |" in lines
    assert next(line for line in lines if line.startswith(f"| {third} |")).endswith(f"| {UNMEASURED} |")
    assert not [line for line in lines if "old" in line or "gone" in line]

"""The documentation matches the code: the example file, the reference, links, named tests and named paths."""

import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.public.config import KeyInfo, Settings, known_keys, load_settings, read_yaml, variable_of
from tests.support.commented_examples import uncommented
from tests.support.reference import meanings

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "config.example.yaml"
REFERENCE = ROOT / "docs" / "configuration.md"
KEYS = list(known_keys())
MEANINGS = meanings()
TEST_COMMAND = "python3 -m venv .venv && .venv/bin/pip install nox uv && .venv/bin/nox -t ci"


keys = pytest.mark.parametrize("key", KEYS, ids=lambda key: key.path)


def test_every_key_has_a_meaning() -> None:
    assert MEANINGS.keys() == {key.path for key in KEYS}
    assert all(re.fullmatch(r"\S.{9,100}\.", meaning) for meaning in MEANINGS.values())


def test_the_example_is_the_defaults() -> None:
    assert load_settings(EXAMPLE, {}) == Settings()


def test_the_example_takes_the_global_key_from_the_environment() -> None:
    assert load_settings(EXAMPLE, {"HOOKGW_GLOBAL_KEY": "abc"}).auth.global_key == "abc"


@keys
def test_the_example_has_every_key_with_its_meaning_above(key: KeyInfo) -> None:
    text = EXAMPLE.read_text()
    line = read_yaml(text).lines[key.path]
    above: list[str] = []
    for written in reversed(text.splitlines()[: line - 1]):
        if not written.lstrip().startswith("# "):
            break
        above.insert(0, written.lstrip()[2:])
    assert MEANINGS[key.path] in " ".join(above)


def test_the_examples_above_keys_can_be_uncommented(tmp_path: Path) -> None:
    names = {key.path.rpartition(".")[2] for key in KEYS} | {"alerts"}
    found = dict(uncommented(EXAMPLE.read_text(), names))
    assert [*found] == ["tags", "global_webhooks", "options", "alerts"]
    for text in found.values():
        (file := tmp_path / "hookgw.yaml").write_text(text)
        assert load_settings(file, {}) != Settings()


def test_every_override_in_the_reference_works() -> None:
    found = re.findall(r"^\| `(HOOKGW_\w+)=(.+?)` \|", REFERENCE.read_text(), re.MULTILINE)
    assert len(found) >= 5
    for name, text in found:
        load_settings(None, {name: text.strip("'")})


def test_the_reference_names_the_variables_of_some_keys() -> None:
    text = REFERENCE.read_text()
    for path in ("server.bind", "log.level", "auth.global_key", "global_webhooks"):
        assert variable_of(path) in text


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", ".ci/run"])
def test_the_command_for_the_tests_is_the_same_everywhere(name: str) -> None:
    assert TEST_COMMAND in (ROOT / name).read_text()


PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("name", [*PAGES, "plugins/README.md"])
def test_links_between_pages_lead_to_a_file(name: str) -> None:
    page = ROOT / name
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, by GitHub's rule."""
    counts: Counter[str] = Counter()
    found = set()
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    for heading in re.findall(r"^#+ (.+)$", prose, re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(f"{anchor}-{counts[anchor]}" if counts[anchor] else anchor)
        counts[anchor] += 1
    return found


@pytest.mark.parametrize("name", [*PAGES, "plugins/README.md"])
def test_links_into_pages_lead_to_a_heading(name: str) -> None:
    page = ROOT / name
    lost = []
    for file, wanted in re.findall(r"\]\(([^):\s#]*\.md)?#([^)\s]+)\)", page.read_text("utf-8")):
        text = ((page.parent / file) if file else page).read_text("utf-8")
        lost += [wanted] if wanted not in anchors(text) else []
    assert lost == []


def test_the_dashboard_links_to_headings_of_the_manual_and_names_no_file_of_it() -> None:
    templates = "".join(
        path.read_text("utf-8") for path in (ROOT / "hookgw").rglob("templates/dashboard/*.html")
    )
    assert re.findall(r"docs/[\w/-]+\.md", templates) == []
    links = re.findall(r"/docs/([\w/-]+)#([\w-]+)", templates)
    assert links
    for page, wanted in links:
        assert wanted in anchors((ROOT / "docs" / f"{page}.md").read_text("utf-8"))


PACKAGES = sorted(path.name for path in (ROOT / "hookgw").iterdir() if (path / "__init__.py").exists())
PATH = re.compile(rf"(?<![\w./:-])(?:hookgw|tests|plugins|docs|{'|'.join(PACKAGES)})/[\w./-]*[\w/]")


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_paths_in_the_pages_for_developers_exist(name: str) -> None:
    """Paths in the diagrams begin below ``hookgw/``."""
    paths = PATH.findall((ROOT / name).read_text("utf-8"))
    assert len(paths) >= 5
    assert [
        path for path in paths if not (ROOT / path).exists() and not (ROOT / "hookgw" / path).exists()
    ] == []


GUARANTEES = ROOT / "docs" / "guarantees.md"
SECURITY = ROOT / "docs" / "security.md"


def named_tests(text: str) -> list[tuple[str, str]]:
    return re.findall(r"`(tests/\S+\.py)::(test_\w+)`", text)


NAMED_TESTS = named_tests(GUARANTEES.read_text("utf-8"))


def test_every_guarantee_names_its_test() -> None:
    promises = re.findall(
        r"^\| (?!promise|outcome|---)[^|]+\| `tests/", GUARANTEES.read_text("utf-8"), re.MULTILINE
    )
    assert len(promises) == len(NAMED_TESTS) >= 20


def test_every_defence_names_its_test() -> None:
    section = SECURITY.read_text("utf-8").partition("## Defences")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?!attack|---).*\|$", section, re.MULTILINE)
    assert len(rows) == len(named_tests(section)) >= 25


@pytest.mark.parametrize("name", ["Dockerfile", "compose.yaml", "deploy/systemd/hookgw.service"])
def test_sections_named_in_comments_exist(name: str) -> None:
    text = " ".join((ROOT / name).read_text().replace("\n#", "\n").split())
    named = re.findall(r'(docs/[\w/]+\.md)[^."]*, under "([^"]+)"', text)
    assert named
    for page, section in named:
        assert f"\n## {section}\n" in (ROOT / page).read_text(), (page, section)


def test_every_named_test_exists() -> None:
    named = {test for page in PAGES for test in named_tests((ROOT / page).read_text("utf-8"))}
    texts = {file: (ROOT / file).read_text("utf-8") for file, _ in named}
    lost = [
        (file, test)
        for file, test in named
        if not re.search(rf"^ *(async )?def {test}\(", texts[file], re.MULTILINE)
    ]
    assert lost == []


def commands_after(page: str, sentence: str) -> str:
    """Return the commands of the first block after a sentence."""
    text = (ROOT / "docs" / page).read_text()
    return text[text.index(sentence) :].split("```sh\n", 1)[1].split("```", 1)[0]


def run_commands(commands: str, **stubs: str) -> str:
    """Run commands in a shell, with functions in place of some programs."""
    functions = "".join(f"{name}() {{ {body}; }}\n" for name, body in stubs.items())
    done = subprocess.run(
        ["/bin/sh", "-c", functions + commands], check=False, capture_output=True, text=True
    )
    assert done.stderr == ""
    return done.stdout


def test_the_new_global_key_is_known_after_the_start_with_it() -> None:
    commands = commands_after("operations.md", "**If all global keys are lost**")
    printed = run_commands(
        commands, openssl="echo a-key", hookgw='echo "$1 with $HOOKGW_KEY, $HOOKGW_GLOBAL_KEY"'
    )
    assert printed.splitlines() == ["a-key", "serve with a-key, a-key"]


@pytest.mark.parametrize(("is_backed_up", "kept"), [(True, 7), (False, 10)])
def test_the_nightly_backup_keeps_the_newest_seven(is_backed_up: bool, kept: int, tmp_path: Path) -> None:
    for age in range(10):
        backup = tmp_path / f"hookgw-{age}.db"
        backup.touch()
        os.utime(backup, (-86_400 * age, -86_400 * age))
    commands = commands_after("operations.md", "A backup every night").replace(
        "/var/backups/hookgw", str(tmp_path)
    )
    run_commands(commands, curl="true" if is_backed_up else "false")
    assert {path.name for path in tmp_path.iterdir()} == {f"hookgw-{age}.db" for age in range(kept)}


def test_the_file_of_the_master_key_is_the_services_and_never_readable_for_others(tmp_path: Path) -> None:
    unit = (ROOT / "deploy/systemd/hookgw.service").read_text()
    [file] = re.findall(r"LoadCredential=master_key:(\S+)", unit)
    commands = commands_after("cli.md", "## master-key")
    assert f"> {file})" in commands
    key = tmp_path / "key"
    # The mode at the moment at which the key is written.
    run_commands(commands.replace(file, str(key)), hookgw=f"stat -c %a {key}")
    assert key.read_text() == "600\n"


def test_a_location_of_nginx_sets_all_headers_of_the_server_or_none() -> None:
    """nginx inherits ``proxy_set_header`` only where the location has none of its own."""
    pages = "".join((ROOT / page).read_text("utf-8") for page in PAGES)
    configured = "".join(re.findall(r"```nginx\n(.*?)```", pages, re.DOTALL))
    of_server = re.findall(r"^ {4}(proxy_set_header .*)", configured, re.MULTILINE)
    assert of_server
    for location in re.findall(r"^ {4}location .*?^ {4}}", configured, re.DOTALL | re.MULTILINE):
        if "proxy_set_header" in location:
            assert all(header in location for header in of_server), location

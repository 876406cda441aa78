"""Which gateway a command talks to, and with which key."""

import io
from pathlib import Path
from typing import Any

import click
import pytest

from hookgw.testing import Receiver
from tests.cli.conftest import Invoke, says
from tests.public.command import (
    DEFAULT_SERVER,
    Failed,
    Profile,
    Profiles,
    find_target,
    profiles_file,
    save_profiles,
)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment with two profiles; ``prod`` is in use."""
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    (tmp_path / "staging.key").write_text("staging-key\n")
    profiles = {
        "prod": Profile(url="https://prod.example", key="prod-key"),
        "staging": Profile(url="https://staging.example", key_file=str(tmp_path / "staging.key")),
        "bare": Profile(url="https://bare.example"),
    }
    save_profiles(profiles_file(environ), Profiles(use="prod", profiles=profiles))
    return environ


@pytest.mark.parametrize(
    ("options", "variables", "found"),
    [
        ({}, {}, ("https://prod.example", "prod-key")),
        ({"profile": "staging"}, {}, ("https://staging.example", "staging-key")),
        ({}, {"HOOKGW_PROFILE": "staging"}, ("https://staging.example", "staging-key")),
        ({"profile": "prod"}, {"HOOKGW_PROFILE": "staging"}, ("https://prod.example", "prod-key")),
        # A key of a profile goes nowhere but to the profile's URL.
        ({"server": "http://other"}, {}, ("http://other", None)),
        ({}, {"HOOKGW_URL": "http://other"}, ("http://other", None)),
        ({"server": "http://x"}, {"HOOKGW_URL": "http://other", "HOOKGW_KEY": "k"}, ("http://x", "k")),
        ({}, {"HOOKGW_KEY": "k"}, ("https://prod.example", "k")),
        # What is left of another terminal session does not redirect a profile that is named.
        (
            {"profile": "prod"},
            {"HOOKGW_URL": "http://other", "HOOKGW_KEY": "k"},
            ("https://prod.example", "prod-key"),
        ),
        ({"profile": "bare"}, {"HOOKGW_KEY": "k"}, ("https://bare.example", "k")),
        ({}, {"HOOKGW_URL": "", "HOOKGW_KEY": ""}, ("https://prod.example", "prod-key")),
    ],
)
def test_options_come_first_then_the_environment_then_the_profile(
    environ: dict[str, str], options: dict[str, str], variables: dict[str, str], found: tuple[str, str | None]
) -> None:
    given = {"server": None, "key": None, "key_file": None, "profile": None} | options
    assert find_target(**given, environ=environ | variables)[:2] == found  # type: ignore[arg-type]


def test_without_anything_it_is_this_machine(tmp_path: Path) -> None:
    found = find_target(None, None, None, None, {"XDG_CONFIG_HOME": str(tmp_path)})
    assert found == (DEFAULT_SERVER, None, "")


def test_a_key_from_a_file(environ: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "staging.key"
    assert find_target(None, None, file, None, environ).key == "staging-key"
    environ["HOOKGW_KEY_FILE"] = str(file)
    assert find_target("http://x", None, None, None, environ).key == "staging-key"
    file.write_text("\n")
    with pytest.raises(Failed, match="contains no key"):
        find_target(None, None, file, None, environ)
    with pytest.raises(Failed, match=r"The key cannot be read from .*/missing: No such file or directory\."):
        find_target(None, None, tmp_path / "missing", None, environ)


@pytest.mark.parametrize(
    ("options", "variables", "said"),
    [
        ({"key": "a", "key_file": Path("b")}, {}, "either --key or --key-file"),
        ({"server": "http://a", "profile": "prod"}, {}, "either --server or --profile"),
        ({}, {"HOOKGW_URL": "http://a", "HOOKGW_PROFILE": "prod"}, "both set. Unset one"),
        ({"profile": "prd"}, {}, r"There is no profile 'prd' in .*Known profiles: bare, prod, staging\."),
    ],
)
def test_contradictions_are_refused(
    environ: dict[str, str], options: dict[str, str], variables: dict[str, str], said: str
) -> None:
    given = {"server": None, "key": None, "key_file": None, "profile": None} | options
    with pytest.raises(click.ClickException, match=said):
        find_target(**given, environ=environ | variables)  # type: ignore[arg-type]


def test_a_byte_order_mark_and_space_around_a_key_are_left_out(
    environ: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "staging.key"
    file.write_text(" a key\r\n", "utf-8-sig")
    assert find_target(None, None, file, None, environ).key == "a key"
    assert find_target(None, None, None, None, environ | {"HOOKGW_KEY": "a key\n"}).key == "a key"


@pytest.mark.parametrize("key", ["hidden\nsecond", "hidden\x00", "hidden-é", "hidden-\udce9"])
def test_what_no_header_can_contain_is_refused_with_its_source(
    environ: dict[str, str], tmp_path: Path, key: str
) -> None:
    file = tmp_path / "a.key"
    file.write_text("hidden\nsecond")
    save_profiles(
        profiles_file(environ),
        Profiles(profiles={"good": Profile(url="http://a"), "bad": Profile(url="http://a", key="hidden\nx")}),
    )
    for options, variables, source in (
        ({}, {"HOOKGW_KEY": key}, "HOOKGW_KEY"),
        ({}, {"HOOKGW_KEY_FILE": str(file)}, str(file)),
        ({"key_file": file}, {}, str(file)),
        ({"key": key}, {}, "--key"),
        ({"profile": "bad"}, {}, "the profile 'bad'"),
    ):
        given: dict[str, Any] = {"server": None, "key": None, "key_file": None, "profile": None} | options
        with pytest.raises(Failed) as refused:
            find_target(**given, environ=environ | variables)
        assert refused.value.message == (
            f"The key from {source} is not valid: a key is one line of printable ASCII characters."
        )


async def test_a_key_on_standard_input_is_checked(invoke: Invoke, server: Receiver) -> None:
    server.default = says([])
    accepted = await invoke("lane", "list", "--key", "-", input=b"\xef\xbb\xbfk-2\r\n")
    assert accepted.exit_code == 0, accepted.output
    assert [request.header("apikey") for request in server.requests] == ["k-2"]
    refused = await invoke("lane", "list", "--key", "-", input=b"hidden\xe9\n")
    assert (refused.exit_code, "The key from standard input is not valid" in refused.stderr) == (1, True)
    assert "hidden" not in refused.output


async def test_the_key_comes_from_standard_input_and_a_visible_one_is_warned_of(
    invoke: Invoke, server: Receiver
) -> None:
    server.default = says([])
    assert (await invoke("lane", "list", "--key", "-", input=io.BytesIO(b"k-2\n"))).exit_code == 0
    shown = await invoke("lane", "list", "--key", "k-3")
    assert shown.exit_code == 0
    assert "other users of this machine can see a key on the command line" in shown.stderr
    assert [request.header("apikey") for request in server.requests] == ["k-2", "k-3"]
    assert (await invoke("lane", "list", "--key", "-", input=b"")).exit_code == 1


async def test_a_profile_before_the_command(invoke: Invoke, server: Receiver, tmp_path: Path) -> None:
    server.default = says([])
    profile = Profile(url=server.url, key="k-9")
    save_profiles(
        profiles_file({"XDG_CONFIG_HOME": str(tmp_path / "config")}), Profiles(profiles={"a": profile})
    )
    for args in (("--profile", "a", "lane", "list"), ("lane", "list", "--profile", "a")):
        assert (await invoke(*args)).exit_code == 0
    assert [request.header("apikey") for request in server.requests] == ["k-9", "k-9"]


@pytest.mark.parametrize(
    ("options", "variables", "source"),
    [
        (("--key", "from-the-option-0123456789"), {}, "--key"),
        (("--key-file", "some.key"), {}, "the file some.key (--key-file)"),
        ((), {"HOOKGW_KEY": "of-the-environment-0123456789"}, "HOOKGW_KEY"),
        ((), {"HOOKGW_KEY_FILE": "some.key"}, "the file some.key (HOOKGW_KEY_FILE)"),
        (("--profile", "shop"), {}, "the profile 'shop'"),
        (("--profile", "files"), {}, "the file some.key of the profile 'files'"),
    ],
)
@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_named_with_its_source_and_not_shown(
    invoke: Invoke,
    server: Receiver,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    variables: dict[str, str],
    source: str,
    status: int,
) -> None:
    (tmp_path / "some.key").write_text("in-the-file-0123456789abcd")
    profiles = {
        "shop": Profile(url=server.url, key="of-the-profile-0123456789"),
        "files": Profile(url=server.url, key_file="some.key"),
    }
    save_profiles(profiles_file(), Profiles(profiles=profiles))
    monkeypatch.delenv("HOOKGW_KEY")
    if "--profile" in options:
        monkeypatch.delenv("HOOKGW_URL")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    refusal = {"status": status, "error": "No", "response": {"message": ["Refused."]}}
    server.default = says(refusal, status)
    result = await invoke("lane", "list", *options)
    assert result.exit_code == 1
    sent = server.requests[0].header("apikey") or ""
    assert f"The key {sent[:4]}… ({len(sent)} characters) was sent, from {source}.\n" in result.stderr
    assert sent not in result.stderr


async def test_without_a_key_a_refusal_says_so(
    invoke: Invoke, server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOKGW_KEY")
    refusal = {"status": 401, "error": "No", "response": {"message": ["Refused."]}}
    server.default = says(refusal, 401)
    assert "No key was sent.\n" in (await invoke("lane", "list")).stderr

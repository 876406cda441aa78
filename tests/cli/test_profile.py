"""``hookgw profile``, and its file."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke
from tests.public.command import Failed, Profile, Profiles, load_profiles, profiles_file, save_profiles
from tests.support.file_modes import without_modes


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config" / "hookgw" / "profiles.yaml"


async def test_profiles_are_added_used_listed_and_removed(invoke: Invoke, file: Path, tmp_path: Path) -> None:
    added = await invoke("profile", "add", "prod", "--url", "https://u:p@gw.example", input="k-1\n")
    assert added.exit_code == 0, added.output
    assert "Commands use it" in added.stdout
    (tmp_path / "key").write_text("k-2")
    added = await invoke("profile", "add", "local", "--url", "http://127.0.0.1:1", "--key-file", "key")
    assert "To use it: hookgw profile use local" in added.stdout
    assert load_profiles(file).profiles["local"].key_file == str(tmp_path / "key")
    assert (await invoke("profile", "use", "local")).exit_code == 0
    listed = (await invoke("profile", "list", "--json")).stdout
    assert json.loads(listed) == [
        {"name": "prod", "url": "https://********@gw.example", "key": "stored", "inUse": False},
        {"name": "local", "url": "http://127.0.0.1:1", "key": str(tmp_path / "key"), "inUse": True},
    ]
    assert "k-1" not in listed
    assert "prod" in (await invoke("profile", "list")).stdout
    assert (await invoke("profile", "remove", "local")).exit_code == 0
    assert load_profiles(file) == Profiles(
        use=None, profiles={"prod": Profile(url="https://u:p@gw.example", key="k-1")}
    )


async def test_names_and_keys_that_look_like_numbers_are_texts(invoke: Invoke, file: Path) -> None:
    added = await invoke("profile", "add", "1e5", "--url", "http://127.0.0.1:1", input="4893e12\n")
    assert added.exit_code == 0, added.output
    assert load_profiles(file) == Profiles(
        use="1e5", profiles={"1e5": Profile(url="http://127.0.0.1:1", key="4893e12")}
    )
    assert (await invoke("profile", "remove", "1e5")).exit_code == 0


async def test_a_key_that_cannot_be_sent_is_not_stored(invoke: Invoke, file: Path) -> None:
    refused = await invoke("profile", "add", "a", "--url", "http://a", input="hidden-é\n")
    assert (refused.exit_code, "The key from standard input is not valid" in refused.stderr) == (1, True)
    assert "hidden" not in refused.output
    assert load_profiles(file) == Profiles()


async def test_replacing_a_profile_is_asked_for(invoke: Invoke, file: Path) -> None:
    add = ("profile", "add", "prod", "--no-key", "--url")
    assert (await invoke(*add, "http://a")).exit_code == 0
    assert (await invoke(*add, "http://b", input="n\n")).exit_code == 1
    assert load_profiles(file).profiles["prod"].url == "http://a"
    assert (await invoke(*add, "http://b", "--yes")).exit_code == 0
    assert load_profiles(file).profiles["prod"].url == "http://b"


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["add", "a", "--url", "gw.example"], 2, "must be an http or https URL"),
        (
            ["add", "a", "--url", "http://a", "--no-key", "--key-file", "k"],
            2,
            "either --key-file or --no-key",
        ),
        (["add", "a", "--url", "http://a"], 1, "no key on standard input"),
        (["use", "a"], 1, "There is no profile 'a'"),
        (["remove", "a"], 1, "There are no profiles yet."),
    ],
)
async def test_mistakes(invoke: Invoke, args: list[str], code: int, said: str) -> None:
    result = await invoke("profile", *args)
    assert result.exit_code == code
    assert said in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("profiles: {a: {url: http://a, key: 12}}", "is not valid: Expected `str"),
        ("profiles: {a: {uri: http://a}}", "unknown field `uri`"),
        ("use: [", "line 2: this is not YAML"),
        ("use: a\nuse: b", "line 2"),
    ],
)
def test_a_wrong_file_is_named(file: Path, text: str, said: str) -> None:
    save_profiles(file, Profiles())
    file.write_text(text)
    with pytest.raises(Failed, match=said) as caught:
        load_profiles(file)
    assert str(file) in caught.value.message


def test_a_file_that_others_can_read_is_refused(file: Path) -> None:
    save_profiles(file, Profiles(profiles={"a": Profile(url="http://a", key="k")}))
    file.chmod(0o640)
    with pytest.raises(Failed, match=r"other users can access it \(mode 0640\)\. Run: chmod 600"):
        load_profiles(file)


def test_where_no_file_has_a_mode_of_its_own_no_chmod_is_proposed(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_modes(monkeypatch)
    save_profiles(file, Profiles(profiles={"a": Profile(url="http://a", key="k")}))
    with pytest.raises(Failed, match=r"one mode \(0777\), which chmod does not change\. Set XDG_CONFIG_HOME"):
        load_profiles(file)


def test_a_file_that_cannot_be_written_or_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Failed, match="cannot be written"):
        save_profiles(tmp_path / "file" / "profiles.yaml", Profiles())
    with pytest.raises(Failed, match="cannot be read"):
        load_profiles(tmp_path / "file" / "profiles.yaml")


def test_only_the_owner_can_read_the_file(file: Path) -> None:
    save_profiles(file, Profiles())
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_key_is_in_no_repr() -> None:
    assert "k-1" not in repr(Profiles(profiles={"a": Profile(url="http://a", key="k-1")}))


def test_the_file_is_where_xdg_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ana")
    assert profiles_file({}) == Path("/home/ana/.config/hookgw/profiles.yaml")
    assert profiles_file({"XDG_CONFIG_HOME": "relative"}) == profiles_file({})
    assert profiles_file({"XDG_CONFIG_HOME": "/x"}) == Path("/x/hookgw/profiles.yaml")

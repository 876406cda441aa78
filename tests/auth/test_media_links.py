"""Links to inbound files: what they say, what opens them, and what does not."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgw import Invalid
from tests.public.auth import LONGEST_MEDIA_NAME as LONGEST_NAME
from tests.public.auth import LONGEST_MEDIA_REFERENCE as LONGEST_REFERENCE
from tests.public.auth import MediaLinks, is_mimetype
from tests.public.kernel import Expired, Forbidden
from tests.public.records import Instance

SHOP = Instance(name="shop", id="0d9e3f4a")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


class Time:
    now = 1_000_000.25

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def links(time: Time) -> MediaLinks:
    return MediaLinks(b"k" * 32, 60.0, "https://hooks.example/base", time)


def token_of(url: str) -> str:
    return url.rpartition("/")[2]


def test_a_link_says_where_the_file_is(links: MediaLinks) -> None:
    url = links.url(SHOP, "mxc://example/abc", mimetype="image/png", file_name="a b.png")
    assert url.startswith("https://hooks.example/base/media/shop/")
    link = links.open(SHOP, token_of(url))
    assert (link.reference, link.mimetype, link.file_name) == ("mxc://example/abc", "image/png", "a b.png")
    assert link.expires_at == 1_000_060


@given(reference=TEXTS.filter(bool), mimetype=st.text(), file_name=st.text())
def test_a_link_takes_whatever_a_network_says(reference: str, mimetype: str, file_name: str) -> None:
    links = MediaLinks(b"k" * 32, 60.0, "", lambda: 0.0)
    token = token_of(links.url(SHOP, reference, mimetype=mimetype, file_name=file_name))
    assert token.isascii()
    assert token.replace("-", "").replace("_", "").isalnum()
    assert links.open(SHOP, token).reference == reference


def test_a_long_name_is_cut_and_an_impossible_type_left_out(links: MediaLinks) -> None:
    url = links.url(SHOP, "1", mimetype="text/html\r\nset-cookie: a=b", file_name="n" * 1000 + "\ud800")
    link = links.open(SHOP, token_of(url))
    assert (link.mimetype, link.file_name) == ("", "n" * LONGEST_NAME)


@pytest.mark.parametrize("reference", ["", "r" * (LONGEST_REFERENCE + 1), "\ud800"])
def test_a_reference_that_no_link_can_have(reference: str, links: MediaLinks) -> None:
    with pytest.raises(Invalid, match="reference"):
        links.url(SHOP, reference)


def test_a_link_expires(links: MediaLinks, time: Time) -> None:
    token = token_of(links.url(SHOP, "1"))
    time.now += 59
    links.open(SHOP, token)
    time.now += 1
    with pytest.raises(Expired, match="expired"):
        links.open(SHOP, token)


def test_a_link_belongs_to_one_instance_for_its_life(links: MediaLinks) -> None:
    """Neither another instance, nor a later one of the same name; and nobody learns which exist."""
    token = token_of(links.url(SHOP, "1"))
    later = Instance(name="shop", id="another")
    refusals = set()
    for instance in (later, Instance(name="other", id="x"), None):
        with pytest.raises(Forbidden) as refused:
            links.open(instance, token)
        refusals.add(str(refused.value))
    assert len(refusals) == 1


def test_no_instance_has_no_links(links: MediaLinks) -> None:
    """The id that stands in for a missing instance opens nothing."""
    token = token_of(links.url(Instance(name="x", id=""), "1"))
    with pytest.raises(Forbidden):
        links.open(None, token)


def test_another_key_made_another_link(links: MediaLinks, time: Time) -> None:
    token = token_of(MediaLinks(b"o" * 32, 60.0, "", time).url(SHOP, "1"))
    with pytest.raises(Forbidden):
        links.open(SHOP, token)


def test_every_change_of_a_link_is_noticed(links: MediaLinks) -> None:
    token = token_of(links.url(SHOP, "reference", mimetype="image/png", file_name="x.png"))
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/=. %"
    changed = {token[:i] + letter + token[i + 1 :] for i in range(len(token)) for letter in letters}
    changed |= {token[:i] for i in range(len(token))} | {token + letter for letter in letters}
    for altered in changed - {token}:
        with pytest.raises(Forbidden):
            links.open(SHOP, altered)


@given(st.one_of(st.text(), st.binary().map(lambda raw: base64.urlsafe_b64encode(raw).decode().rstrip("="))))
def test_any_text_is_refused(token: str) -> None:
    with pytest.raises(Forbidden):
        MediaLinks(b"k" * 32, 60.0, "", float).open(SHOP, token)


@pytest.mark.parametrize("mimetype", ["image/png", "image/svg+xml", "audio/ogg; codecs=opus"])
def test_types(mimetype: str) -> None:
    assert is_mimetype(mimetype)


@pytest.mark.parametrize(
    "mimetype", ["", "image", "image/", "a/b\n", "a/b;", "a/b; c", "ä/b", "a/b c", "a/" + "b" * 200]
)
def test_what_is_no_type(mimetype: str) -> None:
    assert not is_mimetype(mimetype)

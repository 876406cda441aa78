"""The generic way in: every scheme of the table of signatures, by the same rules."""

import base64
import gzip
import hmac
import re
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest

from hookgw import Invalid, ProofRefused, Unavailable
from tests.first_party.webhook_schemes import BODY, SENDERS, URL, session_of, with_headers
from tests.public.plugins import ContainedConnector, Hooks, LoadedPlugins

NAMES = list(SENDERS)
TIMED = [name for name, sender in SENDERS.items() if sender.tolerance]
DOCS = Path(__file__).parents[2] / "docs/networks/webhook.md"


@pytest.fixture
def webhook(loaded: LoadedPlugins) -> ContainedConnector:
    return Hooks(loaded).connectors()["webhook"]


def now() -> int:
    return int(time.time())


def scheme_of(module_of: Callable[[str], ModuleType], name: str) -> Any:
    return module_of("webhook").schemes.SCHEMES[name]


def test_every_scheme_has_a_sender_and_its_place_in_the_docs(module_of: Callable[[str], ModuleType]) -> None:
    schemes = module_of("webhook").schemes.SCHEMES
    assert list(schemes) == NAMES
    lines = DOCS.read_text().splitlines()
    for name, scheme in schemes.items():
        tolerance = f"{scheme.tolerance:g} s" if scheme.tolerance else "–"
        row = f"| `{name}` | `{scheme.header}` | {scheme.algorithm}, {scheme.encoding} | `{scheme.signed}` |"
        [line] = [line for line in lines if line.startswith(row)]
        assert line.split(" | ")[4] == tolerance


@pytest.mark.parametrize("name", NAMES)
async def test_a_request_of_the_sender_is_an_event(webhook: ContainedConnector, name: str) -> None:
    session = session_of(name)
    answer = await webhook.ingest(session, SENDERS[name].request(now()))
    assert 200 <= answer.status < 300
    [event] = session.events
    assert event.kind == "CALL"
    if SENDERS[name].body == BODY:
        assert event.data_json == BODY


@pytest.mark.parametrize("name", NAMES)
async def test_a_repeated_request_is_one_event(webhook: ContainedConnector, name: str) -> None:
    session = session_of(name)
    for age in (2, 1):
        await webhook.ingest(session, SENDERS[name].request(now() - age))
    assert len(session.events) == (1 if SENDERS[name].repeats else 2)


@pytest.mark.parametrize("name", NAMES)
async def test_another_secret_is_refused(webhook: ContainedConnector, name: str) -> None:
    session = session_of(name)
    with pytest.raises(ProofRefused):
        await webhook.ingest(session, SENDERS[name].request(now(), secret=SENDERS[name].other_secret))
    assert session.events == []


@pytest.mark.parametrize("name", NAMES)
async def test_what_is_signed_cannot_be_changed(
    webhook: ContainedConnector, module_of: Callable[[str], ModuleType], name: str
) -> None:
    session, genuine = session_of(name), SENDERS[name].request(now())
    forged = [msgspec.structs.replace(genuine, body=genuine.body.replace(b"CALL", b"HOAX"))]
    if name == "mercadopago":  # it signs no body
        forged = [
            msgspec.structs.replace(genuine, query={**genuine.query, "data.id": "999"}),
            with_headers(genuine, x_request_id="x"),
        ]
    if name == "twilio":
        forged.append(msgspec.structs.replace(genuine, query_string="from=twilia"))
        forged.append(msgspec.structs.replace(genuine, path="below"))
    time_header = scheme_of(module_of, name).time
    if time_header:
        forged.append(with_headers(genuine, **{time_header.replace("-", "_"): str(now() - 1)}))
    for request in forged:
        with pytest.raises(ProofRefused):
            await webhook.ingest(session, request)
    assert session.events == []


@pytest.mark.parametrize("name", NAMES)
async def test_a_missing_or_misspelled_signature_is_refused(
    webhook: ContainedConnector, module_of: Callable[[str], ModuleType], name: str
) -> None:
    session, scheme = session_of(name), scheme_of(module_of, name)
    genuine = SENDERS[name].request(now())
    shown = genuine.headers[scheme.header]
    begin = max(shown.rfind("v1="), 0) + 3 if scheme.names else len(scheme.prefix)
    before, signature = shown[:begin], shown[begin:].partition(",")[0]
    raw = bytes.fromhex(signature) if scheme.encoding == "hex" else base64.b64decode(signature)
    if name == "stripe":
        before, signature = shown.partition("v1=")[0] + "v1=", shown.partition("v1=")[2][:64]
        raw = bytes.fromhex(signature)
    other = base64.b64encode(raw).decode() if scheme.encoding == "hex" else raw.hex()
    wrong = [
        *("", before, before + other, before + signature[:-1], before + signature + "0", before + "é"),
        *(before + f" {signature}", before + signature[:2] + " " + signature[2:]),
        *(before + ("0" * len(signature)), shown.replace("=", "", 1) if before else "x"),
    ]
    if scheme.encoding == "hex":
        wrong += [before + signature.upper(), before + "0x" + signature]
    if scheme.prefix:
        wrong += [signature, scheme.prefix.upper() + signature, scheme.prefix + scheme.prefix + signature]
    for value in wrong:
        with pytest.raises(ProofRefused):
            await webhook.ingest(session, with_headers(genuine, **{scheme.header.replace("-", "_"): value}))
    assert session.events == []
    # The rest of the test would prove nothing if this were refused, too.
    value = before + signature
    await webhook.ingest(session, with_headers(genuine, **{scheme.header.replace("-", "_"): value}))
    assert len(session.events) == 1


@pytest.mark.parametrize("name", TIMED)
async def test_a_time_may_be_off_as_far_as_the_table_says(webhook: ContainedConnector, name: str) -> None:
    sender = SENDERS[name]
    for age in (sender.tolerance - 5, 5 - sender.tolerance):
        session = session_of(name)
        await webhook.ingest(session, sender.request(now() - age))
        assert len(session.events) == 1
    session = session_of(name)
    for age, said in ((sender.tolerance + 10, "s in the past"), (-10 - sender.tolerance, "s in the future")):
        with pytest.raises(ProofRefused, match=said):
            await webhook.ingest(session, sender.request(now() - age))
    assert session.events == []


@pytest.mark.parametrize("text", ["", "x", "-1", "1e9", "١", " 1795168800", "1_795_168_800", "9" * 19, "1.5"])
@pytest.mark.parametrize("name", TIMED)
async def test_a_time_that_is_none_is_refused(
    webhook: ContainedConnector, module_of: Callable[[str], ModuleType], name: str, text: str
) -> None:
    session, scheme = session_of(name), scheme_of(module_of, name)
    genuine = SENDERS[name].request(now())
    header = scheme.time or scheme.header
    shown = genuine.headers[header]
    value = text if scheme.time else re.sub(r"(ts?)=\d+", lambda found: f"{found[1]}={text}", shown, count=1)
    with pytest.raises(ProofRefused):
        await webhook.ingest(session, with_headers(genuine, **{header.replace("-", "_"): value}))


@pytest.mark.parametrize("name", [name for name in TIMED if name in ("stripe", "calendly", "mercadopago")])
async def test_a_list_has_one_time_and_any_number_of_signatures(
    webhook: ContainedConnector, module_of: Callable[[str], ModuleType], name: str
) -> None:
    session, scheme = session_of(name), scheme_of(module_of, name)
    genuine = SENDERS[name].request(now())
    shown = genuine.headers[scheme.header]
    (time_name, signature_name), header = scheme.names, scheme.header.replace("-", "_")
    stale = f"{time_name}=1,"
    for value in (stale + shown, f"{shown},{time_name}=1", f"{shown},{shown}", shown.partition(",")[2]):
        with pytest.raises(ProofRefused, match=f"must have {time_name} once"):
            await webhook.ingest(session, with_headers(genuine, **{header: value}))
    # While a secret is replaced, a sender signs with both.
    wrong = f"{signature_name}={'0' * 64}"
    at, _, rest = shown.partition(",")
    await webhook.ingest(session, with_headers(genuine, **{header: f"{at}, {wrong}, {rest}"}))
    assert len(session.events) == 1
    # Of another scheme, as Stripe's v0 is, a signature proves nothing.
    other_scheme = rest.replace(f"{signature_name}=", "v0=")
    for others in (f"{','.join([wrong] * 16)},{rest}", f"{wrong},{other_scheme}"):
        with pytest.raises(ProofRefused):
            await webhook.ingest(session, with_headers(genuine, **{header: f"{at},{others}"}))


async def test_twilio_signs_with_a_shared_key(webhook: ContainedConnector) -> None:
    """Such keys have another hash than the auth token, and the request says so."""
    session, genuine = session_of("twilio"), SENDERS["twilio"].request(now())
    fields = sorted(parse_qsl(genuine.body.decode(), keep_blank_values=True))
    content = f"{URL}?from=twilio" + "".join(name + value for name, value in fields)
    for hashed in ("sha256", "md5"):
        mac = hmac.new(SENDERS["twilio"].secret.encode(), content.encode(), hashed).digest()
        signed = with_headers(
            genuine,
            x_twilio_signature=base64.b64encode(mac).decode(),
            x_twilio_webhooks_signature_settings=f"key=k1,algorithm=HMAC_{hashed.upper()}",
        )
        with nullcontext() if hashed == "sha256" else pytest.raises(ProofRefused):
            await webhook.ingest(session, signed)
    assert len(session.events) == 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("secret", ["", None])
async def test_an_empty_secret_is_refused(webhook: ContainedConnector, name: str, secret: str | None) -> None:
    options = {"scheme": name, "kind": "/event", "secret": secret}
    with pytest.raises(Invalid, match="secret"):
        await webhook.check_options(options, public_url="https://hookgw.example")
    # An instance may have them all the same. Everybody can sign with nothing.
    session = session_of(name, secret=secret)
    with pytest.raises(Unavailable):
        await webhook.ingest(session, SENDERS[name].request(now()))


@pytest.mark.parametrize("name", NAMES)
async def test_a_header_beside_the_signature_is_needed_too(webhook: ContainedConnector, name: str) -> None:
    session = session_of(name, header="x-token", value="t0ken")
    genuine = SENDERS[name].request(now())
    for request in (genuine, with_headers(genuine, x_token="other")):
        with pytest.raises(ProofRefused, match="x-token is missing or wrong"):
            await webhook.ingest(session, request)
    await webhook.ingest(session, with_headers(genuine, x_token="t0ken"))
    assert len(session.events) == 1


@pytest.mark.parametrize(
    "raw",
    [
        BODY.decode().encode("utf-16"),
        BODY.decode().encode("utf-16-be"),
        BODY.replace(b"evt_1", b"\xe9"),
        gzip.compress(BODY),
        b"<event>CALL</event>",
        b"",
        b'--x\r\ncontent-disposition: form-data; name="event"\r\n\r\nCALL\r\n--x--\r\n',
    ],
    ids=["utf-16", "utf-16-be", "latin-1", "gzip", "xml", "empty", "multipart"],
)
@pytest.mark.parametrize("name", [name for name in NAMES if SENDERS[name].body == BODY])
async def test_a_signed_body_in_another_encoding_is_refused(
    webhook: ContainedConnector, name: str, raw: bytes
) -> None:
    session = session_of(name)
    with pytest.raises(Invalid, match="The body is not JSON"):
        await webhook.ingest(session, SENDERS[name].request(now(), body=raw))
    assert session.events == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scheme": "paypal", "secret": "planted"}, "scheme must be one of standard-webhooks, svix, github"),
        ({"scheme": 5}, "scheme must be a text"),
        (
            {"scheme": "github", "header": "x-token", "value": "planted"},
            "secret is missing: the scheme github",
        ),
        ({"scheme": "svix", "secret": "planted"}, "secret must be whsec_"),
        ({"scheme": "discord", "secret": "planted"}, "secret must be the public key of the application, 64"),
        ({"scheme": "discord", "secret": "0" * 63}, "secret must be the public key of the application, 64"),
        ({"scheme": "github", "secret": "planted", "kind": "header:"}, "kind must be a JSON pointer"),
        ({"scheme": "github", "secret": "planted", "kind": "header:x y"}, "kind must be a JSON pointer"),
        ({"scheme": "github", "secret": "planted", "time": "header:date"}, "time must be a JSON pointer"),
        ({"scheme": "twilio", "secret": "planted"}, "scheme needs the setting server.public_url"),
    ],
)
async def test_wrong_options_of_a_scheme_are_refused(
    webhook: ContainedConnector, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(Invalid) as caught:
        await webhook.check_options({"kind": "/event", **options}, public_url=None)
    [sentence] = caught.value.messages
    assert sentence.startswith(said)
    assert "planted" not in sentence

import datetime

import msgspec
import trustme

from hookgw import Registration
from tests.public.kernel import MASK
from tests.public.records import NO_IDENTITY, TlsIdentity, expired_part
from tests.support.certificates import certificate_of, pem_of

AUTHORITY = trustme.CA()
END = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)


def test_the_key_is_in_no_repr() -> None:
    certificate, key = certificate_of(AUTHORITY)
    identity = TlsIdentity(pem_of(AUTHORITY), certificate, key, "receiver.internal")
    assert repr(identity) == (
        f"TlsIdentity(ca={MASK}, client_certificate={MASK}, client_key={MASK}, "
        "server_name='receiver.internal')"
    )
    registration = Registration(id="reg_1", instance="shop", url="https://a.example/", tls=identity)
    assert "BEGIN" not in repr(registration)


def test_a_registration_without_an_identity_stores_none() -> None:
    registration = Registration(id="reg_1", instance="shop", url="https://a.example/")
    stored = msgspec.json.decode(msgspec.json.encode(registration))
    assert stored["tls"] == {}


def test_an_identity_survives_storing() -> None:
    certificate, key = certificate_of(AUTHORITY)
    identity = TlsIdentity(pem_of(AUTHORITY), certificate, key, "receiver.internal")
    registration = Registration(id="reg_1", instance="shop", url="https://a.example/", tls=identity)
    assert msgspec.json.decode(msgspec.json.encode(registration), type=Registration) == registration


def test_an_expired_certificate_is_named() -> None:
    certificate, key = certificate_of(AUTHORITY, not_after=END)
    identity = TlsIdentity(client_certificate=certificate, client_key=key)
    assert expired_part(identity, END.timestamp() - 1) is None
    assert expired_part(identity, END.timestamp() + 1) == (
        "tls.clientCertificate expired on 2030-01-01T00:00:00.000Z."
    )


def test_authorities_have_expired_once_the_last_of_them_has() -> None:
    early, _ = certificate_of(AUTHORITY, not_after=END)
    late, _ = certificate_of(AUTHORITY, not_after=END + datetime.timedelta(days=1))
    identity = TlsIdentity(ca=early + late)
    assert expired_part(identity, END.timestamp() + 1) is None
    assert expired_part(identity, END.timestamp() + 90_000) == "tls.ca expired on 2030-01-02T00:00:00.000Z."
    assert expired_part(NO_IDENTITY, END.timestamp()) is None

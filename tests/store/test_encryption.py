import base64
import subprocess
import sys

import pytest

from tests.public.config import new_master_key, parse_master_key
from tests.public.store import PREFIX, DecryptionFailed, RecordCipher, encrypted_with, key_id

KEY, OTHER = bytes(range(32)), bytes(32)
PLACE = b"registrations\0reg_1"


def test_a_record_opens_in_its_place() -> None:
    cipher = RecordCipher(KEY)
    sealed = cipher.encrypt(PLACE, b'{"url":"x"}')
    assert sealed.startswith(f"sealed:v1:{key_id(KEY)}:")
    assert "url" not in str(base64.b64decode(sealed.rpartition(":")[2]))
    assert cipher.decrypt(PLACE, sealed) == b'{"url":"x"}'


def test_no_two_sealed_records_are_alike() -> None:
    cipher = RecordCipher(KEY)
    assert len({cipher.encrypt(PLACE, b"same") for _ in range(100)}) == 100


@pytest.mark.parametrize("place", [b"registrations\0reg_2", b"instances\0reg_1", b""])
def test_a_record_does_not_open_in_another_place(place: bytes) -> None:
    cipher = RecordCipher(KEY)
    with pytest.raises(DecryptionFailed, match="place of another record"):
        cipher.decrypt(place, cipher.encrypt(PLACE, b"x"))


@pytest.mark.parametrize("at", [0, 11, 12, 20, -1])
def test_a_changed_record_does_not_open(at: int) -> None:
    cipher = RecordCipher(KEY)
    head, _, content = cipher.encrypt(PLACE, b"a longer record").rpartition(":")
    changed = bytearray(base64.b64decode(content))
    changed[at] ^= 1
    with pytest.raises(DecryptionFailed, match="changed"):
        cipher.decrypt(PLACE, f"{head}:{base64.b64encode(changed).decode()}")


@pytest.mark.parametrize("content", ["", "AAAA", "no base64!", "é"])
def test_a_record_that_was_cut_off_or_garbled_does_not_open(content: str) -> None:
    with pytest.raises(DecryptionFailed, match="changed"):
        RecordCipher(KEY).decrypt(PLACE, f"{PREFIX}{key_id(KEY)}:{content}")


def test_what_is_in_the_clear_is_not_taken_for_sealed() -> None:
    with pytest.raises(DecryptionFailed, match="in the clear"):
        RecordCipher(KEY).decrypt(PLACE, '{"url":"x"}')


def test_an_old_key_opens_and_does_not_seal() -> None:
    old = RecordCipher(OTHER).encrypt(PLACE, b"x")
    both = RecordCipher(KEY, [OTHER])
    assert both.decrypt(PLACE, old) == b"x"
    assert encrypted_with(both.encrypt(PLACE, b"x")) == key_id(KEY) != key_id(OTHER)
    with pytest.raises(DecryptionFailed, match=f"master key {key_id(OTHER)}, which is not configured"):
        RecordCipher(KEY).decrypt(PLACE, old)


def test_the_id_of_the_key_says_nothing_of_it() -> None:
    assert key_id(KEY) != KEY.hex()[:16]
    assert len(key_id(KEY)) == 16


@pytest.mark.parametrize(
    ("record", "found"),
    [
        (f'"{PREFIX}0123456789abcdef:AAAA"', "0123456789abcdef"),
        (f"{PREFIX}0123456789abcdef:AAAA".encode(), "0123456789abcdef"),
        ("{}", None),
        (b"\xff", None),
        ('"sealed"', None),
    ],
)
def test_which_key_a_record_is_encrypted_with(record: str | bytes, found: str | None) -> None:
    assert encrypted_with(record) == found


def test_new_keys_are_read_back() -> None:
    made = new_master_key()
    assert len(parse_master_key(made)) == 32
    assert made != new_master_key()


@pytest.mark.parametrize("more", ["", "\n", "  "])
def test_both_alphabets_of_base64_are_read(more: str) -> None:
    key = bytes([0xFB, 0xFF] * 16)
    assert parse_master_key(base64.b64encode(key).decode() + more) == key
    assert parse_master_key(base64.urlsafe_b64encode(key).decode() + more) == key


@pytest.mark.parametrize("length", [0, 16, 31, 33, 64])
def test_other_lengths_are_refused(length: int) -> None:
    text = base64.b64encode(bytes([7] * length)).decode()
    with pytest.raises(ValueError, match="base64 of 32 bytes") as caught:
        parse_master_key(text)
    assert not text or text not in str(caught.value)


@pytest.mark.parametrize("text", ["hunter2", "ä" * 44, "*" * 44, "A" * 43])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="base64 of 32 bytes") as caught:
        parse_master_key(text)
    assert text not in str(caught.value)


def test_without_a_key_nothing_of_it_is_imported() -> None:
    source = "import sys, hookgw.app.gateway, hookgw.app.serve; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", source], check=False).returncode == 0

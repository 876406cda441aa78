import base64
import subprocess
import sys

import pytest

from tests.public.kernel import (
    Signature,
    check_secret_form,
    make_secret,
    public_key_of,
    signature_of,
    signing_key,
    verifying_key,
)

PRIVATE_KEY = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
PUBLIC_KEY = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="


def test_the_public_half_of_the_published_key() -> None:
    assert public_key_of(PRIVATE_KEY) == PUBLIC_KEY


@pytest.mark.parametrize("signature", list(Signature))
def test_fresh_secrets(signature: Signature) -> None:
    secret = make_secret(signature)
    check_secret_form(secret)
    assert signature_of(secret) is signature
    assert make_secret(signature) != secret


def test_the_public_key_says_nothing_of_the_seed() -> None:
    secret = make_secret(Signature.V1A)
    seed = base64.b64decode(secret.removeprefix("whsk_"))[:32]
    public = base64.b64decode(public_key_of(secret).removeprefix("whpk_"))
    assert len(public) == 32
    assert public != seed


@pytest.mark.parametrize(
    "text",
    ["", "whsec_", "whsec_!", "whpk_", "whpk_AAAA", "whpk_é", "whsk_AAAA", "secret", PUBLIC_KEY + "AAAA"],
)
def test_malformed_verifying_keys_are_refused(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        verifying_key(text)
    assert len(text) < 8 or text not in str(caught.value)


def test_a_shared_secret_signs_and_verifies_with_the_same_bytes() -> None:
    assert signing_key("whsec_" + "A" * 32) == verifying_key("whsec_" + "A" * 32) == bytes(24)


def test_ed25519_is_imported_with_the_first_such_key() -> None:
    source = """if True:
        import sys
        from hookgw.kernel.signing_keys import Signature, make_secret
        make_secret(Signature.V1)
        sys.exit("cryptography" in sys.modules)"""
    assert subprocess.run([sys.executable, "-c", source], check=False).returncode == 0

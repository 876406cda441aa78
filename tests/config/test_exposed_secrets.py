from __future__ import annotations

from pathlib import Path

import pytest

from hookgw.config.exposed_secrets import exposed_secrets

TEXT = """
auth: {global_key: a-key-in-the-file}
operations:
  url: https://user:password@ops.example/x
  secret: "${OPS_SECRET}"
  headers: {authorization: Bearer x, x-y: "${Y:-}"}
global_webhooks:
  - {url: "https://example.org/a@b", webhook: {headers: {x-key: k}}, secret: whsec_x}
storage: {master_key: null, old_master_keys: [one, "${TWO}"]}
"""
EXPOSED = [
    "auth.global_key",
    "operations.url",
    "operations.headers.authorization",
    "global_webhooks[0].webhook.headers.x-key",
    "global_webhooks[0].secret",
    "storage.old_master_keys[0]",
]


@pytest.mark.parametrize(("mode", "found"), [(0o644, EXPOSED), (0o604, EXPOSED), (0o640, []), (0o600, [])])
def test_secrets_that_others_can_read(tmp_path: Path, mode: int, found: list[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(TEXT)
    file.chmod(mode)
    assert exposed_secrets(file) == found


def test_the_example_has_none() -> None:
    assert exposed_secrets(Path(__file__).parents[2] / "config.example.yaml") == []

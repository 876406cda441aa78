"""Messages as programs in Go write them, under the names of Baileys."""

from typing import Any

import pytest

from hookgw.connectors import baileys_names


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ({"orderID": "1", "sellerJID": "2"}, {"orderId": "1", "sellerJid": "2"}),
        ({"JPEGThumbnail": "/9j/", "URL": "https://"}, {"jpegThumbnail": "/9j/", "url": "https://"}),
        ({"sections": [{"rows": [{"rowID": "1"}]}]}, {"sections": [{"rows": [{"rowId": "1"}]}]}),
        # One of several fields is in an object of its own, which is null without any.
        ({"Media": {"ImageMessage": {"caption": "hi"}}}, {"imageMessage": {"caption": "hi"}}),
        ({"Media": None, "caption": None}, {"caption": None}),
        # The first of two that have one name.
        ({"url": 1, "URL": 2}, {"url": 1}),
        ([{"rowID": 1}], [{"rowId": 1}]),
        ("rowID", "rowID"),
        (None, None),
    ],
)
def test_names(written: Any, named: Any) -> None:
    assert baileys_names(written) == named

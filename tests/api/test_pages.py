from tests.public.web import page_headers


def test_a_page_loads_nothing_and_has_no_styles() -> None:
    assert page_headers()["content-security-policy"].startswith("default-src 'none'; style-src 'none'; ")


def test_no_page_can_be_framed_or_tell_where_its_reader_was() -> None:
    headers = page_headers()
    assert headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["referrer-policy"] == "no-referrer"

from hookgw.web import page_headers


def test_nothing_counts_but_the_styles_of_the_page() -> None:
    def styles(*given: str) -> str:
        policy = page_headers(*given)["content-security-policy"]
        return dict(part.strip().split(" ", 1) for part in policy.split(";"))["style-src"]

    empty = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    assert (styles(), styles(""), styles("", "")) == ("'none'", empty, f"{empty} {empty}")


def test_no_page_can_be_framed_or_tell_where_its_reader_was() -> None:
    headers = page_headers()
    assert headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["referrer-policy"] == "no-referrer"

from hookgw.web import FirstHeaders


def test_the_first_of_several_headers_counts() -> None:
    headers = FirstHeaders([(b"A", b"1"), (b"a", b"2"), (b"b", b"\xe9")])
    assert (headers.get("a"), headers.get("A"), headers.get("B"), headers.get("c")) == ("1", "1", "é", None)

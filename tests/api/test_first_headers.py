from tests.public.web import FirstHeaders


def test_the_first_of_several_headers_counts() -> None:
    headers = FirstHeaders([(b"A", b"1"), (b"a", b"2"), (b"b", b"\xe9")])
    assert headers == {"a": "1", "b": "é"}
    assert (headers.get("c"), headers.getlist("A")) == (None, ["1", "2"])

"""What every refusal has in common."""


def check_sentences(*sentences: str, printable: bool = True, hidden: str = "\0") -> None:
    """A refusal has something to say, in whole sentences, and on one line each.

    Args:
        printable: false where names may stand as they came, because they are the operator's own.
        hidden: what must not be repeated.
    """
    assert sentences
    for sentence in sentences:
        assert sentence.endswith((".", "?"))
        assert sentence.strip() == sentence
        assert sentence.isprintable() or not printable
        assert hidden not in sentence

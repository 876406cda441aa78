from tests.public.instances import qr_blocks


def test_a_code_is_a_square_of_blocks() -> None:
    lines = qr_blocks("2@AbCdEf").splitlines()
    assert len({len(line) for line in lines}) == 1
    assert set("".join(lines)) <= set(" █▀▄")
    # A line has two rows of modules, and a character one column.
    assert abs(len(lines[0]) - 2 * len(lines)) <= 1
    # The corner: a dark ring of seven modules inside the light margin.
    assert lines[1].startswith("██ ▄▄▄▄▄ █")

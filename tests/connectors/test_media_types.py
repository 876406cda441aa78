"""Names of files and media types, without the tables of the machine."""

import ast
from pathlib import Path

import pytest

from hookgw.connectors import guess_mimetype, suffix_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "mimetype"),
    [
        ("menu.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("prices.xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        ("voice.oga", "audio/ogg"),
        ("PHOTO.JPG", "image/jpeg"),
        ("sticker.webp", "image/webp"),
        ("https://x.example/a/song.m4a", "audio/mp4"),
        ("http://[x/a/song.mp3", "audio/mpeg"),  # no URL, which Python 3.13 would refuse
        ("clip.3gp", "video/3gpp"),
        ("ana.vcf", "text/vcard"),
        ("menu.pdf", "application/pdf"),
        ("notes.txt.gz", "application/gzip"),
        ("dump.sql.bz2", "application/x-bzip2"),
        ("backup.tar.xz", "application/x-xz"),
    ],
)
def test_what_people_send_is_known_by_its_name_and_gets_one(name: str, mimetype: str) -> None:
    assert guess_mimetype(name) == mimetype
    assert suffix_of(f"{mimetype} ; a=b") == "." + name.lower().rpartition(".")[2]


@pytest.mark.parametrize("nothing", ["", "menu", "menu.", ".docx", "a.unknown"])
def test_what_tells_nothing(nothing: str) -> None:
    assert guess_mimetype(nothing) is None
    assert suffix_of(nothing) == ""


def test_a_voice_message_and_an_archive_are_known_by_both_of_their_names() -> None:
    assert guess_mimetype("voice.ogg") == guess_mimetype("voice.oga")
    assert guess_mimetype("backup.tgz") == guess_mimetype("backup.tar.gz")


def test_nobody_asks_the_machine() -> None:
    """In an image without ``/etc/mime.types``, a document had no type there, and a network refused it."""
    asking = [
        str(file.relative_to(ROOT))
        for folder in ("hookgw", "plugins")
        for file in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import) and any(one.name == "mimetypes" for one in node.names)
    ]
    assert asking == ["hookgw/connectors/media_types.py"]

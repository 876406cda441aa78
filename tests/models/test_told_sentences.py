"""Sentences that are English where they are made, in the language of a reader."""

import datetime
from collections.abc import Callable

import pytest

from tests.public.delivery import describe_response
from tests.public.kernel import Invalid, Sentence, check_secret, check_url, in_language
from tests.public.operations import cause_of_closing, cause_of_disabling
from tests.public.records import check_name, parse_tag, sentence_text
from tests.public.site import json_of, parse_moment
from tests.public.webhooks import parse_grace

_NAME_RULE = "deve ter de 1 a 128 letras (A-Z, a-z), dígitos, '.', '_' ou '-', e não ser '.' nem '..'."


def test_a_text_of_several_sentences_is_translated_one_by_one() -> None:
    said = f"{describe_response(500, None)} The retry schedule is exhausted (failed attempts: 12)."
    with in_language("pt_BR"):
        assert sentence_text(said) == (
            "O destino respondeu 500 Internal Server Error. "
            "As tentativas se esgotaram (tentativas com falha: 12)."
        )
        # What a plugin or a network says stays as it is, also between others.
        assert sentence_text(f"Out of paper. {describe_response(410, None)} Ask them.") == (
            "Out of paper. O destino respondeu 410 Gone. Ask them."
        )
        assert sentence_text("") == ""
        late = sentence_text(describe_response(503, None, seconds=20.0))
        assert late.startswith("O destino respondeu 503 Service Unavailable. Demorou muito, então um ")


@pytest.mark.parametrize(
    "said", ["Out. " * 390, "x. Y " * 1_000, "rota does not run: " * 500, "a b. " * 30 + "c"]
)
def test_whatever_a_plugin_says_has_an_end(said: str) -> None:
    with in_language("es"):
        assert sentence_text(f"{said}z").endswith("z")
        assert sentence_text(said).count(" ") >= 30


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (cause_of_disabling("https://crm.example/x", "The receiver answered 410 Gone."),
         "crm.example responde 410: webhooks desactivados"),
        (cause_of_closing("The network logged the account out."),
         "No conectada: The network logged the account out"),
        ("No connection to port 9 of 127.0.0.1: Connection refused.",
         "Sin conexión con el puerto 9 de 127.0.0.1: Conexión rechazada."),
        ("Disabled. It failed for 60 s without one success.",
         "Desactivado. Falló durante 60 s sin ningún éxito."),
        ("The receiver did not respond within 10 s.", "El destino no respondió en 10 s."),
        ("The disk has 1,234 MiB left for events, less than storage.min_free (2GiB).",
         "El disco tiene 1.234 MiB libres para eventos, menos que storage.min_free (2GiB)."),
        ("1,234 deliveries became dead letters within 1h.",
         "1.234 entregas pasaron a ser entregas muertas en 1h."),
        ("This is a test of the channel phone. Nothing is wrong.",
         "Esta es una prueba del canal phone. No hay ningún problema."),
        ("The node does not answer.", "El nodo no responde."),
        # Why an account is not connected: other nodes, and commands, get the English text alone.
        ("The connector 'x' is not available: its plugin is disabled or not installed. Known connectors: a.",
         ("El conector 'x' no está disponible: su plugin está desactivado o no está instalado. Conectores "
          "conocidos: a.")),
        (("No connector is set up for WHATSAPP-BAILEYS: events come only over HTTP. Name one in "
          "instances.integrations, and create the instance again."),
         ("No hay ningún conector configurado para WHATSAPP-BAILEYS: los eventos llegan solo por HTTP. "
          "Indique uno en instances.integrations y vuelva a crear la instancia.")),
        ("The target address was refused until the event was older than max_age (60 s).",
         "La dirección de destino fue rechazada hasta que el evento superó max_age (60 s)."),
    ],
)  # fmt: skip
def test_composed_sentences(said: str, told: str) -> None:
    with in_language("es"):
        assert sentence_text(said) == told
    with in_language("en"):
        assert sentence_text(said) == said


def test_an_error_is_translated_by_its_template() -> None:
    long = Sentence(
        "media.reference_length", "A reference to a file has 1 to {longest:,} characters.", longest=12345
    )
    missing = Sentence("field.missing", "{where} is missing.", where="url").at("events[1].")
    with in_language("es"):
        assert sentence_text(long) == "Una referencia a un archivo tiene de 1 a 12.345 caracteres."
        assert sentence_text(missing) == "falta events[1].url."
        assert (
            sentence_text(Sentence("plugin.none", "Nobody translates {this}.", this="it"))
            == "Nobody translates it."
        )


@pytest.mark.parametrize(
    ("check", "told"),
    [
        (
            lambda: parse_tag("acme"),
            "cada um deles é de 1 a 64 letras (A-Z, a-z), dígitos, '.', '_', '@' ou '-'.",
        ),
        (
            lambda: parse_moment("x", "From", 0.0, datetime.UTC),
            "De deve ser um horário como 2h para duas horas atrás, hoje 14:00 ou 2026-11-20 14:00, não 'x'.",
        ),
        (
            lambda: parse_grace({"grace": "[1"}),
            "esperado: uma duração como 200ms, 5s, 10m, 1h ou 3d; recebido: '[1'.",
        ),
        (
            lambda: check_url("localhost", "The URL"),
            "A URL: A URL deve começar com http:// ou https://, como em https://example.com/hook.",
        ),
        (lambda: check_name("a b", "The name"), f"O nome {_NAME_RULE}"),
        (lambda: json_of("[1", "The data"), "O conteúdo não é JSON: Input data was truncated."),
        (
            lambda: check_secret("whsec_eA==", "secret"),
            "secret deve ser whsec_ seguido do base64 de 24 a 64 bytes.",
        ),
    ],
)
def test_what_an_error_says_of_a_value_is_translated(check: Callable[[], object], told: str) -> None:
    with in_language("pt_BR"):
        with pytest.raises(Invalid) as caught:
            check()
        assert sentence_text(caught.value.messages[0]).endswith(told)


def test_a_name_in_an_error_stays_as_it_is() -> None:
    with in_language("pt_BR"):
        assert sentence_text(Sentence("plugin.none", "No {name}.", name="From")) == "No From."

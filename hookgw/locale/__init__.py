"""The catalogues of translations: ``<language>/LC_MESSAGES/hookgw.po``, one for each language but English.

The English sentences in the code are the keys. Translators edit the ``.po`` files; ``nox -s texts`` adds what
the code has more, and says what is not translated yet. Wheels have compiled catalogues (``.mo``) instead.
"""

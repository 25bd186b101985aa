"""A text for a ticket: what may be a secret in it is hidden, and what remains is of use."""

from __future__ import annotations

import re

HIDDEN = "(hidden)"

_SECRET_WORDS = r"token|secret|passw\w*|passphrase|pwd|key|jwt|credential\w*|webhook|cookie|auth\w*"
#: Variables with such a part of their name hold nothing but a secret.
_SECRET_NAME = re.compile(rf"(?:^|_)(?:\w*(?:{_SECRET_WORDS})s?)(?:_|$)", re.IGNORECASE)
#: `Authorization: Bearer X`, `--token X`, `password=X`, and curl's `-u NAME:X`.
_NAMED = re.compile(
    rf"((?:\b|_)(?:{_SECRET_WORDS})s?[\"']?\s*[=:]\s*(?:(?:bearer|basic)\s+)?"
    rf"|(?:^|\s)--?(?:[\w-]+-)?(?:{_SECRET_WORDS})s?\s+"
    r"|(?:^|\s)(?:-u|--user)[=\s]\s*)"
    r"(\"[^\"]*\"|'[^']*'|\S+)",
    re.IGNORECASE,
)
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)([^\s\"'<>`]*)")
#: The host, and the port, of a URL that names no user.
_HOST = re.compile(r"[A-Za-z0-9_.:\[\]-]+")
_WORD = re.compile(r"[^\s=,:;'\"]+")
#: A part of a word that was not chosen as a name: long, with letters and digits.
_OPAQUE = re.compile(r"(?=[^./]*\d)(?=[^./]*[A-Za-z])[^./]{20,}")


def variable(name: str, value: str) -> str:
    """The value of a variable of the environment, without what may be a secret."""
    if value and _SECRET_NAME.search(name):
        return HIDDEN
    return _WORD.sub(lambda found: _hide_opaque(found[0]), text(value))


def text(words: str) -> str:
    """A message or a command without the secrets that a name or a URL marks as such.

    Of a URL the scheme and the host remain, and only the scheme if it names a user: of
    `user:p/w@host` a careless reader would take `user:p` for the host.
    """
    return _NAMED.sub(rf"\1{HIDDEN}", _URL.sub(_hide_in_url, words))


def _hide_in_url(found: re.Match[str]) -> str:
    scheme, rest = found.groups()
    host = _HOST.match(rest)
    if "@" in rest or host is None:
        return f"{scheme}{HIDDEN}" if rest else scheme
    behind = rest[host.end() :]
    return scheme + host[0] + ("" if behind in ("", "/") else f"/{HIDDEN}")


def _hide_opaque(word: str) -> str:
    """A word as it is if it is a path from the root, or if all its parts are short or plain."""
    is_path = word.startswith(("/", "~", "./", "../"))
    return word if is_path or not _OPAQUE.search(word) else HIDDEN

"""The URL that a WDT receiver prints, which holds the transfer's encryption key.

The key must not reach a shared file, a log, an exit line, or the arguments of a process. So the
runner reads the receiver's stdout and stderr through pipes, `keep_redacted` writes what may be
kept, and the URL goes to the sender sealed with a secret that only the job's own tasks have: the
job's script makes it (`MAKE_SECRET`), and srun hands it on in the environment, which other users
of a node cannot read. The sender reads the URL from its stdin.

    receiver = Popen(wdt.receiver_argv(...), stdout=PIPE, stderr=PIPE)
    keep_redacted(receiver.stdout, "server.out", on_url)        # one thread for each pipe
    on_url: write_whole("ready.json", {..., "sealed_url": seal(url, job_secret(os.environ))})
    sender = Popen(wdt.sender_argv(...), stdin=PIPE, stderr=PIPE)
    sender.communicate(unseal(ready["sealed_url"], job_secret(os.environ)) + "\n")
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

SECRET_VARIABLE = "RAILGAUGE_JOB_SECRET"
#: A line for the job's script, before srun. The secret is made when the job runs, so that neither
#: the script nor Slurm's record of the submission holds it.
MAKE_SECRET = f'export {SECRET_VARIABLE}="$(od -An -v -N32 -tx1 /dev/urandom | tr -d " \\n")"'

#: what stands in place of a key
REDACTED = "[redacted]"

_NONCE_BYTES = 16
_TAG_BYTES = 32

_URL = re.compile(r"\s*(wdt://\S+)\s*")
# WDT writes the URL's parameters, what it could not decode of a key, and a hash of the key.
_KEYS = (
    re.compile(r"(\benc(?:=|%3d))[^&\s\"'<>\\]+", re.IGNORECASE),
    re.compile(r"(encryption data from \"?)[^\"\s]+", re.IGNORECASE),
    re.compile(r"(type still none when ':' reached )\S+", re.IGNORECASE),
    re.compile(r"(Not hex found -?[0-9]+ in )\S+", re.IGNORECASE),
    re.compile(r"(test_only_encryption_secret[= ])\S+", re.IGNORECASE),
    re.compile(r"(New encryption params \S+ )\S+", re.IGNORECASE),
    re.compile(r"(\b[0-9a-f](?::|%3a))(?:[0-9a-f]{16,}|\.\.\.[0-9]+\.\.\.)", re.IGNORECASE),
)


def redacted(text: str) -> str:
    """`text` without any encryption key of WDT, and without the hash that WDT logs of a key.

    Whole lines only: a key whose beginning is in another piece of text cannot be recognised.
    """
    for key in _KEYS:
        text = key.sub(rf"\g<1>{REDACTED}", text)
    return text


def url_in(line: str) -> str | None:
    """The connection URL, where the line is one."""
    matched = _URL.fullmatch(line)
    return matched[1] if matched else None


def keep_redacted(
    source: IO[bytes], path: str | Path, on_url: Callable[[str], None] = lambda url: None
) -> None:
    """Copy a tool's output to `path` until it ends, line by line and without keys.

    `on_url` gets every connection URL, with its key. A line is written when it is complete, so
    that no key is cut in two.
    """
    with Path(path).open("w", encoding="utf-8") as kept:
        for raw in source:
            line = raw.decode("utf-8", "replace")
            kept.write(redacted(line))
            kept.flush()
            url = url_in(line)
            if url is not None:
                on_url(url)


def job_secret(environment: Mapping[str, str]) -> bytes:
    """The secret of this job's tasks; ValueError where the job's script has made none."""
    try:
        secret = bytes.fromhex(environment.get(SECRET_VARIABLE, ""))
    except ValueError:
        secret = b""
    if len(secret) < 32:
        raise ValueError(
            f"{SECRET_VARIABLE} is not 32 random bytes in hex: the job's script must make it "
            "before srun"
        )
    return secret


def seal(text: str, secret: bytes) -> str:
    """`text` such that only who has the secret can read it, and a change of it is noticed."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    hidden = _masked(text.encode(), nonce, secret)
    return base64.b64encode(nonce + hidden + _tag(nonce + hidden, secret)).decode("ascii")


def unseal(sealed: str, secret: bytes) -> str:
    """What was sealed; ValueError where it was changed, or sealed with another secret."""
    try:
        raw = base64.b64decode(sealed, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    body, tag = raw[:-_TAG_BYTES], raw[-_TAG_BYTES:]
    whole = len(body) >= _NONCE_BYTES and base64.b64encode(raw).decode("ascii") == sealed
    if not whole or not hmac.compare_digest(tag, _tag(body, secret)):
        raise ValueError("the sealed URL was changed, or sealed in another job")
    return _masked(body[_NONCE_BYTES:], body[:_NONCE_BYTES], secret).decode()


def _masked(text: bytes, nonce: bytes, secret: bytes) -> bytes:
    mask = hashlib.shake_256(b"railgauge mask" + secret + nonce).digest(len(text))
    return bytes(a ^ b for a, b in zip(text, mask))


def _tag(body: bytes, secret: bytes) -> bytes:
    return hmac.new(b"railgauge tag" + secret, body, hashlib.sha256).digest()

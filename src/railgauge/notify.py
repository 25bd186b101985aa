"""Messages to the site's commands, kept on disk until a command takes them.

notify/waiting/<date>-<key>.json    a message that no command has taken
notify/given-up/<the same name>     one that waited longer than AGE_LIMIT_S, or that is damaged

A message is written before its command runs, and removed after the command has succeeded. If a
process ends in between, the next one runs the command again with the same key. A receiver that
knows the key drops the second message. So a message arrives at least once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pydantic

from railgauge import hooks, paths
from railgauge.common.atomic import write_json
from railgauge.common.errors import PrerequisiteError
from railgauge.hooks import HookError, Say

#: The environment of the command has the key of the message by this name.
KEY_VARIABLE = "RAILGAUGE_NOTIFY_KEY"

#: A message that waited longer is moved to given-up/.
AGE_LIMIT_S = 7 * 24 * 3600

#: Between the attempts of a new message. A command that took too long is not tried again at once.
_PAUSES_S = (1.0, 4.0)


@dataclasses.dataclass(frozen=True)
class Message:
    """`variable` names the command, which gets `arguments`. `problem` is the last one, "" before
    the first attempt.
    """

    key: str
    variable: str
    arguments: list[str]
    since: pydantic.AwareDatetime
    attempts: int = 0
    problem: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "since": self.since.isoformat(timespec="seconds")}


_MESSAGE = pydantic.TypeAdapter(Message)


def key_of(*parts: str) -> str:
    """32 hexadecimal digits: the same for the same parts."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def folder() -> Path:
    return paths.results_root() / "notify"


def send(variable: str, arguments: Sequence[str], key: str, say: Say) -> None:
    """Give a message to the command of that variable, then those that wait.

    Nothing happens if the variable is not set. No problem is an error of the caller: it is said,
    and the message waits for the next `send` or `send_waiting`.
    """
    if not hooks.is_set(variable):
        return
    now = _now()
    message = Message(key, variable, list(arguments), now)
    try:
        path = folder() / "waiting" / f"{now:%Y%m%dT%H%M%SZ}-{key}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        known = next(path.parent.glob(f"*-{key}.json"), None)
        if known is None:
            write_json(path, message.as_dict())
        path = known or path
    except (OSError, PrerequisiteError) as error:
        say(f"{variable}: the message cannot be kept: {error}; it is sent only now")
        _call(message, say)
        return
    for pause_s in (*_PAUSES_S, None):
        problem = _attempt(path, say)
        if problem is None or problem.is_late or pause_s is None:
            break
        time.sleep(pause_s)
    if problem is None:
        send_waiting(say)
    else:
        say(f"{variable}: the message waits in {path}; next: railgauge notify sends it again")


def send_waiting(say: Say) -> None:
    """Give each message that waits to its command, the oldest first.

    After a failure of a command its other messages wait for the next time.
    """
    failed: set[str] = set()
    for path, message in waiting():
        age_s = (_now() - message.since).total_seconds()
        if age_s > AGE_LIMIT_S:
            days = AGE_LIMIT_S / 86400
            _give_up(path, f"{message.variable}: gave up after {days:g} days", say)
        elif message.variable not in failed and _attempt(path, say) is not None:
            failed.add(message.variable)
    for path in sorted(_files("waiting")):
        if _is_damaged(path):
            _give_up(path, "a damaged message", say)


def waiting() -> list[tuple[Path, Message]]:
    """The messages that no command has taken, the oldest first, without those of other users."""
    found = ((path, _read(path)) for path in sorted(_files("waiting")))
    return [(path, message) for path, message in found if message is not None]


def given_up() -> list[Path]:
    return sorted(_files("given-up"))


def _attempt(path: Path, say: Say) -> HookError | None:
    """Run the command once, unless another process does so, and remove the message if it succeeds.

    The problem if it fails.
    """
    with _locked(path) as message:
        if message is None:
            return None
        problem = _call(message, say)
        if problem is None:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                say(f"{path}: cannot be removed: {error.strerror}; the message arrives again")
            return None
        tried = dataclasses.replace(message, attempts=message.attempts + 1, problem=str(problem))
        with contextlib.suppress(OSError):
            write_json(path, tried.as_dict())
        return problem


def _call(message: Message, say: Say) -> HookError | None:
    try:
        hooks.call(message.variable, message.arguments, {KEY_VARIABLE: message.key})
    except HookError as error:
        say(f"{message.variable}: the command failed: {error}")
        return error
    return None


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[Message | None]:
    """The message, held by this process; None if another one holds it or has sent it."""
    lock = path.parent.parent / "lock" / path.name
    try:
        lock.parent.mkdir(exist_ok=True)
        stream = lock.open("a")
    except OSError:
        # Without locks a message may arrive twice, with the same key.
        yield _read(path)
        return
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        except OSError:
            pass
        yield _read(path)
        if not path.exists():
            lock.unlink(missing_ok=True)


def _read(path: Path) -> Message | None:
    """None if it is gone, damaged, or cannot be read by this user."""
    try:
        return _MESSAGE.validate_json(path.read_bytes())
    except (OSError, ValueError):
        return None


def _is_damaged(path: Path) -> bool:
    try:
        _MESSAGE.validate_json(path.read_bytes())
    except OSError:
        return False
    except ValueError:
        return True
    return False


def _give_up(path: Path, why: str, say: Say) -> None:
    kept = folder() / "given-up" / path.name
    try:
        kept.parent.mkdir(exist_ok=True)
        path.replace(kept)
    except OSError as error:
        say(f"{why}: {path} cannot be moved: {error.strerror}")
        return
    say(f"{why}: {kept}")


def _files(name: str) -> list[Path]:
    """Those that this user may write."""
    found = (folder() / name).glob("[!.]*.json")
    return [path for path in found if os.access(path, os.W_OK)]


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)

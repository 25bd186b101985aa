"""Whether Slurm lets this user do what the gate needs; checked before anything is changed.

Slurm looks at the user's right first and at the request then, so a request about a node or a
reservation that does not exist shows whether the right is there, and changes nothing. By Slurm's
source (src/slurmctld/proc_req.c, branches slurm-21.08 to slurm-26.05, all alike):

    nodes: drain, resume       _slurm_rpc_update_node   validate_super_user  root, SlurmUser, admin
    reservations: make, renew  _slurm_rpc_resv_create   validate_operator    these, operator

Admin levels are accounting's (sacctmgr(1), AdminLevel): without slurmdbd no user has one.
"""

from __future__ import annotations

import dataclasses
import getpass
import re
from collections.abc import Callable

from railgauge.common.errors import PrerequisiteError
from railgauge.slurm import client
from railgauge.slurm.client import SlurmError

#: The name of no node and of no reservation.
_NOTHING = "railgauge-no-such-name"

#: slurm_errno.c of 21.08 to 26.05: ESLURM_USER_ID_MISSING, ESLURM_ACCESS_DENIED
_REFUSED = re.compile(r"Invalid user id|Access/permission denied")


@dataclasses.dataclass(frozen=True)
class MissingRight:
    """A right that this user lacks: for what, what Slurm says, who grants it, what to type next."""

    step: str
    problem: str
    expected: str
    next_step: str

    def __str__(self) -> str:
        return f"{self.problem} ({self.expected})"


@dataclasses.dataclass(frozen=True)
class _Right:
    """`probe` is refused without the right; with it Slurm says `allowed`, and has done nothing."""

    step: str
    level: str
    probe: tuple[str, ...]
    #: slurm_errno.c: ESLURM_INVALID_NODE_NAME, ESLURM_RESERVATION_INVALID
    allowed: str


_RIGHTS = (
    _Right(
        "drain and resume nodes",
        "admin",
        ("scontrol", "update", f"nodename={_NOTHING}", "state=resume"),
        "Invalid node name",
    ),
    _Right(
        "make reservations",
        "operator",
        ("scontrol", "delete", f"reservationname={_NOTHING}"),
        "Requested reservation is invalid",
    ),
)


def missing(system: str) -> list[MissingRight]:
    """What of the gate's rights this process's user has not; none where `gate run` may go on.

    `system` is one for which the process called session.use. PrerequisiteError where Slurm does
    not answer.
    """
    refused = [right for right in _RIGHTS if _refused(right)]
    if not refused:
        return []
    user = getpass.getuser()
    # `slurm-wlm 22.05.8`
    version = " ".join(
        ["Slurm", *_words(lambda: client.output("scontrol", "--version")).split()[-1:]]
    )
    # The higher level has the rights of the lower one.
    next_step = _next_step(user, refused[0].level)
    return [
        MissingRight(
            right.step,
            f"user {user} may not {right.step}",
            f"{version}: needs adminlevel={right.level}",
            next_step,
        )
        for right in refused
    ]


def require(system: str) -> None:
    """PrerequisiteError with what to type where one is missing."""
    lacking = missing(system)
    if lacking:
        raise PrerequisiteError(
            f"{'; '.join(map(str, lacking))}; nothing was changed", next_step=lacking[0].next_step
        )


def _refused(right: _Right) -> bool:
    try:
        client.output(*right.probe)
    except SlurmError as error:
        words = error.message
        if right.allowed in words:
            return False
        if _REFUSED.search(words):
            return True
        raise PrerequisiteError(f"whether you may {right.step} is not known: {words}") from None
    raise PrerequisiteError(f"`{' '.join(right.probe)}` did something: {_NOTHING} is in use")


def _next_step(user: str, level: str) -> str:
    config = _words(lambda: client.output("scontrol", "show", "config"))
    settings = dict(re.findall(r"^(\S+)\s*= (.*)$", config, re.MULTILINE))
    if "slurmdbd" not in settings.get("AccountingStorageType", "slurmdbd"):
        owner = settings.get("SlurmUser", "SlurmUser").partition("(")[0]
        return (
            f"the same command as root or {owner}: without slurmdbd (AccountingStorageType) "
            "no other user has an admin level"
        )
    known = _words(
        lambda: client.output(
            *("sacctmgr", "--noheader", "--parsable2", "show", "user", f"name={user}"),
            "format=user",
        )
    )
    if known.splitlines() == [user]:
        return f"as a Slurm administrator: sacctmgr modify user {user} set adminlevel={level}"
    return (
        f"as a Slurm administrator: sacctmgr add user {user} account=NAME adminlevel={level} "
        "(sacctmgr show account)"
    )


def _words(question: Callable[[], str]) -> str:
    """The output of a Slurm command; "" where it fails, as it only improves a message."""
    try:
        return question()
    except SlurmError:
        return ""

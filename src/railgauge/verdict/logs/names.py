"""What the names of log files say: the two hosts of a run, and the place that a file is of."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

_ENDING = re.compile(r"(?:\.(?:log|txt|out|err|json|csv|gz|dat|result|stdout))+$", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9]+")
_DIGITS = re.compile(r"[0-9]+")
#: What may stand between two hosts: `n1-n2`, `n1_to_n2`, `n1--n2`.
_BETWEEN = ("to", "vs", "and", "x")
#: The most words of a host's name: `gpu-node-01`.
_MOST_WORDS = 4
#: Names with a number that are no host's, by the letters that they begin with.
_NO_HOST = re.compile(
    r"(?:mlx|bnxt|irdma|rxe|eth|en[ops]|ib|bond|hfi|hca|nic|rail|port|cuda|numa|core|cpu|cx|"
    r"run|rep|repeat|iter|iteration|try|trial|attempt|test|round|step|task|job|slurm|rank|pid|"
    r"size|np|ppn|qp|leaf|spine|switch|sw|p|t|v|x)[0-9]*|gpu[0-9]",
    re.IGNORECASE,
)


def hosts_in(name: str) -> tuple[str, ...]:
    """The two hosts that a file is named after, `n1-n2.log` or `ib_write_bw_gpu-01_to_gpu-02.txt`:
    next to each other, and alike but for their numbers. () where there are none, or more.
    """
    stem = _ENDING.sub("", PurePosixPath(name).name)
    words = list(_WORD.finditer(stem))
    found: set[tuple[str, str]] = set()
    taken_until = 0
    for first in range(len(words)):
        if first < taken_until:
            continue
        for count in range(_MOST_WORDS, 0, -1):
            second = first + count
            if second < len(words) and words[second][0].lower() in _BETWEEN:
                second += 1
            if second + count > len(words):
                continue
            pair = tuple(
                stem[words[at].start() : words[at + count - 1].end()] for at in (first, second)
            )
            if _are_hosts(*pair):
                found.add((pair[0], pair[1]))
                taken_until = second
                break
    return next(iter(found)) if len(found) == 1 else ()


def _are_hosts(one: str, other: str) -> bool:
    """Whether two names are those of hosts: equal but for the numbers in them."""
    return (
        one != other
        and _DIGITS.sub("#", one) == _DIGITS.sub("#", other)
        and one[0].isalpha()
        and one[-1].isdigit()
        and not _NO_HOST.fullmatch(_WORD.match(one)[0])  # type: ignore[index]
    )


#: Words of a name that say which side or run it is of, and not which place.
_SIDE = frozenset(
    {
        *("before", "after", "old", "new", "pre", "post", "baseline", "base", "first", "second"),
        *("update", "updated", "upgrade", "upgraded"),
    }
)
_RUN = re.compile(r"(?:run|rep|repeat|iter|iteration|try|trial|attempt|sample)([0-9]*)")
_JOB = re.compile(r"(?:slurm|job|jobid)([0-9]*)")
_DATE = re.compile(r"20[0-9]{2}(?:0[1-9]|1[0-2])[0-3][0-9](?:[tT]?[0-9]{4,6}[zZ]?)?|1[0-9]{9}")
_YEAR, _TWO_DIGITS = re.compile(r"20[0-9]{2}"), re.compile(r"[0-9]{2}")


def place_words(name: str) -> tuple[str, ...]:
    """The words of a path that name the place: those of both sides are compared.

    Left out are the file's ending, `before`, `after` and the like, numbers of runs and jobs, and
    dates. `before/2026-11-01/rail01_run2.log` -> (rail01,).
    """
    words = [word.lower() for word in _WORD.findall(_ENDING.sub("", name))]
    kept: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        following = words[at + 1] if at + 1 < len(words) else ""
        numbered = _RUN.fullmatch(word) or _JOB.fullmatch(word)
        if numbered and (numbered[1] or following.isdigit() or not following):
            at += 1 if numbered[1] or not following else 2
        elif _YEAR.fullmatch(word) and all(map(_TWO_DIGITS.fullmatch, words[at + 1 : at + 3])):
            at += 3
        elif word in _SIDE or _DATE.fullmatch(word):
            at += 1
        else:
            kept.append(word)
            at += 1
    return tuple(kept)

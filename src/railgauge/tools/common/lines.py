"""What launchers and terminals put around the lines of a tool, and say between them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from railgauge.tools import ParseError

#: What the runner puts before a line of standard error.
STDERR = "STDERR: "

#: That, and the ranks that launchers put before lines.
LABELS = re.compile(rf"^(?:{STDERR}|\s*[0-9]{{1,6}}: ?)+")

_COLOUR = re.compile(
    r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][0-9A-B]"
)
# `mpirun --tag-output`, `srun --label`, `mpiexec -prepend-rank`.
_TAG = re.compile(
    r"(?:\[[^\]\s]*,[0-9]+\]<std(?:out|err)>: ?|[0-9]{1,6}:(?:\s|$)|\[[0-9]{1,6}\](?:\s|$))"
)

#: What a launcher says of itself while all goes well, although it has words of failure in it.
NOTICE = re.compile(
    r"(?:STDERR: )?(?:"
    r".* to see all help / error messages|"
    r".*[0-9] more process(?:es)? ha(?:s|ve) sent help message |"
    r"\[warn\] Epoll |"
    r"\[[^\]\s]+:[0-9]+\] mca[_:]|"
    r"(?:srun|salloc|sbatch): (?:job|Job|warning:|Warning:|info:|Requested|nodes?) "
    r"(?!.*\b(?i:error|failed|failure|killed|cancelled|terminated|aborted|revoked|expired)\b)"
    r")"
)

#: How a shell, the loader, the kernel, Slurm or an MPI launcher says that a program died, or never
#: started; in small letters.
DIED = (
    r"segmentation fault|core dumped|bus error|illegal instruction|floating point exception|"
    r"out of memory|double free|\bkilled\b|\bcancelled\b|\baborted\b|\bterminated\b(?! normally)|"
    r"\b(?:srun|slurmstepd|mpirun|mpiexec(?:\.hydra)?|prterun|orterun): error\b|"
    r"\bprocess received signal\b|\blost communication\b|\bunexpectedly failed\b|"
    r"non-zero exit|error while loading|command not found"
)


def with_errors(out: str, err: str) -> str:
    """Standard output, and behind it the lines of standard error, marked."""
    return out + "".join(f"{STDERR}{line}\n" for line in err.splitlines())


#: Lines up to this length are remembered, and so many.
_SHORT, _REMEMBERED = 200, 4096


def searched(pattern: re.Pattern[str]) -> Callable[[str], re.Match[str] | None]:
    """The pattern's `search`, which remembers short lines. The outputs of a campaign have most
    lines in common, and dozens of words of failure are looked for at every character.
    """
    remembered = functools.lru_cache(maxsize=_REMEMBERED)(pattern.search)
    return lambda line: remembered(line) if len(line) <= _SHORT else pattern.search(line)


def uncoloured(text: str) -> str:
    """A text without colour codes."""
    return _COLOUR.sub("", text)


def plain(line: str) -> tuple[str, str]:
    """A line without colour codes, and without the tag of the rank that printed it; and the tag."""
    line = _COLOUR.sub("", line).strip()
    tag = _TAG.match(line)
    return (line[tag.end() :].strip(), tag[0].strip()) if tag else (line, "")


def numbered(text: str) -> list[tuple[int, str]]:
    """The lines of a text with their numbers, from 1.

    Not splitlines(): that also breaks at form feeds and the like, and the numbers would be off.
    """
    return list(enumerate(text.split("\n"), start=1))


def only_line(pattern: re.Pattern[str], text: str, expected: str) -> re.Match[str]:
    """The one line of that pattern; ParseError where it is missing, torn or there twice."""
    matches = [(n, match) for n, line in numbered(text) if (match := pattern.fullmatch(line))]
    if not matches:
        raise ParseError(0, "no line of a rank", expected)
    number, match = matches[-1]
    if len(matches) > 1:
        raise ParseError(number, "a second line", "one line a rank")
    if not text.endswith("\n"):
        raise ParseError(number, "no end of line", "a whole line")
    return match


def quote(value: object, length: int = 120) -> str:
    """What a tool printed, for a message: printable, and cut to `length` characters."""
    if isinstance(value, str):
        value = value.strip()
        return ascii(value if len(value) <= length else f"{value[: length - 3]}...")
    text = ascii(value)
    return text if len(text) <= length else f"{text[: length - 3]}..."

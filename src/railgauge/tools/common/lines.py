"""What launchers and terminals put around the lines of a tool, and say between them."""

from __future__ import annotations

import re

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


def plain(line: str) -> tuple[str, str]:
    """A line without colour codes, and without the tag of the rank that printed it; and the tag."""
    line = _COLOUR.sub("", line).strip()
    tag = _TAG.match(line)
    return (line[tag.end() :].strip(), tag[0].strip()) if tag else (line, "")


def quote(value: object, length: int = 120) -> str:
    """What a tool printed, for a message: printable, and cut to `length` characters."""
    if isinstance(value, str):
        return ascii(value if len(value) <= length else f"{value[: length - 3]}...")
    text = ascii(value)
    return text if len(text) <= length else f"{text[: length - 3]}..."

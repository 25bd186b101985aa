"""The errors that a person is meant to read.

Each says where, what was found, what was expected and what to type next.
The command line prints them without a traceback and exits with `exit_code`.
"""

from __future__ import annotations

EXIT_ACCEPT = 0
EXIT_REJECT = 1
EXIT_INCONCLUSIVE = 2
EXIT_USAGE = 3
#: of `gate run`: a node in service failed as a partner
EXIT_SUSPECT = 4


class RailgaugeError(Exception):
    """A problem of usage or environment: one clear message, exit code 3."""

    exit_code = EXIT_USAGE

    def __init__(self, message: str, *, next_step: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.message}\n  next: {self.next_step}" if self.next_step else self.message


class ConfigurationError(RailgaugeError):
    """A file under `configs/` or `results/references/` says something that it must not."""


class PrerequisiteError(RailgaugeError):
    """The machine, Slurm or the file system is not as the command needs it."""

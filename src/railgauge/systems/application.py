"""The part of a system's `reframe.yaml` about a program of the site that is timed."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import pydantic

from railgauge.tools.application import LEAST_RUNS, Unit
from railgauge.yamlfile import Strict


def _with_one_group(pattern: str) -> str:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    if groups != 1:
        raise ValueError(f"has {groups} groups, expected one: the value, as in 'residual: (.*)'")
    return pattern


#: A regular expression with one group, searched for in a line.
OneGroup = Annotated[str, pydantic.AfterValidator(_with_one_group)]


class Converged(Strict):
    """What a run's output must say, so that its time counts: a program that gave up is fast."""

    pattern: OneGroup
    """The line that states what the program came to, its group the value."""
    equals: str | None = None
    """The value, as it is printed."""
    at_least: float | None = None
    """The least that the value may be, a number."""
    at_most: float | None = None
    """The most that the value may be, a number."""
    lines: int = pydantic.Field(default=1, ge=1)
    """How many such lines all ranks print together. Ranks that each were a world of their own print
    more.
    """

    @pydantic.model_validator(mode="after")
    def _expects_something(self) -> Converged:
        bounds = (self.at_least, self.at_most)
        if (self.equals is None) is (bounds == (None, None)):
            raise ValueError("expects equals, or else at_least, at_most, or both")
        return self


class OwnTime(Strict):
    """The time that a program prints of itself, where its start and end do not count."""

    pattern: OneGroup
    """The one line that states it, its group the number."""
    unit: Unit = "s"
    """What it is in."""


#: What differs between sites that run the same program.
SiteField = Literal["command", "programs", "image", "mounts", "environment", "launch_options"]


class Application(Strict):
    """A program that users run, or that stands for theirs."""

    command: list[str] = pydantic.Field(min_length=1)
    """The program and its arguments, as every rank runs it. {rank} is the rank's number, {scratch}
    a folder of its own that goes with the run, {system} this system's folder, which nodes see.
    """
    programs: list[str] = []
    """Further programs that the command runs, as a shell does. A node that lacks one of them is not
    measured.
    """
    image: str | None = None
    """The container image that the program is in, as `--container-image` of Pyxis has it. This
    checkout and the results area are mounted into it; it needs a python3, 3.9 or newer.
    """
    mounts: list[str] = []
    """Further mounts of the container, each FROM:TO[:FLAGS]."""
    nodes: int | None = pydantic.Field(default=None, ge=1)
    """On how many nodes: the first so many of the partition's; none for all."""
    ranks_per_node: int = pydantic.Field(default=1, ge=1)
    """How many ranks start on each."""
    runs: int = pydantic.Field(default=5, ge=LEAST_RUNS, le=100)
    """One after the other, in one job. The fastest and the slowest are dropped; MLPerf has ten."""
    limit_s: int = pydantic.Field(ge=1)
    """Longest time of one run; it is killed then, and fails."""
    converged: Converged
    """What each run must say."""
    own_time: OwnTime | None = None
    """What is timed; none for a run from its start to its exit."""
    end: str | None = None
    """A regular expression for the last line of the first rank. An output that was cut lacks it."""
    launch_options: list[str] = []
    """Options of the launcher, in addition to those of the partition."""
    environment: dict[str, str] = {}
    """Variables of every rank."""
    series_only: bool = False
    """Not measured unless the series is asked for: railgauge accept --series."""
    placeholders: list[SiteField] = []
    """Fields of it that only stand for what a site has. While it names any the program never runs,
    and is listed as left out.
    """

    @pydantic.model_validator(mode="after")
    def _image_is_stated_once(self) -> Application:
        if any(option.startswith("--container-") for option in self.launch_options):
            raise ValueError("launch_options has --container-..., expected image and mounts")
        if self.mounts and self.image is None:
            raise ValueError("mounts without an image")
        return self

    @pydantic.field_validator("end")
    @classmethod
    def _is_expression(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                re.compile(value)
            except re.error as error:
                raise ValueError(f"not a regular expression: {error}") from None
        return value


#: By a short name, which is the operation of its numbers.
Applications = Annotated[
    dict[Annotated[str, pydantic.Field(pattern="^[a-z][a-z0-9_-]*$")], Application],
    pydantic.Field(min_length=1),
]

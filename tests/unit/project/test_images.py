"""The definitions of images name what there is. No image is built: its base needs a registry."""

from __future__ import annotations

import fnmatch
import re
import shlex

import pytest

from package.system_packages import TARGETS
from railgauge import paths

CONTAINER = (paths.HOME / "package" / "Containerfile").read_text(encoding="utf-8")
APPTAINER = (paths.HOME / "package" / "railgauge.def").read_text(encoding="utf-8")
BOTH = pytest.mark.parametrize("text", [CONTAINER, APPTAINER], ids=["OCI", "Apptainer"])


def base(text: str) -> str:
    (found,) = re.findall(r"^From:? (\S+)$", text, re.MULTILINE | re.IGNORECASE)
    return str(found)


def installed(text: str) -> list[str]:
    """The words of `apt-get install`."""
    (found,) = re.findall(r"apt-get install ([^&\n\\]*)", text)
    return shlex.split(found)


@BOTH
def test_an_image_takes_the_one_package_of_its_release(text: str) -> None:
    (pattern,) = re.findall(r"(?:COPY\s+|^\s+)dist/(\S+) /opt/$", text, re.MULTILINE)
    names = {t.name: f"railgauge-0.2.0-{t.name}.x86_64.{t.kind}" for t in TARGETS}
    assert [t for t, name in names.items() if fnmatch.fnmatch(name, pattern)] == ["deb13"]
    assert base(text) == "debian:trixie-slim"


@BOTH
def test_an_image_installs_the_file_that_it_copied(text: str) -> None:
    assert "/opt/railgauge-*.deb" in installed(text)


def test_both_images_hold_the_same() -> None:
    assert installed(CONTAINER) == installed(APPTAINER) and base(CONTAINER) == base(APPTAINER)


def test_an_image_starts_the_program_with_the_words_that_it_gets() -> None:
    assert 'ENTRYPOINT ["railgauge"]' in CONTAINER
    assert APPTAINER.rstrip().endswith('%runscript\n    exec railgauge "$@"')


@BOTH
def test_the_command_that_builds_it_names_this_file(text: str) -> None:
    (name,) = re.findall(r"package/(\S+)", text.partition("\nF")[0].partition("\nB")[0])[:1]
    assert (paths.HOME / "package" / name).read_text(encoding="utf-8") == text

"""The top level of the repository: a new entry there is a decision."""

from __future__ import annotations

import subprocess

from railgauge import paths

#: spack.yaml, reframe/, jobs/, configs/, results/ and README.md are what users look for.
ENTRIES = {
    *("spack.yaml", "reframe", "jobs", "configs", "results", "README.md"),
    *("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "SECURITY.md", "Makefile", "activate.sh"),
    *("bin", "changelog.d", "docs", "examples", "findings", "package", "spack", "src", "tests"),
    *("pyproject.toml", "requirements.txt", "requirements-dev.txt"),
    *(".ci", ".gitignore", ".yamllint"),
}


def test_the_top_level_has_these_entries() -> None:
    listed = subprocess.run(
        ["git", "-C", str(paths.HOME), "ls-files"], capture_output=True, text=True, check=True
    )
    assert {name.partition("/")[0] for name in listed.stdout.splitlines()} == ENTRIES

"""Two builds next to each other: the folder of the other one, and what a command used."""

from __future__ import annotations

from pathlib import Path

import pytest

from railgauge import paths
from tests import bench_against

pytestmark = pytest.mark.skipif(
    not (paths.HOME / ".git").exists(), reason="this copy is no checkout of git"
)


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit, ValueError])
def test_the_other_build_is_removed_however_it_ends(end: type[BaseException]) -> None:
    with pytest.raises(end), bench_against.checkout("HEAD") as folder:
        assert (folder / "src" / "railgauge" / "cli" / "__init__.py").is_file()
        raise end
    assert not folder.exists()


def test_a_commit_that_is_unknown_is_named() -> None:
    with (
        pytest.raises(SystemExit, match="no-such-commit"),
        bench_against.checkout("no-such-commit"),
    ):
        pass


def test_what_a_command_used_is_its_own(tmp_path: Path) -> None:
    work = bench_against.Work("help", ("--help",))
    used = bench_against.run(paths.HOME, work, tmp_path, tmp_path / "output")
    # Less than this process has, which it was started from.
    assert 0 < used.cpu_s < 60 and 5 < used.memory_mib < 60
    assert "Usage: railgauge" in (tmp_path / "output").read_text()


def test_a_command_that_fails_has_no_figure(tmp_path: Path) -> None:
    work = bench_against.Work("none", ("no-such-command",))
    with pytest.raises(SystemExit, match="exit code 3"):
        bench_against.run(paths.HOME, work, tmp_path, tmp_path / "output")


def test_a_build_gets_the_nodes_that_a_plan_is_to_have(tmp_path: Path) -> None:
    build = bench_against.with_nodes(paths.HOME, 40, tmp_path / "copy")
    described = (build / "configs/systems/dgx-h100/reframe.yaml").read_text()
    assert "n[1-40]" in described
    with pytest.raises(SystemExit, match="no longer"):
        bench_against.with_nodes(build, 40, tmp_path / "copy-of-copy")

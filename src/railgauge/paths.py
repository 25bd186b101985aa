"""Where the parts of Railgauge are: in a checkout, or in an installed package.

A package has `reframe/`, `configs/` and `results/references/` of its checkout in `railgauge/home/`,
read-only (pyproject.toml). RAILGAUGE_SITE names a folder outside of the program that has the site's
part of the same layout: `configs/systems/`, `results/references/` and `results/`.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from railgauge.common.errors import PrerequisiteError

_PACKAGE = Path(__file__).resolve().parent
#: The data of an installed package. A checkout has no such folder.
PACKAGED = _PACKAGE / "home"

HOME = PACKAGED if PACKAGED.is_dir() else _PACKAGE.parents[1]
CHECKS = HOME / "reframe"
SETTINGS = HOME / "configs" / "settings.py"
TEMPLATES = HOME / "configs" / "templates"
#: Numbers of others, which judge nothing.
PUBLISHED = HOME / "results" / "references" / "published"
SOURCE = _PACKAGE.parent
#: All of the program: nodes, containers and the lab's machines must see it at the same path.
PROGRAM = SOURCE if HOME == PACKAGED else HOME

SITE_VARIABLE = "RAILGAUGE_SITE"
#: The folder with the site's files: $RAILGAUGE_SITE, else the program's own.
SITE = Path(os.environ.get(SITE_VARIABLE) or HOME).absolute()
SYSTEMS = SITE / "configs" / "systems"
#: Those that come with the program.
_SYSTEMS_OF_PROGRAM = HOME / "configs" / "systems"
_SITES_SHARES = SITE / "configs" / "least_shares.yaml"
LEAST_SHARES = _SITES_SHARES if _SITES_SHARES.is_file() else HOME / "configs/least_shares.yaml"


def systems_of_program() -> list[str]:
    """The systems that come with the program, and that RAILGAUGE_SITE does not describe."""
    if SITE == HOME:
        return []
    folders = [file.parent for file in _SYSTEMS_OF_PROGRAM.glob("*/reframe.yaml")]
    return sorted(folder.name for folder in folders if not (SYSTEMS / folder.name).is_dir())


def system_folder(system: str) -> Path:
    """Where a system is described: in the site's folder, else in the program's."""
    return (_SYSTEMS_OF_PROGRAM if system in systems_of_program() else SYSTEMS) / system


def is_checkout() -> bool:
    """Whether this program runs in its checkout, and not from an installed package."""
    return HOME != PACKAGED


def has_site() -> bool:
    """Whether this program knows the site's own files: the data in a package are of no site."""
    return SITE != PACKAGED


def require_checkout(what: str) -> None:
    """PrerequisiteError from an installed package: `what` needs files of the checkout."""
    if not is_checkout():
        raise PrerequisiteError(
            f"{what} needs a checkout of Railgauge; this is the installed package in {SOURCE}",
            next_step="clone Railgauge, type `make setup` there, then the same command with its "
            "bin/railgauge",
        )


def require_site(what: str) -> None:
    """PrerequisiteError where `what` has no site's files to work with: RAILGAUGE_SITE names no
    site's folder, or is not set in an installed package.
    """
    if not has_site():
        raise PrerequisiteError(
            f"{what} needs the descriptions and references of your site; this is the installed "
            f"package in {SOURCE}, which has none",
            next_step=f"{SITE_VARIABLE}=DIR, a folder with configs/systems/ and "
            "results/references/ that the nodes share; or work in a checkout",
        )
    if not SYSTEMS.is_dir():
        raise PrerequisiteError(
            f"{SITE_VARIABLE} is {SITE}, and {SYSTEMS} is no folder",
            next_step=f"mkdir -p {shlex.quote(str(SYSTEMS))}, or name the folder of your site",
        )


def on_node(program: str) -> list[str]:
    """The words that start `railgauge.node.<program>` on a node, which sees this checkout.

    Without `site`: such a program needs nothing that is installed next to Python.
    """
    return ["env", f"PYTHONPATH={SOURCE}", "python3", "-S", "-m", f"railgauge.node.{program}"]


def names_results() -> bool:
    """Whether there is a results area: an installed package has none of its own."""
    return bool(os.environ.get("RAILGAUGE_RESULTS")) or has_site()


def results_root() -> Path:
    """Where campaigns and the history go: $RAILGAUGE_RESULTS, else `results/` of SITE.

    It must be on a file system that the compute nodes share. PrerequisiteError where it cannot be
    a folder: what lies in one that is not mounted must not be taken for not there. The same where
    an installed package runs, and none is named.
    """
    if not names_results():
        raise PrerequisiteError(
            f"no results area is named, and the installed package in {SOURCE} has none",
            next_step="RAILGAUGE_RESULTS=DIR, the results/ of the checkout that has measured",
        )
    root = Path(os.environ.get("RAILGAUGE_RESULTS") or SITE / "results").absolute()
    require_folder(root, "the results area")
    return root


def require_folder(path: Path, what: str) -> None:
    """PrerequisiteError where `path` is there and is no folder, or a link that leads to none."""
    try:
        path.lstat()
        if path.is_dir():
            return
        found = "no folder" if path.exists() else f"a link to {path.readlink()}, which is not there"
    except FileNotFoundError:
        return
    except OSError as error:
        found = f"out of reach: {error.strerror}"
    raise PrerequisiteError(
        f"{what} {path} is {found}",
        next_step="mount it, or RAILGAUGE_RESULTS=DIR, a folder that the compute nodes share",
    )


def references_folder() -> Path:
    """The stored numbers: $RAILGAUGE_REFERENCES, else `results/references/` of SITE."""
    return Path(os.environ.get("RAILGAUGE_REFERENCES") or SITE / "results/references").absolute()


#: Set by `railgauge accept`: the folder of the campaign that a ReFrame session belongs to.
CAMPAIGN_VARIABLE = "RAILGAUGE_CAMPAIGN"


def campaign_folder() -> Path | None:
    """The campaign that this process works for, if any."""
    folder = os.environ.get(CAMPAIGN_VARIABLE)
    return Path(folder) if folder else None


#: Set with it: the number of the session in its campaign, 1 where it was never resumed.
SESSION_VARIABLE = "RAILGAUGE_SESSION"


def session_number() -> int:
    return int(os.environ.get(SESSION_VARIABLE) or 1)


def session_in(campaign: Path, number: int) -> Path:
    """The folder of a campaign's session: the first one's is the campaign's own."""
    return campaign if number == 1 else campaign / "sessions" / str(number)


def session_folder() -> Path:
    """Where a ReFrame session keeps its stage, outputs and reports: its part of its campaign's
    folder, or for a bare `reframe` one that the next session uses again.
    """
    campaign = campaign_folder()
    return session_in(campaign, session_number()) if campaign else results_root() / "reframe"


def stack_folder() -> Path:
    """What Spack built for the systems ($RAILGAUGE_STACK_DIR, else `.stack/` of the checkout)."""
    return Path(os.environ.get("RAILGAUGE_STACK_DIR") or HOME / ".stack").absolute()


def lab_folder() -> Path:
    """The lab's own folder: root file system, state and logs. $RAILGAUGE_LAB_DIR, else `.lab/` of
    the checkout, or of the site's folder where an installed package runs.
    """
    home = HOME if is_checkout() else SITE
    return Path(os.environ.get("RAILGAUGE_LAB_DIR") or home / ".lab").absolute()

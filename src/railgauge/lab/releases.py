"""The Debian releases that the lab can be built from, and what differs between them."""

from __future__ import annotations

import dataclasses

from railgauge.common.errors import PrerequisiteError


@dataclasses.dataclass(frozen=True)
class Release:
    """A Debian release, by its codename.

    `slurm` is its Slurm's version (major, minor), which decides what slurm.conf may say.
    """

    name: str
    slurm: tuple[int, int]
    #: Slurm's plugin by which the MPI of the image finds its peers.
    mpi: str = "pmix"
    #: Whether its kernel and QEMU carry VM nodes.
    vm_nodes: bool = False
    #: Whether its image has the simulated InfiniBand subnet.
    infiniband: bool = False
    #: What its image holds besides what all hold, and what it holds under another package's name.
    packages: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    #: False: no security updates are used. Mirrors keep those of an old release in part only, and
    #: the next release has none of its own.
    updated: bool = True
    #: False: mirrors may have it with an index that is past its date, which apt then accepts.
    dated: bool = True
    #: Whether somebody can work in it as on a login node: clone, make an environment, call ReFrame.
    login: bool = False

    @property
    def has_blocks(self) -> bool:
        """Whether its Slurm knows topology/block (since 23.11)."""
        return self.slurm >= (23, 11)

    @property
    def cgroup_plugin(self) -> str:
        """What cgroup.conf says, so that namespace nodes leave the host's cgroups alone.

        Before 23.11 there is no `disabled`; cgroup/v1 does nothing until a plugin asks for it.
        Before 22.05 there is no choice, and nothing to say.
        """
        if self.slurm < (22, 5):
            return ""
        return "disabled" if self.slurm >= (23, 11) else "cgroup/v1"

    @property
    def keeps_job_comments(self) -> str:
        """slurm.conf's words for keeping the jobs' comments in the accounting."""
        flags = self.slurm >= (21, 8)
        return "AccountingStoreFlags=job_comment" if flags else "AccountingStoreJobComment=YES"


#: What a login node has for that.
LOGIN_PACKAGES = ("git", "make", "python3-venv")

#: For a simulated InfiniBand subnet.
_SUBNET = ("ibsim-utils", "libumad2sim0", "opensm", "infiniband-diags")
#: phyml is an MPI program that users run, for ApplicationTime.
_ALL_CHECKS = ("phyml", *_SUBNET)

#: Debian 12 for namespace nodes only: its QEMU 7.2 corrupts a guest that is busy with RDMA.
#: Testing (forky): its Slurm has no PMIx plugin, which Open MPI needs under srun; MPICH starts by
#: pmi2.
RELEASES = {
    release.name: release
    for release in (
        # For Python 3.9 on the nodes. Its Slurm has the MySQL plugin among the basic ones.
        Release(
            "bullseye",
            slurm=(20, 11),
            packages=("libpmix-dev",),
            without=("slurm-wlm-mysql-plugin",),
            updated=False,
        ),
        # Its Slurm loads PMIx by the name that only the -dev package has.
        Release("bookworm", slurm=(22, 5), packages=("libpmix-dev",), login=True),
        Release("trixie", slurm=(24, 11), vm_nodes=True, infiniband=True, packages=_ALL_CHECKS),
        Release(
            "forky",
            slurm=(26, 5),
            mpi="pmi2",
            vm_nodes=True,
            infiniband=True,
            packages=("tini-static", "mpich", *_SUBNET),
            updated=False,
            dated=False,
            login=True,
        ),
    )
}

DEFAULT = RELEASES["trixie"]


def named(name: str) -> Release:
    """The release of this codename; PrerequisiteError where the lab knows none."""
    if name not in RELEASES:
        raise PrerequisiteError(
            f"the lab cannot be built from Debian {name!r}; it can from {', '.join(RELEASES)}",
            next_step=f"railgauge lab up --release {DEFAULT.name}",
        )
    return RELEASES[name]

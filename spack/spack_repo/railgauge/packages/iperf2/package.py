# Copyright Spack Project Developers. See COPYRIGHT file for details.
#
# SPDX-License-Identifier: (Apache-2.0 OR MIT)

from spack_repo.builtin.packages.iperf2.package import Iperf2 as BuiltinIperf2

from spack.package import *


class Iperf2(BuiltinIperf2):
    """iperf2 of builtin, and in the versions that Debian has: with one of them the references of
    the embedded cluster were measured. Debian takes two files that are not free out of upstream's
    archive (+dfsg), which gives it a checksum of its own. Debian drops archives when a release
    ends; its snapshots keep them."""

    # A day on which both releases that have these versions, 12 and 13, were in the archive.
    _snapshot = "https://snapshot.debian.org/archive/debian/20250901T000000Z/pool/main/i/iperf"

    version(
        "2.2.1-dfsg",
        sha256="9cbbcb3c8489913871ad1855199a6c03e5d402837c9210b7baf7997aa064cd2c",
        url=f"{_snapshot}/iperf_2.2.1%2Bdfsg.orig.tar.xz",
    )
    version(
        "2.1.8-dfsg",
        sha256="cdf8226d3d64dfadb98aa4ef3f15424a157377ad8b1cbb5974ffb9cb3d1242ad",
        url=f"{_snapshot}/iperf_2.1.8%2Bdfsg.orig.tar.xz",
    )

    depends_on("gmake", type="build")

    def patch(self):
        if self.spec.satisfies("@2.1.8-dfsg,2.2.1-dfsg"):
            # The two that Debian removed are only for Windows, but the Makefile wants them.
            touch("include/service.h")
            touch("src/service.c")

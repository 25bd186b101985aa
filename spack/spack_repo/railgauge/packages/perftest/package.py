# Copyright Spack Project Developers. See COPYRIGHT file for details.
#
# SPDX-License-Identifier: (Apache-2.0 OR MIT)

from spack_repo.builtin.build_systems.autotools import AutotoolsPackage

from spack.package import *


class Perftest(AutotoolsPackage):
    """Bandwidth and latency tests written over the verbs of RDMA (ib_write_bw, ib_send_lat and
    others), for InfiniBand and RoCE."""

    homepage = "https://github.com/linux-rdma/perftest"
    url = "https://github.com/linux-rdma/perftest/archive/refs/tags/25.01.0-0.80.tar.gz"
    git = "https://github.com/linux-rdma/perftest.git"

    # COPYING: "GNU General Public License (GPL) Version 2 [...] or the OpenIB.org BSD license"
    license("GPL-2.0-only OR Linux-OpenIB", checked_by="railgauge")

    # For extras.rdma.perftest.data_validation. The pinned stack has the next one.
    version("26.04.17", sha256="18446f0390dbb097e623ab5f100ba163de6867bc5ad4e42669701e3ca3c4a4bf")
    version(
        "25.01.0-0.80", sha256="233fb1e8c35a4c2ff670386d0432c8996e5ed35dd27acac6167f8968bed5bc93"
    )

    variant("cuda", default=False, description="Transfer from and to the memory of NVIDIA GPUs")

    depends_on("c", type="build")
    depends_on("cxx", type="build")  # configure asks for it
    depends_on("autoconf", type="build")
    depends_on("automake", type="build")
    depends_on("libtool", type="build")
    depends_on("m4", type="build")
    depends_on("gmake", type="build")

    depends_on("rdma-core")
    depends_on("pciutils", when="platform=linux")
    depends_on("cuda", when="+cuda")

    # The archive has no configure script, and automake wants the folder of its AC_CONFIG_AUX_DIR.
    def autoreconf(self, spec, prefix):
        Executable("./autogen.sh")()

    def setup_build_environment(self, env: EnvironmentModifications) -> None:
        # libcuda.so belongs to the driver, which a build node need not have: link with the stub.
        if self.spec.satisfies("+cuda"):
            env.append_flags("LDFLAGS", f"-L{self.spec['cuda'].prefix.lib64.stubs}")

    def configure_args(self):
        if self.spec.satisfies("+cuda"):
            return [f"CUDA_H_PATH={self.spec['cuda'].prefix.include.join('cuda.h')}"]
        return []

    def test_version(self):
        """ib_write_bw starts and says its version"""
        run = which(self.prefix.bin.ib_write_bw, required=True)
        # It says 6.24, or 6.29, the version in configure.ac, and exits 1.
        out = run("--version", output=str.split, error=str.split, fail_on_error=False)
        assert "Version" in out

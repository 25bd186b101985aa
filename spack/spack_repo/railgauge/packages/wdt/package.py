# Copyright Spack Project Developers. See COPYRIGHT file for details.
#
# SPDX-License-Identifier: (Apache-2.0 OR MIT)

import os

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Wdt(CMakePackage):
    """Warp speed Data Transfer: copies files and directories over many TCP connections at once,
    each with a thread of its own at both ends."""

    homepage = "https://github.com/facebook/wdt"
    git = "https://github.com/facebook/wdt.git"

    license("BSD-3-Clause", checked_by="railgauge")

    # Upstream has tagged nothing since 1.27 (2016): the commit is the version that it calls
    # 1.32.1910230 in CMakeLists.txt.
    version(
        "1.32.1910230",
        sha256="203b5baf1aac04baa6b1901061e6e4f8e9287efcde6bf3560d452d85fbcb99f8",
        url="https://github.com/facebook/wdt/archive/b3e21d71b2223fcecba58436f81a0ba7a56a6d6a.tar.gz",
    )

    # WDT compiles ten files out of folly's source tree; folly's library is not built. This is a
    # folly that still has the names that WDT uses, and builds with fmt 8 to 10.
    resource(
        name="folly",
        url="https://github.com/facebook/folly/archive/refs/tags/v2023.07.17.00.tar.gz",
        sha256="d97b3054b2574ea08a7db9a48aa62b56142770dfe4a76cc8347f89a2b7e9bacc",
        destination="",
        placement="folly",
    )

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    # It asks for the behaviour of CMake 3.2, which CMake 4 no longer has.
    depends_on("cmake@3.2:3", type="build")
    depends_on("gmake", type="build")

    # Boost 1.89 has no library boost_system any more.
    depends_on("boost@1.67:1.88 +system+filesystem+regex")
    depends_on("double-conversion")
    depends_on("fmt@8:10")
    depends_on("gflags")
    # The headers of glog 0.7 only compile with its own CMake package, which WDT does not ask for.
    depends_on("glog@0.4:0.6")
    depends_on("openssl")

    # <mutex> and <shared_mutex> are missing, and no other header brings them in by chance now.
    patch("reporting-includes.patch")

    def patch(self):
        if not self.spec.satisfies("target=x86_64:"):
            # Options of x86 compilers; folly has a portable CRC-32C besides the one of SSE 4.2.
            filter_file("-msse4.2 -mpclmul", "", "CMakeLists.txt", string=True)

    @run_before("cmake")
    def name_the_source_folder(self):
        # Headers are included as <wdt/...> from the folder above, and Spack's has another name.
        link = join_path(self.stage.path, "wdt")
        if not os.path.lexists(link):
            symlink(self.stage.source_path, link)

    @property
    def root_cmakelists_dir(self):
        return join_path(self.stage.path, "wdt")

    def cmake_args(self):
        return [
            self.define("FOLLY_SOURCE_DIR", join_path(self.stage.source_path, "folly")),
            self.define("BUILD_SHARED_LIBS", True),
            self.define("BUILD_TESTING", False),
        ]

    def test_version(self):
        """wdt starts and says its version"""
        run = which(self.prefix.bin.wdt, required=True)
        out = run("--version", output=str.split, error=str.split)
        assert str(self.spec.version) in out

# Copyright Spack Project Developers. See COPYRIGHT file for details.
#
# SPDX-License-Identifier: (Apache-2.0 OR MIT)

import glob
import os

from spack.package import *


class Railgauge(Package):
    """The acceptance gate of a cluster's network, with the tools that it measures with. The wheel
    is that of `make package` in the checkout that this recipe lies in; pip installs the pinned
    Python packages."""

    # Nothing is fetched: the source is the checkout.
    has_code = False

    license("Apache-2.0", checked_by="railgauge")

    version("0.1.0")

    variant("gpu", default=False, description="Tools for NVIDIA GPUs")

    depends_on("python@3.10:", type=("build", "run"))

    # The versions of spack.yaml.
    depends_on("openmpi@5.0.9", type="run")
    depends_on("ucx@1.20.1", type="run")
    depends_on("osu-micro-benchmarks@7.5.2", type="run")
    depends_on("perftest@25.01.0-0.80", type="run")
    depends_on("iperf2", type="run")
    depends_on("iperf3@3.17.1", type="run")
    depends_on("wdt@1.32.1910230", type="run")
    depends_on("lftp@4.9.2", type="run")
    depends_on("hpn-ssh@18.6.2", type="run")
    depends_on("nccl@2.28.9-1", type="run", when="+gpu")
    depends_on("nccl-tests@2.17.6", type="run", when="+gpu")

    def install(self, spec, prefix):
        checkout = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 5))
        wheels = glob.glob(os.path.join(checkout, "dist", "railgauge-*.whl"))
        if len(wheels) != 1:
            raise InstallError(f"{checkout}/dist has {len(wheels)} wheels; type: make package")
        spec["python"].command("-m", "venv", prefix.libexec.railgauge)
        pip = Executable(join_path(prefix.libexec.railgauge, "bin", "pip"))
        requirements = join_path(checkout, "requirements.txt")
        pip("install", "--no-input", "--require-hashes", "-r", requirements)
        pip("install", "--no-input", "--no-deps", wheels[0])
        mkdirp(prefix.bin)
        symlink(join_path(prefix.libexec.railgauge, "bin", "railgauge"), prefix.bin.railgauge)

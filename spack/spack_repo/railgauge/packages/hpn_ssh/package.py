# Copyright Spack Project Developers. See COPYRIGHT file for details.
#
# SPDX-License-Identifier: (Apache-2.0 OR MIT)

from spack_repo.builtin.build_systems.autotools import AutotoolsPackage

from spack.package import *


class HpnSsh(AutotoolsPackage):
    """OpenSSH with buffers that grow with the path and ciphers that use several cores, for copies
    over long and fast networks. All programs have names of their own (hpnssh, hpnscp, hpnsshd), so
    that they live beside OpenSSH."""

    homepage = "https://www.psc.edu/hpn-ssh-home/"
    url = "https://github.com/rapier1/hpn-ssh/archive/refs/tags/hpn-18.6.2.tar.gz"
    git = "https://github.com/rapier1/hpn-ssh.git"

    license("SSH-OpenSSH", checked_by="railgauge")

    version("18.8.0", sha256="ec491e0e90241d7935afb94ae4b1e66ceb1dccf3f30fc1858ec0e850d9bf3277")
    version("18.6.2", sha256="06f2bb0b6aecccbd6748c8c5e71011669cc40ee526466c6edd10f4ae94a5ec3f")

    variant("pam", default=False, description="Log in by PAM")
    variant("gssapi", default=False, description="Log in by Kerberos, through GSSAPI")

    depends_on("c", type="build")
    depends_on("autoconf", type="build")
    depends_on("automake", type="build")
    depends_on("libtool", type="build")
    depends_on("m4", type="build")
    depends_on("gmake", type="build")

    # The parallel ciphers fetch their algorithms as OpenSSL 3's providers have them.
    depends_on("openssl@3:")
    depends_on("zlib-api")
    depends_on("libedit")
    depends_on("libxcrypt", type="link")
    depends_on("linux-pam", when="+pam")
    depends_on("krb5+shared", when="+gssapi")

    def patch(self):
        # Only root may install a program with the set-uid bit, and host-based log-in, which would
        # need it, is off by default.
        filter_file("-m 4711", "-m 0711", "Makefile.in", string=True)

    def configure_args(self):
        spec, prefix = self.spec, self.prefix
        args = [
            # Otherwise /var/empty, which `make install` makes when it is not there.
            f"--with-privsep-path={prefix.var.empty}",
            # As root it drops its rights to this user. HPN-SSH's own, hpnsshd, exists on no node
            # that did not install HPN-SSH as a package.
            "--with-privsep-user=nobody",
            f"--with-ssl-dir={spec['openssl'].prefix}",
            f"--with-zlib={spec['zlib-api'].prefix}",
            f"--with-libedit={spec['libedit'].prefix}",
        ]
        args += self.with_or_without("pam")
        if spec.satisfies("+gssapi"):
            args.append(f"--with-kerberos5={spec['krb5'].prefix}")
        return args

    @property
    def install_targets(self):
        # `install` would put a host's keys into the prefix, where a build cache takes them along.
        return ["install-nokeys"]

    def setup_run_environment(self, env: EnvironmentModifications) -> None:
        env.prepend_path("PATH", self.prefix.sbin)

    def test_version(self):
        """hpnssh starts and says that it is HPN-SSH"""
        run = which(self.prefix.bin.hpnssh, required=True)
        assert "hpn" in run("-V", output=str.split, error=str.split)

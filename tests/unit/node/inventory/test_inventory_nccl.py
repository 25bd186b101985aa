"""What a node's own files do to NCCL: settings, modules and plugins, without anybody's secrets."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.node.inventory import nccl
from railgauge.node.inventory.kinds import kind
from railgauge.node.inventory.machine import HIDDEN
from railgauge.node.inventory.nccl import assigned, conf, in_effect, of_module, plugins
from railgauge.node.inventory.sheet import Places, Sheet
from tests.unit.node.inventory.test_inventory import no_process, put

HOME = f"{pwd.getpwuid(os.getuid()).pw_dir.lstrip('/')}/.nccl.conf"

CONF = """\
# NCCL_DEBUG=INFO
NCCL_IB_HCA==mlx5_0,mlx5_3
NCCL_ALGO=Ring
NCCL_ALGO=Tree
NCCL_NET_PLUGIN=
 NCCL_PROTO=LL
NCCL_P2P_DISABLE 1
"""


@pytest.fixture(autouse=True)
def no_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MODULEPATH", raising=False)


def look(root: Path) -> Sheet:
    return nccl.look(Places("/nowhere", "/nowhere", str(root), no_process))


# ---- conf files ----


def test_of_a_conf_file_the_first_setting_counts_as_nccl_reads_it() -> None:
    """A line that begins with a blank sets another variable, which NCCL does not look for."""
    assert conf(CONF) == {
        "NCCL_IB_HCA": "=mlx5_0,mlx5_3",
        "NCCL_ALGO": "Ring",
        "NCCL_NET_PLUGIN": '""',
    }


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("NCCL_IB_PKEY=3", "3"),
        ("NCCL_NET_TOKEN=s3cr3t", HIDDEN),
        ("NCCL_AUTH=s3cr3t", HIDDEN),
        ("NCCL_PLUGIN_PASSWORD=s3cr3t", HIDDEN),
        ("NCCL_STORE=https://me:s3cr3t@example.org/", HIDDEN),
        # Whatever else a user sets there is none of ours.
        ("AWS_SOMETHING=s3cr3t", HIDDEN),
    ],
)
def test_values_of_secrets_are_not_shown(line: str, shown: str) -> None:
    name, _, value = line.partition("=")
    assert conf(line) == {name: shown}
    assert "s3cr3t" not in str(assigned(f"export {line}")) + str(
        of_module(f"setenv {name} {value}")
    )


@given(st.text())
def test_no_text_crashes_a_reader(text: str) -> None:
    for read in (conf, assigned, of_module):
        assert all(name and value for name, value in read(text).items())


# ---- logins and modules ----


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("NCCL_ALGO=Ring", "Ring"),
        ('NCCL_ALGO="Ring,Tree"', "Ring,Tree"),
        ("export NCCL_ALGO='Ring'  # a comment", "Ring"),
        ("    export NCCL_ALGO=Ring; other", "Ring"),
        ("NCCL_ALGO DEFAULT=Ring", "Ring"),
        ("NCCL_ALGO\tDEFAULT=Tree\tOVERRIDE=Ring", "Ring"),
        ("# export NCCL_ALGO=Ring", None),
        ("MY_NCCL_ALGO=Ring", None),
        ("echo $NCCL_ALGO", None),
    ],
)
def test_what_a_login_sets(line: str, value: str | None) -> None:
    assert assigned(line) == ({} if value is None else {"NCCL_ALGO": value})


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("setenv NCCL_ALGO Ring", "Ring"),
        ("    setenv      NCCL_ALGO    {Ring}", "Ring"),
        ('setenv("NCCL_ALGO", "Ring")', "Ring"),
        ("pushenv('NCCL_ALGO','Ring')", "Ring"),
        ("# setenv NCCL_ALGO Ring", None),
        ('-- setenv("NCCL_ALGO", "Ring")', None),
        ("prepend-path NCCL_ALGO Ring", None),
    ],
)
def test_what_a_module_sets(line: str, value: str | None) -> None:
    assert of_module(line) == ({} if value is None else {"NCCL_ALGO": value})


# ---- the node ----


def test_a_node_that_sets_nothing_has_no_field(tmp_path: Path) -> None:
    sheet = look(tmp_path)
    assert (sheet.fields, sheet.unknown) == ({}, {})


def test_every_setting_is_a_field_with_the_place_that_it_is_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODULEPATH", "/apps/modules")
    put(
        tmp_path,
        {
            "etc/nccl.conf": "NCCL_ALGO=Ring\n",
            HOME: "NCCL_PROTO=LL\n",
            "etc/environment": "NCCL_DEBUG=WARN\nTOKEN=s3cr3t\n",
            "etc/profile.d/site.sh": "export NCCL_NET_PLUGIN=none\n",
            "apps/modules/hpcx/2.20.lua": 'setenv("NCCL_IB_TC", "106")\n',
        },
    )
    sheet = look(tmp_path)
    assert sheet.unknown == {} and sheet.fields == {
        "nccl/conf/etc/NCCL_ALGO": "Ring",
        "nccl/conf/home/NCCL_PROTO": "LL",
        "nccl/environment/NCCL_DEBUG": "WARN",
        "nccl/environment/NCCL_NET_PLUGIN": "none",
        "nccl/module/hpcx/2.20.lua/NCCL_IB_TC": "106",
    }
    assert {kind(key) for key in sheet.fields} == {"tuning"}


def test_a_plugin_is_a_field_that_changes_with_its_content(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "etc/ld.so.conf.d/site.conf": "# ours\n/opt/site/lib\n",
            "opt/site/lib/libnccl-net.so.1.2": "one",
            "usr/lib64/libnccl-tuner-aws.so": "two",
            "usr/lib64/libnccl.so.2": "none of them",
        },
    )
    (tmp_path / "opt/site/lib/libnccl-net.so").symlink_to("libnccl-net.so.1.2")
    before = look(tmp_path).fields
    assert sorted(before) == ["nccl/plugin/libnccl-net.so", "nccl/plugin/libnccl-tuner-aws.so"]
    value = str(before["nccl/plugin/libnccl-net.so"])
    assert value.startswith("/opt/site/lib/libnccl-net.so.1.2 ")
    assert {kind(key) for key in before} == {"firmware"}
    put(tmp_path, {"opt/site/lib/libnccl-net.so.1.2": "another"})
    assert look(tmp_path).fields["nccl/plugin/libnccl-net.so"] != value


def test_a_library_in_two_folders_that_are_one_is_one(tmp_path: Path) -> None:
    put(tmp_path, {"usr/lib/libnccl-net.so": "one"})
    (tmp_path / "usr/lib64").symlink_to("lib")
    assert plugins(tmp_path)["libnccl-net.so"].count("/usr/lib/") == 1


def test_a_job_has_what_it_is_given_before_the_users_file_before_the_nodes(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "etc/nccl.conf": "NCCL_ALGO=Ring\nNCCL_PROTO=LL\nNCCL_NET_PLUGIN=none\n",
            HOME: "NCCL_ALGO=Tree\nNCCL_PROTO=LL128\n",
        },
    )
    given = {"NCCL_ALGO": "NVLS", "NCCL_DEBUG": "INFO", "PATH": "/bin"}
    found = in_effect(given, str(tmp_path))
    assert found == {
        "variables": {"NCCL_ALGO": "NVLS", "NCCL_PROTO": "LL128", "NCCL_NET_PLUGIN": "none"},
        "plugins": {},
    }

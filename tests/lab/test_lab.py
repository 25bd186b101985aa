"""The embedded cluster itself: up, down, crashes, and two of them side by side."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from railgauge import hostlist, paths, systems
from railgauge.cli.lab import open_lab
from railgauge.lab import rootfs, vm
from railgauge.lab.cluster import Lab

from .conftest import PATIENCE_S, lab_command, links_here, second_lab

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def below(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """The folder that the second lab lies in: below /tmp, or as the test says."""
    parent = getattr(request, "param", "/tmp")
    if parent == "/tmp":
        yield tmp_path
    else:
        with tempfile.TemporaryDirectory(dir=parent) as folder:
            yield Path(folder)


@pytest.fixture
def second(cluster: Lab, below: Path) -> Iterator[Lab]:
    """Another lab on this machine, with the same image and a folder of its own, whose name has what
    a shell, a mount option or a configuration file takes for the end of a path.
    """
    with second_lab(cluster, below / "a lab, #2") as lab:
        yield lab


def on(lab: Lab) -> Command:
    """`railgauge lab ...` on that lab, which has namespace nodes only."""

    def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        if arguments == ("up",):
            arguments = ("up", "--nodes", "n[1-4]")
        return lab_command(lab, *arguments, **env)

    return run


@pytest.fixture
def command(second: Lab) -> Command:
    return on(second)


class Up(NamedTuple):
    """A second lab that is up, for tests that leave it so."""

    lab: Lab
    command: Command
    said: str
    #: the network links of this machine before
    before: str


@pytest.fixture(scope="module")
def up(cluster: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with second_lab(cluster, tmp_path_factory.mktemp("up") / "a lab, #2") as lab:
        before = links_here()
        answer = on(lab)("up")
        assert answer.returncode == 0, answer.stdout
        yield Up(lab, on(lab), answer.stdout, before)


def traces(lab: Lab) -> list[str]:
    """Everything of the lab that a look at the machine would show."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                text = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if str(lab.folders.run) in text:
                found.append(text.replace("\0", " "))
    found += [m for m in Path("/proc/mounts").read_text().splitlines() if str(lab.folders.run) in m]
    return found


def test_up_says_that_every_node_is_idle(up: Up) -> None:
    assert up.said.splitlines()[-1].endswith("n1 idle, n2 idle, n3 idle, n4 idle")


def test_nothing_of_the_lab_is_seen_on_the_host(up: Up) -> None:
    assert links_here() == up.before
    listening = subprocess.run(["ss", "-Hltn"], capture_output=True, text=True, check=True).stdout
    assert "10.77.0." not in listening and ":6817" not in listening


def test_a_second_up_changes_nothing(up: Up) -> None:
    before = up.lab.init
    answer = up.command("up")
    assert answer.returncode == 0, answer.stdout
    assert up.lab.init == before
    assert "starting" not in answer.stdout


def test_status_shows_machines_services_and_faults(up: Up) -> None:
    up.command("fault", "add", "rate", "n2", "1")
    lines = up.command("status").stdout.splitlines()
    assert "n1       namespace  10.77.0.11     on   idle" in lines
    assert "head     slurmctld  running" in lines
    assert "fault    rate n2:eth0 1" in lines
    assert up.command("fault", "clear").returncode == 0


def test_up_repairs_what_has_died(up: Up) -> None:
    for service in ("slurmctld", "slurmdbd", "mariadb"):
        up.lab.stop_service(service)
    node = up.lab.machine("n2")
    assert node is not None
    node.kill()
    assert node.wait_until_ended(PATIENCE_S)
    answer = up.command("up")
    assert answer.returncode == 0, answer.stdout
    for service in ("slurmctld", "slurmdbd", "mariadb"):
        assert f"starting {service} again" in answer.stdout
    assert up.lab.on_head("srun", "-w", "n2", "hostname").stdout == "n2\n"


@pytest.mark.release
@pytest.mark.parametrize(
    "victim", ["lab-init", "unshare", "head", "n3", "slurmctld", "slurmdbd", "mariadbd", "munged"]
)
def test_any_process_can_be_killed_and_the_lab_comes_back(up: Up, victim: str) -> None:
    assert up.lab.init is not None
    if victim == "lab-init":
        up.lab.init.kill()
    elif victim == "unshare":
        # The parent of the lab's first process, outside its namespaces.
        stat = Path(f"/proc/{up.lab.init.pid}/stat").read_text()
        os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
    elif victim in ("head", "n3"):
        machine = up.lab.machine(victim)
        assert machine is not None
        machine.kill()
    else:
        up.lab.on_head("pkill", "-9", "-x", victim, check=False)
    time.sleep(0.5)
    assert up.command("down").returncode == 0
    assert traces(up.lab) == []
    answer = up.command("up")
    assert answer.returncode == 0, answer.stdout


def test_slurm_commands_answer_from_a_folder_that_the_lab_does_not_have(
    cluster: Lab, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "not in the lab"
    elsewhere.mkdir()
    for folder in (elsewhere, Path("/root")):
        answer = subprocess.run(
            [cluster.folders.bin / "sinfo", "--noheader", "--format=%P"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (answer.returncode, answer.stderr) == (0, "") and "ns" in answer.stdout


def test_two_labs_do_not_disturb_each_other(up: Up, cluster: Lab) -> None:
    up.command("fault", "add", "off", "n1")
    assert up.lab.machine("n1") is None
    assert cluster.node_states()["n1"] == "idle"
    up.command("down")
    assert cluster.init is not None
    assert cluster.on_head("srun", "-w", "n1", "hostname").stdout == "n1\n"


def test_slurm_commands_say_that_the_lab_is_not_up(up: Up) -> None:
    assert up.command("down").returncode == 0
    answer = subprocess.run(
        [up.lab.folders.bin / "sinfo"], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 1
    assert "next: railgauge lab up" in answer.stderr


def test_up_adds_the_nodes_that_a_lab_came_up_without(command: Command, second: Lab) -> None:
    command("up", "--nodes", "n[1-2]")
    before = second.init
    answer = command("up", "--nodes", "n4")
    assert answer.stdout.splitlines()[-1].endswith("up: n1 idle, n2 idle, n4 idle")
    answer = command("up")
    assert answer.stdout.splitlines()[-1].endswith("up: n1 idle, n2 idle, n3 idle, n4 idle")
    assert second.init == before


def test_a_drained_node_is_reported_and_not_waited_for(command: Command, second: Lab) -> None:
    command("up")
    drain = ["scontrol", "update", "nodename=n2", "state=drain", "reason=changed firmware"]
    second.on_head(*drain)
    command("fault", "add", "rate", "n2", "1")
    answer = command("fault", "clear")
    # One that waited for it would end with an error, as it does not become idle.
    assert answer.returncode == 0, answer.stdout
    assert "n2 is drained (changed firmware)" in answer.stdout
    assert "n2 is drained (changed firmware)" in command("up").stdout


@pytest.mark.release
@pytest.mark.parametrize("below", ["/tmp", "/run"], indirect=True)
def test_a_vm_boots_in_a_lab_at_any_path(command: Command, second: Lab) -> None:
    """Below what a VM mounts again."""
    answer = command("up", "--nodes", "n5")
    assert answer.returncode == 0, answer.stdout
    shown = command("exec", "n5", "sh", "-c", f"ls '{second.folders.log}' /var/log/slurm")
    assert shown.stdout.count("boot-n5.log") == 2


@pytest.mark.release
def test_a_vm_that_dies_while_it_boots_is_reported_with_its_console(
    command: Command, second: Lab
) -> None:
    command("up", "--nodes", "n1")
    second.folders.run.joinpath("initrd").write_bytes(b"no archive")
    (second.folders.run / "accelerator").write_text("tcg")
    answer = command("up", "--nodes", "n5")
    assert answer.returncode == 3, answer.stdout
    assert "n5 ended while it booted" in answer.stdout and "Kernel panic" in answer.stdout
    assert "next: railgauge lab logs boot-n5" in answer.stdout


def test_a_path_that_no_list_of_paths_can_hold_is_one_clear_error(command: Command) -> None:
    answer = command("up", RAILGAUGE_LAB_DIR="/tmp/with:colon")
    assert answer.returncode == 3, answer.stdout
    assert "holds a colon" in answer.stdout and "RAILGAUGE_LAB_DIR" in answer.stdout


def test_down_leaves_nothing(command: Command, second: Lab) -> None:
    before = links_here()
    command("up")
    assert traces(second)
    answer = command("down")
    assert answer.stdout == "the lab is down\n"
    assert traces(second) == []
    assert links_here() == before
    assert not second.folders.run.exists()


def test_an_up_that_was_killed_leaves_nothing_in_the_way(command: Command, second: Lab) -> None:
    environment = {**os.environ, "RAILGAUGE_LAB_DIR": str(second.folders.lab)}
    for delay in (0.15, 0.3, 0.6, 1.2):
        broken = subprocess.Popen(
            [str(paths.HOME / "bin/railgauge"), "lab", "up", "--nodes", "n[1-4]"],
            env=environment,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(delay)
        broken.kill()
        broken.wait()
        assert command("down").returncode == 0
        assert traces(second) == []
    assert command("up").returncode == 0


def test_nodes_and_host_see_the_checkout_at_the_same_path(cluster: Lab) -> None:
    readme = paths.HOME / "pyproject.toml"
    for machine in ("head", "n1"):
        inside = subprocess.run(
            cluster.enter(machine, "sha256sum", str(readme)), capture_output=True, check=True
        )
        outside = subprocess.run(["sha256sum", str(readme)], capture_output=True, check=True)
        assert inside.stdout == outside.stdout


@pytest.mark.parametrize(
    "names",
    [
        "gpu-01a gpu-01b gpu-02a gpu-02b",
        "r1t01 r1t02 r2t01 r2t02 r10t01",
        "r1-n1-ib r1-n2-ib r2-n1-ib",
        "n1 n2 n01 n02 n10 n001",
        "N1 n1 N2 n3 login",
    ],
)
def test_slurm_takes_our_host_lists_of_any_names(cluster: Lab, names: str) -> None:
    listed = cluster.on_head("scontrol", "show", "hostnames", hostlist.fold(names.split()))
    assert sorted(listed.stdout.split()) == sorted(names.split())


def test_slurm_knows_a_nodes_kind_and_gpus(cluster: Lab) -> None:
    text = cluster.on_head("scontrol", "show", "node", "n1").stdout
    assert "ActiveFeatures=namespace" in text
    assert "Gres=gpu:lab:8" in text


def test_accounting_knows_a_jobs_end(cluster: Lab) -> None:
    cluster.on_head("srun", "-w", "n1", "false", check=False)
    # Slurm's accounting hears of the end a moment after srun.
    deadline = time.monotonic() + PATIENCE_S
    while True:
        listed = cluster.on_head("sacct", "-X", "-n", "-o", "state,exitcode").stdout
        state, code = listed.splitlines()[-1].split()
        if state not in ("PENDING", "RUNNING", "COMPLETING"):
            break
        assert time.monotonic() < deadline, listed
        time.sleep(0.2)
    assert (state, code) == ("FAILED", "1:0")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["fault", "add", "rate"], "needs a place"),
        (["fault", "add", "rate", "n1"], "needs GBITS"),
        (["fault", "add", "rate", "n9", "1"], "no node 'n9'"),
        (["fault", "add", "rate", "n1", "-1"], "above 0"),
        (["fault", "add", "slurmdbd-stop", "n1"], "'n1' is too much"),
        (["fault", "add", "nosuch"], "nosuch"),
        (["exec", "n9", "true"], "no node 'n9'"),
        (["logs", "nosuch"], "no log 'nosuch'"),
    ],
)
def test_a_wrong_command_is_one_clear_error(cluster: Lab, arguments: list[str], says: str) -> None:
    answer = subprocess.run(
        [str(paths.HOME / "bin/railgauge"), "lab", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 3
    assert says in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    "arguments", [["status"], ["shell"], ["exec", "n1", "true"], ["fault", "list"]]
)
def test_commands_say_that_the_lab_is_not_up(command: Command, arguments: list[str]) -> None:
    answer = command(*arguments)
    assert answer.returncode == 3
    assert "is not up" in answer.stdout and "next: railgauge lab up" in answer.stdout


def test_only_one_lab_command_works_at_a_time(command: Command, second: Lab) -> None:
    with second.locked():
        answer = command("down")
    assert answer.returncode == 3
    assert "is at work" in answer.stdout


def test_an_unreachable_mirror_is_one_clear_error(command: Command, second: Lab) -> None:
    rootfs.location(second.folders.lab).unlink()
    answer = command("up", RAILGAUGE_LAB_MIRROR="http://127.0.0.1:9/debian")
    assert answer.returncode == 3, answer.stdout
    assert "building the lab's image failed" in answer.stdout
    assert "is a Debian mirror reachable?" in answer.stdout
    assert not list((second.folders.lab / "rootfs").glob("*.part"))


def test_an_image_that_broke_off_is_built_again(command: Command, second: Lab) -> None:
    image = rootfs.location(second.folders.lab)
    image.unlink()
    (image.with_suffix(".part") / "usr").mkdir(parents=True)
    answer = command("up", RAILGAUGE_LAB_MIRROR="http://127.0.0.1:9/debian")
    assert "removing a broken image" in answer.stdout
    assert not image.with_suffix(".part").exists()


def test_without_root_the_lab_says_so(tmp_path: Path) -> None:
    # A user namespace without a mapping: another's id, to whom root's files are still readable.
    command = ["unshare", "--user", str(paths.HOME / ".venv/bin/python")]
    script = (
        "from railgauge.cli.lab import open_lab\n"
        "try: open_lab().up()\n"
        "except Exception as error: print(error)\n"
    )
    answer = subprocess.run(
        [*command, "-c", script],
        env={**os.environ, "PYTHONPATH": str(paths.SOURCE), "RAILGAUGE_LAB_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "the lab needs root" in answer.stdout, answer.stderr


def test_the_description_and_the_system_agree() -> None:
    lab = open_lab()
    described = {node.name: node.kind for node in lab.spec.all_nodes()}
    partitions = {p.name: p for p in systems.load("lab").partitions}
    assert {name for p in partitions.values() for name in p.nodes} == set(described)
    assert {p.extras.mtu_bytes for p in partitions.values()} == {lab.spec.network.mtu_bytes}
    assert partitions["ns"].extras.link_gbits == lab.spec.network.link_gbits
    assert {described[name] for name in partitions["vm"].nodes} == {"vm"}
    rdma, bond = partitions["vm"].extras.rdma, partitions["vm"].extras.bond
    assert rdma is not None and rdma.rails == len(lab.spec.fabric.rail_subnets)
    assert bond is not None and lab.spec.fabric.bond is not None
    assert bond.links == vm.bond_interfaces(lab.spec)
    assert bond.link_gbits == lab.spec.fabric.bond.link_gbits

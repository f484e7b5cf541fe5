"""Eight machines that only ssh joins, on this one: n3 behind a token bucket, n6 with a CPU quota. Which of them are named, and how long it
takes. Each machine is a network namespace with an sshd of keys made here; all are gone at the end."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time

from netns import ip
from shared import PLIMSOLL, ROUNDS, Missing

COUNT, SLOW_LINK, SLOW_CPU = 8, 3, 6
SSHD = "/usr/sbin/sshd"
QUOTA, PERIOD = 40_000, 100_000


def bench():
    """ROUNDS runs over all of them."""
    if os.geteuid() != 0 or not os.path.exists(SSHD):
        raise Missing("needs root and sshd")
    print(f"\n{COUNT} machines on this one; n{SLOW_LINK} has a token bucket of 200 Mbit/s, n{SLOW_CPU} a CPU quota of "
          f"{QUOTA * 100 // PERIOD} %\n\n| run | s | named | what is said of them |\n| --- | --- | --- | --- |")
    with contextlib.ExitStack() as stack:
        scratch = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bridge = machines(stack, scratch)
        for number in range(1, ROUNDS + 1):
            begun = time.monotonic()
            found = [finding for finding in run(bridge, scratch) if finding["code"] in ("outlier", "slow-node", "slow-pair")]
            took = time.monotonic() - begun
            named = sorted({word for finding in found for word in re.findall(r"\bn\d\b", finding["text"].split(":")[0])})
            said = "<br>".join(finding["text"] for finding in found)
            print(f"| {number} | {took:.0f} | {', '.join(named)} | {said} |", flush=True)


def run(bridge, scratch):
    """The findings of one run."""
    hosts = ",".join(f"n{number}" for number in range(1, COUNT + 1))
    argv = ["ip", "netns", "exec", bridge, os.path.abspath(PLIMSOLL), "run", "quick", "--only", "cpu.peak,network.tcp",
            "--parallel", "1", "--hosts", hosts, "--ssh-config", str(scratch / "config"), "--store", "none",
            "--json", str(scratch / "fleet.json")]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=400)
    if ran.returncode != 0:
        raise RuntimeError(f"exit {ran.returncode}: {ran.stderr.strip()[-400:]}")
    return json.loads((scratch / "fleet.json").read_text())["findings"]


def machines(stack, scratch):
    """Makes them; the name of the namespace that has the bridge."""
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(scratch / key)], check=True)
    host = (scratch / "host.pub").read_text()
    (scratch / "known").write_text("".join(f"198.18.9.{n} {host}" for n in range(1, COUNT + 1)))
    (scratch / "sshd").write_text(f"HostKey {scratch}/host\nAuthorizedKeysFile {scratch}/user.pub\nStrictModes no\nPidFile none\n"
                                  "PermitRootLogin yes\nMaxStartups 99\n")
    names = "".join(f"Host n{n}\nHostName 198.18.9.{n}\n" for n in range(1, COUNT + 1))
    (scratch / "config").write_text(f"{names}Host *\nUser root\nIdentityFile {scratch}/user\nIdentitiesOnly yes\n"
                                    f"UserKnownHostsFile {scratch}/known\nGlobalKnownHostsFile /dev/null\n")
    # The directory that sshd keeps empty for itself.
    os.makedirs("/run/sshd", exist_ok=True)
    bridge = namespace(stack, "bridge")
    ip("-n", bridge, "link", "add", "br0", "type", "bridge")
    ip("-n", bridge, "link", "set", "br0", "up")
    ip("-n", bridge, "address", "add", "198.18.9.100/24", "dev", "br0")
    for number in range(1, COUNT + 1):
        machine(stack, scratch, bridge, number)
    return bridge


def namespace(stack, name):
    name = f"plimsoll-bench-{name}-{os.getpid()}"
    ip("netns", "add", name)
    stack.callback(subprocess.run, ["ip", "netns", "delete", name], check=False)
    ip("-n", name, "link", "set", "lo", "up")
    return name


def machine(stack, scratch, bridge, number):
    """One of them, with its sshd."""
    name = namespace(stack, f"n{number}")
    ip("link", "add", f"port{number}", "netns", bridge, "type", "veth", "peer", "name", "eth0", "netns", name)
    ip("-n", bridge, "link", "set", f"port{number}", "master", "br0", "up")
    ip("-n", name, "address", "add", f"198.18.9.{number}/24", "dev", "eth0")
    ip("-n", name, "link", "set", "eth0", "up")
    if number == SLOW_LINK:
        subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "200mbit", "burst", "64kb",
                        "latency", "50ms"], check=True)
    files = scratch / f"n{number}"
    files.mkdir()
    joins = []
    if number == SLOW_CPU:
        group = slow_group(stack)
        joins = ["sh", "-c", 'echo $$ > "$1/cgroup.procs"; shift; exec "$@"', "sh", str(group)]
    # A host name of its own: machines are known by it.
    inside = ["unshare", "--uts", "sh", "-c", f'hostname n{number}; exec "$@"', "sh"]
    argv = [*joins, "ip", "netns", "exec", name, *inside, SSHD, "-D", "-e", "-f", str(scratch / "sshd"),
            "-o", f"SetEnv=TMPDIR={files}"]
    server = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(lambda: (server.terminate(), server.wait()))


def slow_group(stack):
    """A control group with the quota; of the second version where that has the controller."""
    first = pathlib.Path("/sys/fs/cgroup/cpu")
    group = (first if first.is_dir() else pathlib.Path("/sys/fs/cgroup")) / f"plimsoll-bench-{os.getpid()}"
    group.mkdir()
    stack.callback(lambda: os.rmdir(group))
    if first.is_dir():
        (group / "cpu.cfs_period_us").write_text(str(PERIOD))
        (group / "cpu.cfs_quota_us").write_text(str(QUOTA))
    else:
        (group / "cpu.max").write_text(f"{QUOTA} {PERIOD}")
    return group

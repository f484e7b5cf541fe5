"""Two network namespaces with a veth pair between them, and a `plimsoll serve` in the second; or plain loopback."""

import contextlib
import os
import pathlib
import subprocess
import tempfile
import time

from shared import PLIMSOLL, Missing


class Veth:
    """Where the two ends run: `near` and `far` are what stands before a command, `address` is that of the far end."""

    def __init__(self, apart):
        self.apart = apart
        self.names = [f"plimsoll-bench-{end}-{os.getpid()}" for end in ("near", "far")] if apart else []
        self.near = ["ip", "netns", "exec", self.names[0]] if apart else []
        self.far = ["ip", "netns", "exec", self.names[1]] if apart else []
        # A network for benchmarks (RFC 2544), in namespaces that nobody else sees.
        self.address = "198.18.0.2" if apart else "127.0.0.1"

    @classmethod
    def none(cls):
        return cls(False)

    @classmethod
    def pair(cls):
        return cls(True)

    def __enter__(self):
        if self.apart:
            if os.geteuid() != 0:
                raise Missing("needs root to make network namespaces")
            near, far = self.names
            for name in self.names:
                ip("netns", "add", name)
                ip("-n", name, "link", "set", "lo", "up")
            ip("link", "add", "veth0", "netns", near, "type", "veth", "peer", "name", "veth0", "netns", far)
            for name, address in zip(self.names, ("198.18.0.1/24", "198.18.0.2/24")):
                ip("-n", name, "address", "add", address, "dev", "veth0")
                ip("-n", name, "link", "set", "veth0", "up")
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], check=False)

    @contextlib.contextmanager
    def serving(self, cpus=None):
        """Runs a server at the far end, on `cpus` if given; gives the words that make plimsoll use it. Over loopback
        without `cpus` none: plimsoll then starts its own."""
        if not self.apart and cpus is None:
            yield []
            return
        with tempfile.TemporaryDirectory() as scratch:
            key = pathlib.Path(scratch, "key")
            subprocess.run([PLIMSOLL, "key", "new", str(key)], check=True, capture_output=True)
            pinned = ["taskset", "-c", cpus] if cpus else []
            argv = [*self.far, *pinned, PLIMSOLL, "serve", "--bind", self.address, "--key", str(key), "--allow-root"]
            server = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                listening(self, 7546)
                yield ["--server", self.address, "--key", str(key)]
            finally:
                server.terminate()
                server.wait()


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def listening(veth, port, protocol="tcp"):
    """Waits until somebody listens on `port` at the far end; by UDP: has bound it."""
    deadline = time.monotonic() + 10
    wanted = f":{int(port):04X}"
    while time.monotonic() < deadline:
        argv = [*veth.far, "cat", f"/proc/net/{protocol}", f"/proc/net/{protocol}6"]
        lines = subprocess.run(argv, capture_output=True, text=True, check=False).stdout.splitlines()
        fields = [line.split() for line in lines]
        # 0A is a socket that listens, 07 one of UDP that is bound.
        if any(len(f) > 3 and f[1].endswith(wanted) and f[3] in ("0A", "07") for f in fields):
            return
        time.sleep(0.02)
    raise RuntimeError(f"nobody listens on port {port}")

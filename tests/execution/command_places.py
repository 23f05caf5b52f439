"""Real places for commands: an sshd on loopback, and an image for a container engine. Made when a test wants them."""

import os
import secrets
import shutil
import socket
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hermes.execution.docker import DockerOptions
from hermes.execution.ssh.backend import SshOptions
from tests.requirements import find_program, require

_ENGINE_OPTIONS: tuple[tuple[str, ...], ...] = ((), ("--runtime", "runc", "--cgroup-manager", "cgroupfs"))
_LIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
"""Some machines refuse the limits that podman sets by itself."""


FEW = frozenset(
    {
        "test_exit_codes_and_signals",
        "test_keys_of_this_process_are_not_handed_on",
        "test_stop_ends_three_shells_deep_in_time",
        "test_a_stopped_command_is_told_as_that",
        "test_a_kill_in_the_middle_of_a_command",
    }
)
"""What is tried in containers, too, by HERMES_BACKENDS=few."""


def check_wanted(test: str) -> None:
    """Skip a test in a container, unless HERMES_BACKENDS wants it: all of them, or a few."""
    wanted = os.environ.get("HERMES_BACKENDS", "")
    if not wanted or (wanted == "few" and test not in FEW):
        pytest.skip("containers are tried by `make backends`")


def _said(*command: str | Path) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{Path(command[0]).name} takes too long here")
    if done.returncode:
        pytest.skip(f"{Path(command[0]).name} does not work here: {done.stderr.strip()[-300:]}")
    return done.stdout


class Host:
    """An sshd of the test's own, with its own keys, and ssh settings that know it."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port

    def says(self, listing: str | bytes, *, code: int = 0) -> None:
        """Have the host lie about what lies in a folder."""
        (self.folder / "says").write_bytes(listing.encode() if isinstance(listing, str) else listing)
        self.pretends("find", f"cat {self.folder}/says; exit {code}")

    def pretends(self, program: str, script: str) -> None:
        """Have the host run another program under this name."""
        (self.folder / "bin" / program).write_text(f"#!/bin/sh\n{script}\n")
        (self.folder / "bin" / program).chmod(0o755)

    def tells_the_truth(self) -> None:
        """Have the host be honest again."""
        for one in (self.folder / "bin").iterdir():
            one.unlink()

    def place(self, folder: str, **changes: object) -> SshOptions:
        values: dict[str, object] = {
            "host": "127.0.0.1",
            "port": self.port,
            "key": str(self.folder / "user_key"),
            "config": str(self.folder / "ssh_config"),
            "folder": folder,
        }
        return SshOptions(**{**values, **changes})  # type: ignore[arg-type]


@contextmanager
def sshd(folder: Path) -> Iterator[Host]:
    require("openssh")
    program = find_program("sshd") or "sshd"
    for name in ("host_key", "user_key", "other_key"):
        _said("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "bin").mkdir()
    lines = [
        f"Port {port}",
        "ListenAddress 127.0.0.1",
        f"HostKey {folder}/host_key",
        f"AuthorizedKeysFile {folder}/user_key.pub",
        "PidFile none",
        "PasswordAuthentication no",
        "StrictModes no",
        # With that SHLVL bash does not run the tester's own .bashrc, as it else does for sshd.
        f"SetEnv SHLVL=5 PATH={folder}/bin:/usr/local/bin:/usr/bin:/bin",
        "PermitRootLogin prohibit-password",
    ]
    (folder / "sshd_config").write_text("\n".join(lines) + "\n")
    known = f"[127.0.0.1]:{port} {(folder / 'host_key.pub').read_text()}"
    (folder / "known_hosts").write_text(known)
    own = f"Host *\n  UserKnownHostsFile {folder}/known_hosts\n  GlobalKnownHostsFile /dev/null\n  IdentitiesOnly yes\n"
    (folder / "ssh_config").write_text(own)
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen([program, "-D", "-e", "-f", folder / "sshd_config"], stderr=log)
    try:
        deadline = time.monotonic() + 60
        while b"listening" not in (folder / "log").read_bytes():
            if server.poll() is not None or time.monotonic() > deadline:
                pytest.skip(f"sshd does not work here: {(folder / 'log').read_text()[-300:]}")
            time.sleep(0.01)
        yield Host(folder, port)
    finally:
        server.terminate()
        server.wait()


@contextmanager
def image(folder: Path) -> Iterator[DockerOptions]:
    """An image of a static busybox, and bash if there is a static one, in an engine that runs it."""
    engine = shutil.which("podman") or shutil.which("docker")
    busybox = shutil.which("busybox")
    if not engine or not busybox:
        pytest.skip("no podman, no docker or no busybox here")
    root = folder / "root"
    for name in ("bin", "usr/bin", "tmp", "proc", "etc"):
        (root / name).mkdir(parents=True)
    shutil.copy(busybox, root / "bin/busybox")
    for name in _said(busybox, "--list").split():
        if not (root / "bin" / name).exists():
            (root / "bin" / name).symlink_to("/bin/busybox")
    (root / "usr/bin/env").symlink_to("/bin/busybox")
    if bash := shutil.which("bash-static"):
        shutil.copy(bash, root / "bin/bash")
    with tarfile.open(folder / "image.tar", "w") as archive:
        archive.add(root, ".")
    name = f"localhost/hermes-test-{secrets.token_hex(6)}:1"
    _said(engine, "import", folder / "image.tar", name)
    # An ordinary user's images are in the home, and tests have one of their own.
    store = ("--root", _said(engine, "info", "--format", "{{.Store.GraphRoot}}").strip()) if os.getuid() else ()
    try:
        why = ""
        for engine_options in _ENGINE_OPTIONS:
            options = (*engine_options, *store)
            run = [
                engine,
                *options,
                "run",
                "--rm",
                "--init",
                "--network",
                "none",
                *_LIMITS,
                name,
                "sh",
                "-c",
                "echo ok",
            ]
            try:
                done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)
            except subprocess.TimeoutExpired:
                continue
            if done.stdout == "ok\n":
                yield DockerOptions(image=name, program=engine, options=options, args=_LIMITS, memory="256m")
                return
            why = done.stderr.strip()[-300:]
        pytest.skip(f"no container engine works here: {why}")
    finally:
        subprocess.run([engine, "rmi", "--force", name], capture_output=True, timeout=60, check=False)

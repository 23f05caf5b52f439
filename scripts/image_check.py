#!/usr/bin/env python3
"""Build the container image, and use it as a person does: `make image`.

    python -m scripts.image_check [--engine podman] [--base IMAGE | --bootstrap] [--index] [--image NAME]

Builds the Dockerfile with podman or docker, and then, against a scripted model server on loopback: sets a model up,
asks a prompt, starts again and finds the session, opens the chat on a terminal, runs the gateway until it is healthy,
and stops it. Looks at who owns what, and at what lies in the image. Prints the image's size.

`--base` builds upon another image than Debian's; `--bootstrap` makes one from Debian's archive where no registry can be
reached (as root, with debootstrap), and keeps it as `hermes-base`; `--index` takes the Python packages from an index of
`build/wheels`, which `make install-check` fills.
"""

import argparse
import asyncio
import contextlib
import json
import os
import pty
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from hermes.testing.script import Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from scripts.install_check import ROOT, CheckError, ask_api, find_free_port, make_index, run_program, serve_index

ANSWER = "The image works."
LIMITS = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"]
WAYS: tuple[tuple[list[str], list[str]], ...] = (
    ([], []),
    ([], LIMITS),
    (["--runtime", "runc", "--cgroup-manager", "cgroupfs"], LIMITS),
)
"""Options of the engine and of its `run`: some machines refuse the limits or the control groups that it sets."""
UNWANTED = (
    "usr/share/doc",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/man",
    "var/cache/apt",
    "var/lib/apt/lists",
)
"""Folders that Debian's own slim images are without, too."""
INSIDE = """
set -eu
test "$(id -u)" != 0
for one in pip gcc cc make; do if command -v "$one"; then echo "$one is in the image"; exit 1; fi; done
if touch /opt/hermes/x 2>/dev/null; then echo "the program can be written"; exit 1; fi
said="$(hermes update --yes 2>&1)" && exit 1
case "$said" in *"the way it was installed"*) ;; *) echo "$said"; exit 1 ;; esac
test -z "$(find /data ! -user "$(id -u)")"
if python -v -m hermes --version 2>&1 | grep "bytecode is stale"; then exit 1; fi
"""


class Engine:
    """podman or docker, with the options that it needs on this machine."""

    def __init__(self, program: str, image: str) -> None:
        self.program = program
        self.image = image
        self.volume = f"hermes-check-{secrets.token_hex(4)}"
        self._before: list[str] = []
        self._options: list[str] = []

    @property
    def is_podman(self) -> bool:
        return Path(self.program).name == "podman"

    def build(self, arguments: dict[str, str]) -> None:
        """Build the image."""
        given = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
        more = ["--format", "docker"] if self.is_podman else []  # the format of OCI knows no health check
        run_program([self.program, "build", "--network", "host", *more, *given, "-t", self.image, str(ROOT)])

    def choose_options(self) -> str:
        """Find options with which a container runs here; return what the program in it says."""
        said = ""
        for before, options in WAYS:
            if before and not self.is_podman:
                continue
            self._before, self._options = before, options
            with contextlib.suppress(CheckError):
                return self.run("--version")
            said = f"{self.program} {' '.join(before)} run {' '.join(options)} does not work here"
        raise CheckError(said)

    def command(self, *options: str, volume: bool = True) -> list[str]:
        """Return the command that runs a container, but for what runs in it."""
        if self.is_podman and "-d" not in options:
            options = (*options, "--no-healthcheck")
        kept = ["-v", f"{self.volume}:/data"] if volume else []
        return [self.program, *self._before, "run", "--network", "host", *self._options, *kept, *options]

    def run(self, *words: str, entry: str = "") -> str:
        """Run Hermes, or another program, in a container that is gone afterwards."""
        other = ["--entrypoint", entry] if entry else []
        return run_program([*self.command("--rm", *other), self.image, *words])

    def say(self, *words: str) -> str:
        """Run a command of the engine."""
        return run_program([self.program, *self._before, *words])


def make_base(engine: Engine) -> str:
    """Make an image as slim as Debian's own from its archive, unless it is there; return its name."""
    name = "hermes-base"
    with contextlib.suppress(CheckError):
        engine.say("image", "inspect", name)
        return name
    with tempfile.TemporaryDirectory() as folder:
        run_program(["debootstrap", "--variant=minbase", "bookworm", folder])
        settings = Path(folder, "etc/dpkg/dpkg.cfg.d/slim")
        settings.write_text("".join(f"path-exclude=/{one}/*\n" for one in UNWANTED if one.startswith("usr/")))
        archive = Path(folder, "base.tar")
        left_out = [f"--exclude=./{one}/*" for one in UNWANTED]
        run_program(["tar", "-C", folder, *left_out, "--exclude=./base.tar", "-cf", str(archive), "."])
        engine.say("import", str(archive), name)
    return name


def try_chat(engine: Engine) -> str:
    """Open the chat as `run -it` does, and leave it."""
    above, below = pty.openpty()
    command = [*engine.command("--rm", "-it", "-e", "TERM=xterm-256color"), engine.image]
    with subprocess.Popen(command, stdin=below, stdout=below, stderr=below, start_new_session=True) as chat:
        os.close(below)
        wait_for_words(above, rb"/help")
        wait_for_words(above, rb"\x1b\[\?2004h")  # the input line is there
        os.write(above, b"/quit\r")
        with contextlib.suppress(OSError):  # the other end is closed
            while os.read(above, 4096):
                pass
        os.close(above)
        if chat.wait(60):
            raise CheckError(f"the chat ended with {chat.returncode}")
    return "opened and left"


def wait_for_words(terminal: int, wanted: bytes, seconds: float = 60.0) -> None:
    """Read what a terminal shows until the words are there."""
    seen, end = b"", time.monotonic() + seconds
    while not re.search(wanted, seen):
        if time.monotonic() > end:
            raise CheckError(f"the chat does not show {wanted!r}: {seen[-1000:]!r}")
        try:
            seen += os.read(terminal, 4096)
        except OSError:
            raise CheckError(f"the chat ended: {seen[-1000:]!r}") from None


def try_gateway(engine: Engine) -> str:
    """Run the gateway until the image's own health check passes, ask it a prompt over its API, and stop it."""
    name, key, port = engine.volume, secrets.token_hex(16), find_free_port()
    engine.run("config", "set", "platforms.api_server", f"{{port: {port}}}")
    options = ("-d", "--name", name, "-e", f"API_SERVER_KEY={key}")
    run_program([*engine.command(*options), engine.image, "gateway", "run"])
    try:
        end = time.monotonic() + 60
        while not is_healthy(engine, name):
            if time.monotonic() > end:
                raise CheckError(f"the gateway does not get healthy: {read_log(engine, name)}")
            time.sleep(0.5)
        if (answer := ask_api(port, key)) != ANSWER:
            raise CheckError(f"the gateway answers {answer!r}")
        begun = time.monotonic()
        engine.say("stop", "-t", "30", name)
        seconds = time.monotonic() - begun
        code = engine.say("inspect", "--format", "{{.State.ExitCode}}", name).strip()
        if code != "0" or seconds > 20:
            raise CheckError(f"stopped after {seconds:.1f} s with exit code {code}")
        return f"healthy; answered over its API; stopped in {seconds:.1f} s with exit code 0"
    finally:
        engine.say("rm", "-f", name)


def read_log(engine: Engine, name: str) -> str:
    """Return the end of what a container has printed."""
    done = subprocess.run([engine.program, "logs", name], check=False, capture_output=True, text=True)
    return (done.stdout + done.stderr)[-1000:]


def is_healthy(engine: Engine, name: str) -> bool:
    """Return whether the health check passes: podman runs it when asked, docker by itself."""
    if engine.is_podman:
        done = subprocess.run([engine.program, "healthcheck", "run", name], check=False, capture_output=True)
        return done.returncode == 0
    return engine.say("inspect", "--format", "{{.State.Health.Status}}", name).strip() == "healthy"


def try_prompt(engine: Engine, url: str) -> str:
    """Set a model up, ask it, and find the session at the next start."""
    engine.run("setup", "--base-url", url, "--model", "mock-model", "--yes")
    said = engine.run("-z", "Does it work?")
    if said.strip() != ANSWER:
        raise CheckError(f"answered {said!r}")
    listed = engine.run("sessions", "list")
    if "Does it work?" not in listed:
        raise CheckError(f"the second start does not know the session: {listed!r}")
    return "answered; the next start knows the settings and the session"


def try_owner(engine: Engine, url: str) -> str:
    """Use folders of this machine as another user than root: nothing in them is left to root."""
    with tempfile.TemporaryDirectory() as made:
        os.chown(made, 1234, 1234)
        kept = ["-v", f"{made}:/data", "--user", "1234:1234", "--rm"]
        setup = ["setup", "--base-url", url, "--model", "mock-model", "--yes"]
        run_program([*engine.command(*kept, volume=False), engine.image, *setup])
        run_program([*engine.command(*kept, volume=False), engine.image, "-z", "hello"])
        owners = {one.stat().st_uid for one in Path(made).rglob("*")}
    if owners != {1234}:
        raise CheckError(f"the files belong to {owners}")
    return "every file in a folder of the host belongs to its user"


def describe_sandbox(engine: Engine) -> str:
    """Return what `hermes doctor` says of the commands' confinement."""
    found = re.search(r"^Commands: (.*)$", engine.run("doctor"), re.MULTILINE)
    if found is None:
        raise CheckError("`hermes doctor` says nothing of commands")
    return found[1].split(";")[0]


async def check_image(engine: Engine) -> int:
    """Run all checks; return how many failed."""
    failed = 0
    async with ScriptedServer(ScriptedModel([], then=Say(ANSWER))) as server:
        checks: dict[str, Callable[[], str]] = {
            "prompt": lambda: try_prompt(engine, server.url),
            "inside": lambda: engine.run("-c", INSIDE, entry="sh") or "no root, no build tools, a program of root's",
            "sandbox": lambda: describe_sandbox(engine),
            "chat": lambda: try_chat(engine),
            "gateway": lambda: try_gateway(engine),
        }
        if os.getuid() == 0:
            checks["owner"] = lambda: try_owner(engine, server.url)
        for name, check in checks.items():
            try:
                print(f"{name:<8} ok      {await asyncio.to_thread(check)}", flush=True)
            except CheckError as error:
                failed += 1
                print(f"{name:<8} FAILED  {error}", flush=True)
    return failed


@contextlib.contextmanager
def serve_packages(wanted: bool) -> Iterator[dict[str, str]]:
    """Serve the wheels of `make install-check` where that is wanted; yields arguments of the build."""
    if not wanted:
        yield {}
        return
    wheels = list((ROOT / "build" / "wheels").glob("*.whl"))
    with tempfile.TemporaryDirectory() as folder:
        make_index(wheels, Path(folder))
        with serve_index(Path(folder)) as index:
            yield {"PIP_INDEX_URL": index}


def main() -> int:
    """Build the image and use it; return the exit code."""
    parser = argparse.ArgumentParser(description="Build the container image, and use it as a person does.")
    parser.add_argument("--engine", help="podman or docker (the first that is there)")
    parser.add_argument("--base", help="an image to build upon")
    parser.add_argument("--bootstrap", action="store_true", help="make that image from Debian's archive")
    parser.add_argument("--index", action="store_true", help="take Python packages from build/wheels")
    parser.add_argument("--no-build", action="store_true", help="use the image that is there")
    parser.add_argument("--image", default="hermes", help="the image's name (hermes)")
    args = parser.parse_args()
    program = shutil.which(args.engine) if args.engine else shutil.which("podman") or shutil.which("docker")
    if program is None:
        print("There is neither podman nor docker here.", file=sys.stderr)
        return 1
    engine = Engine(program, args.image)
    try:
        with serve_packages(args.index and not args.no_build) as arguments:
            if not args.no_build:
                base = make_base(engine) if args.bootstrap else args.base
                begun = time.monotonic()
                engine.build(arguments | ({"BASE": base} if base else {}))
                print(f"built in {time.monotonic() - begun:.0f} s", flush=True)
        size = int(engine.say("image", "inspect", "--format", "{{.Size}}", args.image))
        layers = len(json.loads(engine.say("image", "inspect", "--format", "{{json .RootFS.Layers}}", args.image)))
        print(f"{args.image}: {size / 1e6:.0f} MB, {layers} layers; {engine.choose_options().strip()}", flush=True)
        return 1 if asyncio.run(check_image(engine)) else 0
    except CheckError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        subprocess.run([program, "volume", "rm", "-f", engine.volume], check=False, capture_output=True)


if __name__ == "__main__":
    sys.exit(main())

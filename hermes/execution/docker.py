"""Commands in a container of the session's own, by `docker` or `podman`."""

import asyncio
import os
import re
import secrets
import shutil
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.execution.base import Command, Network, Sink
from hermes.execution.local import LocalBackend
from hermes.execution.remote import Client, Far, FarRunning
from hermes.execution.sandbox.planted_files import Plants
from hermes.execution.sandbox.policy import PROJECT_FILES
from hermes.execution.sandbox.tmpdir import Room
from hermes.execution.supervisor import Wardens
from hermes.safety.paths import is_or_below, secret_places
from hermes.safety.places import Places
from hermes.util.process_identity import is_alive, this_process

_PROGRAMS = ("podman", "docker")
_OWNER = "hermes.owner"
"""The label that says which process a container is of."""
_ENGINE = 30.0
"""Seconds that the engine may take for a word about its containers."""
_ID = re.compile(r"[0-9a-f]{12,64}")
_IDENTITY = re.compile(r"[0-9a-f-]*/[0-9]+/[0-9]*")
_MOUNTABLE = re.compile(r"[^,\"\x00-\x1f\x7f]+")
_TMP = "/tmp"  # noqa: S108 - the container's, which is a private folder of the session's here
_OPENING = (
    "-v", "--volume", "--mount", "--privileged", "--net", "--pid", "--ipc", "--uts", "--userns", "--cgroupns",
    "--device", "--cap-add", "--security-opt", "--add-host", "-p", "-P", "--publish", "--pod", "--rootfs",
    "--group-add", "--gpus", "--sysctl", "--env-host", "--secret",
)  # fmt: skip
"""Arguments that may open more of this machine than the workspace: with one of them a container holds nothing back."""


class DockerPlace(Struct, frozen=True, kw_only=True):
    """What containers are made of, and what they may use."""

    image: str
    program: str = ""
    """`docker` or `podman`, or a path; empty: the first of podman and docker that is installed."""
    network: bool = False
    """Whether a container may have the engine's own network; else it has none."""
    memory: str = "2g"
    pids: int = 512
    options: tuple[str, ...] = ()
    """Options of the program itself, before its verb."""
    args: tuple[str, ...] = ()
    """More options of its `run`."""


class DockerBackend:
    """Runs commands in one container a session, which sees the workspace under its own path and nothing else of here.

    The container is made at the first command and ends with this process, however that ends: its first process reads
    from a pipe that nobody else holds. A command that may have no network, when others may, gets a second container
    that has none. The image's own environment is the base; of this process's variables only those named in `passed`
    are handed on. The other parameters are those of `LocalBackend`.
    """

    name = "docker"

    def __init__(
        self,
        environment: Mapping[str, str],
        place: DockerPlace,
        places: Places,
        *,
        passed: Collection[str] = (),
        held: Sequence[int] = (),
        wardens: Wardens | None = None,
    ) -> None:
        self._environment = environment
        self._place = place
        self._places = places
        self._workspace = os.path.realpath(places.workspace)
        self._passed = tuple(name for name in passed if name in environment)
        self._held = held
        self._wardens = wardens
        self._containers: dict[bool, Container] = {}
        self._making = asyncio.Lock()
        self._room: Room | None = None
        self._plants = Plants()
        self._looking = asyncio.Lock()
        self._notices: list[str] = []
        self._reclaimed = False
        self.contained = not any(one.startswith(_OPENING) for one in (*place.options, *place.args))

    async def line(self, *, whole: bool = False) -> str:
        """What holds, or that nothing can run. The engine is not asked: that could take its time."""
        del whole
        program = self._program()
        if not program:
            return "Commands are to run in a container, and there is no docker and no podman here."
        network = "on" if self._place.network else "off"
        if not self.contained:
            network += "; your own arguments open more of this machine to it, so the questions are those of local"
        return f"Commands run in a container ({program}, {self._place.image}); network: {network}."

    def take_notices(self) -> list[str]:
        """What was taken out of the way since the last time."""
        notices, self._notices = self._notices, []
        return notices

    def writable(self, path: str) -> bool:
        """The workspace, and the session's own /tmp."""
        return is_or_below(path, self._workspace) or (self._room is not None and is_or_below(path, self._room.tmp))

    def outside(self, path: str) -> str:
        """Where a path of the container's lies on this machine, if it does."""
        plain = os.path.normpath(path)
        if is_or_below(plain, _TMP) and not is_or_below(plain, self._workspace):
            return self._opened().tmp + plain[len(_TMP) :]
        return path

    def inside(self, path: str) -> str:
        """How the container names a path of this machine."""
        tmp = self._room.tmp if self._room is not None else ""
        return _TMP + path[len(tmp) :] if tmp and is_or_below(path, tmp) else path

    def gone(self, path: str) -> bool:
        """Whether a command could not enter it: the container has folders that are not here."""
        return any(path in one.far.missing for one in self._containers.values())

    def denied_path(self, output: str, cwd: str) -> str:
        """A container that runs cannot be given another folder."""
        return ""

    def never_opened(self, output: str, cwd: str) -> str:
        """No place has to be told of here."""
        return ""

    def grant(self, path: str) -> None:
        """Refused: a container that runs cannot be given another folder."""
        raise ToolError(f"{path} is not in the container; only the workspace is.")

    async def start(self, command: Command, sink: Sink) -> FarRunning:
        """Start a command in the container. Raises `ToolError` when there is no engine, or it makes none."""
        container = await self._container(self._place.network and command.network is Network.ON)
        async with self._looking:
            if not any(one.far.busy for one in self._containers.values()):
                await asyncio.to_thread(self._plants.begin, self._roots(), PROJECT_FILES)
        return await container.far.start(command, sink, self._look)

    async def close(self) -> None:
        """End the containers with everything in them."""
        await asyncio.gather(*(one.close() for one in self._containers.values()))
        self._containers.clear()
        if self._room is not None:
            await self._room.close()
            self._room = None

    async def _look(self) -> list[str]:
        """Take what programs of this machine would obey out of the way, as after a command in the sandbox."""
        async with self._looking:
            notes = await asyncio.to_thread(self._plants.look, self._roots(), PROJECT_FILES, lambda path: False)
        self._notices += notes
        return notes

    def _roots(self) -> tuple[str, ...]:
        return self._workspace, self._opened().tmp

    def _program(self) -> str:
        path = self._environment.get("PATH", os.defpath)
        names = (self._place.program,) if self._place.program else _PROGRAMS
        return next((found for name in names if (found := shutil.which(name, path=path))), "")

    def _opened(self) -> Room:
        if self._room is None:
            self._room = Room([])
        return self._room

    async def _container(self, network: bool) -> "Container":
        async with self._making:
            container = self._containers.get(network)
            if container is None or not container.far.kept:
                if container is not None:
                    await container.close()
                container = self._made(network)
                self._containers[network] = container
                await container.begin()
            return container

    def _made(self, network: bool) -> "Container":
        program = self._program()
        if not program:
            wanted = self._place.program or "docker or podman"
            raise ToolError(
                f"Commands are to run in a container, and there is no {wanted} here.",
                "Install it, or set terminal.backend to another one.",
            )
        if not self._place.image or self._place.image.startswith("-"):
            raise ToolError("No image is named for the container. Set terminal.docker.image.")
        for secret in (*secret_places(self._places), self._places.hermes):
            if is_or_below(os.path.realpath(secret), self._workspace) and os.path.lexists(secret):
                raise ToolError(
                    f"The workspace {self._workspace} holds {secret}, which a container must not see.",
                    "Work in a folder of its own.",
                )
        if not _MOUNTABLE.fullmatch(self._workspace):
            raise ToolError(
                f"The workspace {self._workspace!r} has a comma, a quote or a control character in its name, "
                "which no container can be told."
            )
        local = LocalBackend(self._environment, passed=self._passed, held=self._held, wardens=self._wardens)
        made = Container(local, [program, *self._place.options], self._run_arguments(program, network))
        if not self._reclaimed:
            self._reclaimed = True
            made.far.own(made.reclaim(), "containers of dead processes")
        return made

    def _run_arguments(self, program: str, network: bool) -> list[str]:
        place = self._place
        arguments = [
            "--init",
            "--pull",
            "missing",
            "--label",
            f"{_OWNER}={this_process()}",
            "--workdir",
            self._workspace,
        ]
        arguments += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        arguments += ["--pids-limit", str(place.pids), "--memory", place.memory]
        arguments += [] if network else ["--network", "none"]
        for here, there in ((self._opened().tmp, _TMP), (self._workspace, self._workspace)):
            arguments += ["--mount", f"type=bind,src={here},dst={there}"]
        arguments += ["--env", f"HOME={_TMP}"]
        for name in self._passed:
            arguments += ["--env", name]  # the value comes from the client's environment: a command line can be seen
        if uid := os.getuid():
            arguments += ["--user", f"{uid}:{os.getgid()}"]
            arguments += ["--userns", "keep-id"] if "podman" in os.path.basename(program) else []
        return [*arguments, *place.args, place.image]


class Container:
    """One container, under the client that made it."""

    def __init__(self, local: LocalBackend, program: Sequence[str], arguments: Sequence[str]) -> None:
        self._program = tuple(program)
        self._arguments = tuple(arguments)
        self._name = f"hermes-{secrets.token_hex(8)}"
        self.far = Far(local, self._lead, "the container")
        self._begun = False

    async def begin(self) -> None:
        """Make it. Raises `ToolError` with the engine's reason."""
        await self.far.keep(
            lambda script: [
                *self._program,
                "run",
                "--rm",
                "--interactive",
                "--name",
                self._name,
                *self._arguments,
                "sh",
                "-c",
                script,
            ]
        )
        self._begun = True

    async def reclaim(self) -> None:
        """Remove the containers of Hermes processes that are dead.

        What ran in them has ended with those; their names stay with the engine when its own watcher was killed, too.
        """
        form = '{{.ID}} {{.Label "' + _OWNER + '"}}'
        listed = await self._asked("ps", "--all", "--filter", f"label={_OWNER}", "--format", form)
        for line in listed.splitlines():
            name, _, owner = line.partition(" ")
            if _ID.fullmatch(name) and _IDENTITY.fullmatch(owner) and not is_alive(owner):
                await self._asked("rm", name)  # one that runs all the same is kept

    async def _asked(self, *arguments: str) -> str:
        """What the engine says; nothing when it does not within its time."""
        said = bytearray()
        client = Client([*self._program, *arguments])
        running = await self.far.local.start(Command(text="", cwd="/"), said.extend, client)
        try:
            async with asyncio.timeout(_ENGINE):
                await running.wait()
        except TimeoutError:
            return ""
        finally:
            await running.stop()
        return said.decode("utf-8", "replace")

    async def close(self) -> None:
        """End it. Where its client was killed nobody else removes it."""
        if self._begun and not self.far.kept:
            await self._asked("rm", "--force", self._name)
        await self.far.close()

    def _lead(self, script: str, interactive: bool, pty: bool) -> list[str]:
        flags = ["--interactive"] * (interactive or pty) + ["--tty"] * pty
        return [*self._program, "exec", *flags, self._name, "sh", "-c", script]

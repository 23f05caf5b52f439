"""The door in the sandbox's wall: what gets through, what is asked once, and that names cannot be turned."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from hermes.execution.base import DeniedPath, NetworkMode, Permit, ShellCommand
from hermes.execution.sandbox.backend import SandboxBackend
from hermes.execution.sandbox.egress_proxy import AllowedHosts, EgressProxy, ProxyRefusal, explain_refused_address
from hermes.execution.sandbox.policy import SandboxPolicy
from hermes.execution.sandbox.probe import SandboxMechanism, SandboxProbe
from hermes.safety.paths import Places
from tests.execution.test_local import until
from tests.requirements import require_sandbox


class Door:
    """Answers questions, and keeps them."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed
        self.asked: list[str] = []
        self.led: list[str] = []
        """The name that led to each, if any."""
        self.pause: asyncio.Event | None = None

    async def connect(self, host: str, port: int, name: str = "") -> Permit:
        self.asked.append(host)
        self.led.append(name)
        if self.pause is not None:
            await self.pause.wait()
        return Permit(host in self.allowed, "the person said no")

    async def open_path(self, denied: DeniedPath) -> Permit:
        return Permit(False)


class Site:
    """A server on loopback that keeps what it was sent."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.got.append(head)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nhi\n")
            await writer.drain()
            self.got[-1] += await reader.read(1000) if b"ength" in head or b"unked" in head else b""
        writer.close()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()


class Wall:
    """A proxy on a socket, with names of the test's own."""

    def __init__(self, folder: Path, door: Door | None, *patterns: str, names: dict[str, Sequence[str]] | None = None):
        self.looked_up: list[str] = []
        self.names = names or {}
        self.hosts = AllowedHosts(patterns, self.resolve)
        self.proxy = EgressProxy(self.hosts, door)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.looked_up.append(host)
        return self.names.get(host, ())

    async def __aenter__(self) -> "Wall":
        self.door = self.proxy.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.proxy.close()
        self.door.close()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        near, far = socket.socketpair()
        with far:
            socket.send_fds(self.door, [b"c"], [far.fileno()])
        return await asyncio.open_connection(sock=near)

    async def send(self, data: bytes) -> bytes:
        reader, writer = await self.connect()
        writer.write(data)
        try:
            async with asyncio.timeout(60):
                return await reader.read()
        finally:
            writer.close()


async def test_what_the_settings_name_gets_through(tmp_path: Path, site: Site) -> None:
    async with Wall(tmp_path, None, f"a.test:{site.port}", names={"a.test": ["127.0.0.1"]}) as wall:
        assert (await wall.send(f"GET http://a.test:{site.port}/x?y HTTP/1.1\r\nHost: evil\r\n\r\n".encode())).endswith(
            b"hi\n"
        )
        assert site.got[0].startswith(b"GET /x?y HTTP/1.1\r\nHost: a.test:")
        tunnel = f"CONNECT a.test:{site.port} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n".encode()
        assert (await wall.send(tunnel)).endswith(b"hi\n")
        refused = await wall.send(b"CONNECT b.test:443 HTTP/1.1\r\n\r\n")
        assert refused.startswith(b"HTTP/1.1 403 ") and b"to b.test are refused" in refused
        assert wall.looked_up == ["a.test", "a.test"]


async def test_a_host_is_asked_about_once(tmp_path: Path, site: Site) -> None:
    door = Door("a.test", "127.0.0.1")
    door.pause = asyncio.Event()
    async with Wall(tmp_path, door, names={"a.test": ["127.0.0.1"]}) as wall:
        request = f"GET http://A.test:{site.port}/ HTTP/1.1\r\n\r\n".encode()
        sending = [asyncio.create_task(wall.send(request)) for _ in range(5)]
        await until(lambda: bool(door.asked))
        await asyncio.sleep(0.02)
        door.pause.set()
        assert all(answer.endswith(b"hi\n") for answer in await asyncio.gather(*sending))
        assert door.asked == ["a.test", "127.0.0.1"]  # the second since the name leads into a local network
        for _ in range(2):
            assert b"403" in await wall.send(b"CONNECT no.test:443 HTTP/1.1\r\n\r\n")
        assert door.asked == ["a.test", "127.0.0.1", "no.test"]


async def test_what_one_door_says_is_not_for_another(tmp_path: Path) -> None:
    first, second = Door("a.test"), Door()
    hosts = AllowedHosts((), Wall(tmp_path, first, names={"a.test": ["8.8.8.8"]}).resolve)
    assert await hosts.resolve_allowed("a.test", 443, first) == ["8.8.8.8"]
    with pytest.raises(ProxyRefusal):
        await hosts.resolve_allowed("a.test", 443, second)
    assert (first.asked, second.asked) == (["a.test"], ["a.test"])


async def test_a_question_ends_with_the_client_that_waits_for_its_answer(tmp_path: Path) -> None:
    door = Door("a.test")
    door.pause = asyncio.Event()
    ended = asyncio.Event()

    class Watched(Door):
        async def connect(self, host: str, port: int, name: str = "") -> Permit:
            try:
                return await door.connect(host, port, name)
            finally:
                ended.set()

    async with Wall(tmp_path, Watched(), names={"a.test": ["127.0.0.1"]}) as wall:
        near, far = socket.socketpair()
        with near, far:
            socket.send_fds(wall.door, [b"c"], [far.fileno()])
            near.sendall(b"CONNECT a.test:443 HTTP/1.1\r\n\r\n")
            await until(lambda: bool(door.asked))
            assert not ended.is_set()
        async with asyncio.timeout(60):
            await ended.wait()


async def test_a_question_that_was_broken_off_is_asked_again(tmp_path: Path) -> None:
    door = Door("a.test")
    door.pause = asyncio.Event()
    hosts = AllowedHosts((), Wall(tmp_path, door, names={"a.test": ["8.8.8.8"]}).resolve)
    first = asyncio.create_task(hosts.resolve_allowed("a.test", 443, door))
    second = asyncio.create_task(hosts.resolve_allowed("a.test", 443, door))
    await asyncio.sleep(0.01)
    first.cancel()
    door.pause.set()
    assert await second == ["8.8.8.8"] and door.asked == ["a.test", "a.test"]


@pytest.mark.parametrize(
    "target",
    [
        "169.254.169.254",
        "[::ffff:169.254.169.254]",
        "0xa9fea9fe",
        "2852039166",
        "169.254.43518",
        "[fd00:ec2::254]",
        "meta.test",
        "[64:ff9b::a9fe:a9fe]",
        "[fe80::1]",
        "100.100.100.200",
        "169.254.170.2",
    ],
)
async def test_keys_of_the_machine_are_never_handed_out(tmp_path: Path, target: str) -> None:
    door = Door(target, "169.254.169.254", "meta.test")
    async with Wall(tmp_path, door, "*.test", names={"meta.test": ["169.254.169.254"]}) as wall:
        assert b" 403 " in await wall.send(f"CONNECT {target}:80 HTTP/1.1\r\n\r\n".encode())
        assert not door.asked


@pytest.mark.parametrize("target", ["127.0.0.1", "localhost", "0x7f.1", "2130706433", "[::1]", "10.0.0.1", "evil.test"])
async def test_local_networks_are_asked_about_by_their_address(tmp_path: Path, target: str) -> None:
    door = Door("evil.test", "localhost")
    names = {"evil.test": ["127.0.0.1"], "localhost": ["127.0.0.1"]}
    async with Wall(tmp_path, door, names=names) as wall:
        assert b" 403 " in await wall.send(f"CONNECT {target}:443 HTTP/1.1\r\n\r\n".encode())
        assert door.asked[-1] in ("127.0.0.1", "::1", "10.0.0.1")
        assert door.led[-1] == (target if target in names else "")


async def test_an_address_is_asked_about_with_the_name_that_leads_there(tmp_path: Path) -> None:
    door = Door("a.test")
    async with Wall(tmp_path, door, "b.test", names={"a.test": ["10.0.0.1"], "b.test": ["8.8.8.8"]}) as wall:
        answer = await wall.send(b"CONNECT a.test:443 HTTP/1.1\r\n\r\n")
        assert b"10.0.0.1, where a.test leads, are refused (the person said no); do not try again" in answer
        assert await wall.hosts.resolve_allowed("b.test", 443, door) == ["8.8.8.8"]
        assert b" 403 " in await wall.send(b"CONNECT 8.8.8.8:443 HTTP/1.1\r\n\r\n")
        assert list(zip(door.asked, door.led, strict=True)) == [
            ("a.test", ""),
            ("10.0.0.1", "a.test"),
            ("8.8.8.8", "b.test"),
        ]


async def test_what_was_refused_is_told_once_and_only_who_answers_is_heard(tmp_path: Path, site: Site) -> None:
    told: list[str] = []
    names = {"yes.test": ["127.0.0.1"], "turned.test": ["127.0.0.1"]}
    hosts = AllowedHosts((f"yes.test:{site.port}", "turned.*"), Wall(tmp_path, None, names=names).resolve)
    wall = Wall(tmp_path, None)
    wall.proxy = EgressProxy(hosts, Door(), told.append)
    async with wall:
        for _ in range(2):
            assert b"403" in await wall.send(b"CONNECT No.test:443 HTTP/1.1\r\n\r\n")
        assert told == ["Connections to no.test are refused (the person said no); do not try again."]
        assert wall.proxy.contacted_hosts == frozenset()
        assert (await wall.send(f"GET http://yes.test:{site.port}/ HTTP/1.1\r\n\r\n".encode())).endswith(b"hi\n")
        assert wall.proxy.contacted_hosts == {"yes.test"}


async def test_one_of_several_addresses_is_enough_to_refuse(tmp_path: Path) -> None:
    async with Wall(tmp_path, None, "*.test", names={"a.test": ["8.8.8.8", "127.0.0.1"]}) as wall:
        assert b" 403 " in await wall.send(b"CONNECT a.test:443 HTTP/1.1\r\n\r\n")


@pytest.mark.parametrize(
    "request_text",
    [
        "GET http://a.test:{p}/ HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET http://a.test:{p}/ HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 30\r\n\r\nabc",
        "GET http://a.test:{p}/ HTTP/1.1\r\nContent-Length: +3\r\n\r\nabc",
        "GET http://a.test:{p}/ HTTP/1.1\r\nX : y\r\n\r\n",
        "GET http://a.test:{p}/ HTTP/1.1\r\nX: y\nHost: evil\r\n\r\n",
        "GET http://a.test:{p}/ HTTP/1.1\r\nX: y\r\n folded\r\n\r\n",
        "GET http://user@a.test:{p}/ HTTP/1.1\r\n\r\n",
        "GET http://evil.test@a.test:{p}/ HTTP/1.1\r\n\r\n",
        "GET /path HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "GET file:///etc/passwd HTTP/1.1\r\n\r\n",
        "GET ftp://a.test/ HTTP/1.1\r\n\r\n",
        "GET http://a.test:{p}/ HTTP/1.1 HTTP/1.1\r\n\r\n",
        "CONNECT a.test HTTP/1.1\r\n\r\n",
        "CONNECT a.test:99999 HTTP/1.1\r\n\r\n",
        "CONNECT a.test:0{p}@evil:1 HTTP/1.1\r\n\r\n",
        "CONNECT a\x00.test:{p} HTTP/1.1\r\n\r\n",
        "G\x01T http://a.test:{p}/ HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_can_be_read_in_two_ways_is_refused(tmp_path: Path, site: Site, request_text: str) -> None:
    async with Wall(tmp_path, None, f"a.test:{site.port}", names={"a.test": ["127.0.0.1"]}) as wall:
        answer = await wall.send(request_text.format(p=site.port).encode())
        assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 403 ")) and not site.got


@pytest.mark.parametrize(
    "body", ["Content-Length: 3\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"]
)
async def test_a_second_request_does_not_follow_the_first(tmp_path: Path, site: Site, body: str) -> None:
    async with Wall(tmp_path, None, f"a.test:{site.port}", names={"a.test": ["127.0.0.1"]}) as wall:
        second = "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"
        await wall.send(f"POST http://a.test:{site.port}/ HTTP/1.1\r\n{body}{second}".encode())
        await asyncio.sleep(0.02)
        assert len(site.got) == 1 and b"abc" in site.got[0] and b"evil" not in site.got[0]


async def test_heads_are_bounded_and_connections_counted(tmp_path: Path) -> None:
    async with Wall(tmp_path, None) as wall:
        with contextlib.suppress(ConnectionError):
            assert await wall.send(b"GET http://a.test/ HTTP/1.1\r\nX: " + b"y" * 100_000) == b""
        await until(lambda: not wall.proxy._tasks)
        idle = [await wall.connect() for _ in range(128)]
        assert b" 503 " in await wall.send(b"CONNECT a.test:443 HTTP/1.1\r\n\r\n")
        for _, writer in idle:
            writer.close()
    assert not wall.proxy._tasks


async def test_only_connections_come_through_the_door(tmp_path: Path) -> None:
    async with Wall(tmp_path, None) as wall:
        with open(tmp_path / "file", "w") as file, socket.socket() as other:
            for handle in (file.fileno(), other.fileno()):
                socket.send_fds(wall.door, [b"c"], [handle])
            assert b" 403 " in await wall.send(b"CONNECT a.test:443 HTTP/1.1\r\n\r\n")
        await until(lambda: not wall.proxy._tasks)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1", True),
        ("10.1.2.3", False),
        ("100.64.0.1", False),
        ("::", False),
        ("0.0.0.0", False),
        ("::ffff:10.0.0.1", False),
        ("2002:7f00:1::", False),
        ("64:ff9b::7f00:1", False),
        ("224.0.0.1", False),
    ],
)
def test_addresses(address: str, public: bool) -> None:
    assert (explain_refused_address(address) == "") is public


async def test_a_command_gets_through_the_door(tmp_path: Path, site: Site) -> None:
    held = await (ways := SandboxProbe(os.environ, (SandboxMechanism.BUBBLEWRAP,))).find_support()
    require_sandbox("bubblewrap", held.hosts, held.reason)
    door = Door("127.0.0.1")
    (tmp_path / "w").mkdir()
    places = Places(home=str(tmp_path), hermes=str(tmp_path / "h"), workspace=str(tmp_path / "w"))
    backend = SandboxBackend(os.environ, SandboxPolicy(places=places, network=NetworkMode.ALLOWLIST), probe=ways)
    fetch = (
        "import os,urllib.request as u\n"
        "u.getproxies=lambda:{'http':os.environ['HTTP_PROXY']};u.proxy_bypass=lambda h:False\n"
        f"print(u.urlopen('http://127.0.0.1:{site.port}/').read())"
    )
    output = bytearray()
    for _ in range(2):
        command = ShellCommand(
            text=f'python3 -c "{fetch}"', cwd=str(tmp_path / "w"), permissions=door, report_state=True
        )
        ended = await (await backend.start(command, output.extend)).wait()
        assert ended.code == 0 and not ended.left_running, output
        assert ended.state is not None and "HTTP_PROXY" not in ended.state.environment
    assert output == b"b'hi\\n'\n" * 2 and door.asked == ["127.0.0.1"] * 2
    less = ShellCommand(
        text='[ -z "$HTTP_PROXY" ] && ! (ls -l /proc/self/fd | grep -q socket)',
        cwd=str(tmp_path / "w"),
        network=NetworkMode.OFF,
    )
    assert (await (await backend.start(less, output.extend)).wait()).code == 0
    await backend.close()

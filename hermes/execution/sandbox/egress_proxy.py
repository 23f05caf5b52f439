"""The door in a sandbox's wall: an HTTP proxy that lets through what the settings or a person allow.

It speaks CONNECT and plain HTTP with absolute targets, one request a connection. Names are resolved here, after they
were allowed (a look-up alone can carry data out), and the connection goes to the very address that was looked at.
"""

import asyncio
import contextlib
import ipaddress
import os
import re
import socket
import stat
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from urllib.parse import urlsplit

from hermes.execution.base import Door, Permit

_LARGEST_HEAD = 16_384
_MOST = 128
_PATIENCE = 15.0
"""Seconds for a request's head, and for a connection to be made."""
_IDLE = 600.0
_CHUNK = 65_536
_USUAL = (80, 443)
_MOST_NAMES = 1_000
_NOBODY = Permit(False, "nobody could be asked")
_HOST = re.compile(r"(?!-)[A-Za-z0-9_.-]{1,253}$")
_METADATA = tuple(
    map(
        ipaddress.ip_address,
        ("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254"),
    )
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_HOP = frozenset(
    {b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive", b"te", b"upgrade", b"host"}
)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class Refused(Exception):  # noqa: N818 - an answer, not a fault
    """A request that is not carried out; the text goes to the client."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status


class NotAllowed(Refused):
    """A host that commands are kept from."""

    def __init__(self, host: str, why: str, name: str = "") -> None:
        led = f", where {name} leads," if name else ""
        super().__init__("403 Forbidden", f"Connections to {host}{led} are refused ({why}); do not try again.")
        self.host = host


class Hosts:
    """What a session may connect to: patterns from the settings, and what each command's door says, once a host."""

    def __init__(self, patterns: Sequence[str], resolve: Resolve | None = None) -> None:
        self._patterns = tuple(one.lower() for one in patterns)
        self._resolve = resolve or _resolved
        self._answers: dict[tuple[str, int, Door | None], asyncio.Future[Permit]] = {}
        self._names: dict[str, str] = {}
        """Addresses by which names were reached: who connects to one by itself may have meant the name."""

    async def addresses(self, host: str, port: int, door: Door | None) -> list[str]:
        """The addresses that may be connected to, best first. Raises `Refused`."""
        literal = _literal(host)
        host = str(literal) if literal else host.lower().removesuffix(".")
        if literal is None and not _HOST.match(host):
            raise Refused("400 Bad Request", "That is no name of a host.")
        if not self.named(host, port) and not (literal and is_metadata(literal)):
            await self._ask(host, port, door, self._names.get(host, ""))
        found = [host] if literal else list(await self._looked_up(host, port))
        for address in found:
            if refused_address(address) and not self.named(address, port):
                await self._local(host, address, port, door)
        if literal is None:
            self._note(host, found)
        return found

    def _note(self, host: str, found: Sequence[str]) -> None:
        self._names |= dict.fromkeys(found, host)
        while len(self._names) > _MOST_NAMES:
            del self._names[next(iter(self._names))]

    async def _local(self, host: str, address: str, port: int, door: Door | None) -> None:
        """Whether an address that is nobody's on the internet may be connected to as `host`. Raises `Refused`."""
        if is_metadata(ipaddress.ip_address(address)):
            raise NotAllowed(host, f"it leads to {address}, which hands out keys of this machine")
        if host != address and not self._exactly(host, port):
            await self._ask(address, port, door, host)  # the person was asked about a name, not about this

    def named(self, host: str, port: int) -> bool:
        """Whether the settings allow it."""
        return any(_matches(pattern, host, port) for pattern in self._patterns)

    def _exactly(self, host: str, port: int) -> bool:
        return any("*" not in one and _matches(one, host, port) for one in self._patterns)

    async def _ask(self, host: str, port: int, door: Door | None, name: str = "") -> None:
        """Ask once, however many want to know. A question whose asker was stopped is asked anew."""
        key = host, port, door
        while (answer := self._answers.get(key)) is not None:
            await asyncio.wait({answer})
            if not answer.cancelled():
                break
        if answer is None:
            answer = self._answers[key] = asyncio.get_running_loop().create_future()
            try:
                answer.set_result(await door.connect(host, port, name) if door is not None else _NOBODY)
            finally:
                if not answer.done():
                    answer.cancel()
                if answer.cancelled() or door is None:
                    del self._answers[key]
        if not answer.result().allowed:
            raise NotAllowed(host, answer.result().why, name)

    def forget(self, door: Door | None) -> None:
        """Drop what a door has said: its command is over, and the next one has another."""
        for key in [one for one in self._answers if one[2] is door]:
            del self._answers[key]

    async def _looked_up(self, host: str, port: int) -> Sequence[str]:
        try:
            async with asyncio.timeout(_PATIENCE):
                found = await self._resolve(host, port)
        except (OSError, TimeoutError):
            found = ()
        if not found:
            raise Refused("502 Bad Gateway", f"{host} has no address.")
        return found


class Proxy:
    """One door, for one command. `close` ends it with all its connections; `told` hears of each refused host once."""

    def __init__(self, hosts: Hosts, door: Door | None, told: Callable[[str], None] | None = None) -> None:
        self._hosts = hosts
        self._door = door
        self._told = told
        self._heard: set[str] = set()
        self._refused: set[str] = set()
        self._near: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self) -> socket.socket:
        """The far end of the door, for the caller to hand on and close: connections are handed in through it."""
        self._near, far = socket.socketpair()
        self._near.setblocking(False)
        asyncio.get_running_loop().add_reader(self._near, self._handed_in)
        return far

    @property
    def heard(self) -> frozenset[str]:
        """The hosts from which anything came so far, by the names that were asked for."""
        return frozenset(self._heard)

    async def close(self) -> None:
        """End every connection."""
        self._shut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._hosts.forget(self._door)

    def _shut(self) -> None:
        near, self._near = self._near, None
        if near is not None:
            asyncio.get_running_loop().remove_reader(near)
            near.close()

    def _handed_in(self) -> None:
        assert self._near is not None
        try:
            data, handles, _, _ = socket.recv_fds(self._near, 1, 4)
        except BlockingIOError:
            return
        except OSError:
            data, handles = b"", []
        if not data:
            self._shut()
        for handle in handles:
            # What comes through is a command's choice: it may be anything.
            if not stat.S_ISSOCK(os.fstat(handle).st_mode):
                os.close(handle)
                continue
            given = socket.socket(fileno=handle)
            if given.family != socket.AF_UNIX or given.type != socket.SOCK_STREAM:
                given.close()
            else:
                self.take(given)

    def take(self, given: socket.socket) -> None:
        """Serve a connection; beyond a number of them it is closed at once."""
        if len(self._tasks) > 2 * _MOST:
            given.close()
            return
        task = asyncio.create_task(self._accepted(given))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accepted(self, given: socket.socket) -> None:
        with given:
            given.setblocking(False)
            try:
                reader, writer = await _opened(given)
            except (OSError, ValueError):
                return
            await self._answered(reader, writer)

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        except Refused as refused:
            body = f"{refused}\n".encode()
            head = f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
            writer.write(f"{head}X-Sandbox: {refused}\r\nConnection: close\r\n\r\n".encode("latin-1", "replace") + body)
            with contextlib.suppress(OSError):
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the connection ends, which tells the client
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, target, headers = await _head(reader)
        if len(self._tasks) > _MOST:
            raise Refused("503 Service Unavailable", "Too many connections from the sandbox at once.")
        if method == "CONNECT":
            host, port = _authority(target, None)
            near, far = await self._connected(reader, host, port)
            try:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await _both_ways(reader, writer, near, far, lambda: self._heard.add(host.lower()))
            finally:
                far.close()
            return
        parts = urlsplit(target)
        if parts.scheme != "http" or not parts.netloc or "@" in parts.netloc:
            raise Refused("400 Bad Request", "The sandbox's proxy takes CONNECT and http:// targets.")
        host, port = _authority(parts.netloc, 80)
        length, chunked = _body(headers)
        near, far = await self._connected(reader, host, port)
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            lines = [f"{method} {path} HTTP/1.1", f"Host: {parts.netloc}", "Connection: close"]
            kept = [name + b": " + value for name, value in headers if name.lower() not in _HOP]
            far.write(
                "\r\n".join(lines).encode("latin-1") + b"\r\n" + b"".join(one + b"\r\n" for one in kept) + b"\r\n"
            )
            sending = asyncio.create_task(_send_body(reader, far, length, chunked=chunked))
            try:
                await _carry(near, writer, lambda: self._heard.add(host.lower()))
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
        finally:
            far.close()

    async def _connected(
        self, reader: asyncio.StreamReader, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            found = await _while_open(reader, self._hosts.addresses(host, port, self._door))
        except NotAllowed as refused:
            if refused.host not in self._refused and self._told is not None:
                self._told(str(refused))
            self._refused.add(refused.host)
            raise
        for address in found:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    return await asyncio.open_connection(address, port, limit=_CHUNK)
        raise Refused("502 Bad Gateway", f"{host}:{port} does not answer.")


class _Reader(asyncio.StreamReader):
    """One that tells when the other side will send no more."""

    def __init__(self) -> None:
        super().__init__(limit=_LARGEST_HEAD)
        self.ended = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.ended.set()


async def _opened(given: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The two ends of a connection that was handed in."""
    loop = asyncio.get_running_loop()
    reader = _Reader()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.create_connection(lambda: protocol, sock=given)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


async def _while_open(reader: asyncio.StreamReader, work: Coroutine[object, object, list[str]]) -> list[str]:
    """What comes of it, unless the client goes before: nobody waits for the answer to a question then."""
    if not isinstance(reader, _Reader):
        return await work
    task = asyncio.create_task(work)
    gone = asyncio.create_task(reader.ended.wait())
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Refused("499 Client Closed Request", "The client has closed the connection.")
    finally:
        for one in (task, gone):
            one.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


def refused_address(address: str) -> str:
    """Why connections do not go there unless somebody names this very address; empty when they may."""
    found = _carried(ipaddress.ip_address(address))
    if is_metadata(found):
        return "it hands out keys of this machine"
    return "" if found.is_global and not found.is_multicast else "it is an address of a local network"


def is_metadata(address: Address) -> bool:
    """Whether a cloud's machines get their keys there."""
    address = _carried(address)
    return address in _METADATA or address.is_link_local


def _carried(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, if it does (mapped, 6to4, Teredo, NAT64)."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else address)


def _literal(host: str) -> Address | None:
    """The address that a name stands for without any look-up, in every form that the system's resolver takes."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]"))
    if re.fullmatch(r"[0-9a-fx.]+", host) and host[0].isdigit():
        with contextlib.suppress(OSError):
            return ipaddress.IPv4Address(socket.inet_aton(host))
    return None


async def _resolved(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def _matches(pattern: str, host: str, port: int) -> bool:
    name, _, wanted = pattern.rpartition(":") if re.search(r"[^:]:\d+$", pattern) else (pattern, "", "")
    if port not in ((int(wanted),) if wanted else _USUAL):
        return False
    return host.endswith(name[1:]) and host != name[2:] if name.startswith("*.") else host == name


async def _head(reader: asyncio.StreamReader) -> tuple[str, str, list[tuple[bytes, bytes]]]:
    """A request's line and headers, strictly: what two programs could read differently is refused."""
    async with asyncio.timeout(_PATIENCE):
        raw = await reader.readuntil(b"\r\n\r\n")
    first, *rest = raw[:-4].split(b"\r\n")
    words = first.split(b" ")
    strange = any(b"\n" in line or b"\r" in line or b"\0" in line for line in (first, *rest))
    if len(words) != 3 or words[2] not in (b"HTTP/1.1", b"HTTP/1.0") or strange or not words[0].isalpha():
        raise Refused("400 Bad Request", "The request cannot be read.")
    target = words[1].decode("latin-1")
    if not target.isascii() or not target.isprintable():
        raise Refused("400 Bad Request", "The request's target cannot be read.")
    return words[0].decode(), target, [_header(line) for line in rest]


def _header(line: bytes) -> tuple[bytes, bytes]:
    name, found, value = line.partition(b":")
    if not found or not re.fullmatch(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
        raise Refused("400 Bad Request", "A header of the request cannot be read.")
    return name, value.strip()


def _authority(text: str, default: int | None) -> tuple[str, int]:
    found = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^\[\]:@/]+)(?::(\d{1,5}))?", text)
    port = int(found[2]) if found and found[2] else default
    if found is None or port is None or not 0 < port < 65_536:
        raise Refused("400 Bad Request", "The request names no host and port.")
    return found[1].strip("[]"), port


def _body(headers: Sequence[tuple[bytes, bytes]]) -> tuple[int, bool]:
    """How long a request's body is, or that it comes in chunks."""
    lengths = [value for name, value in headers if name.lower() == b"content-length"]
    codings = [value.lower() for name, value in headers if name.lower() == b"transfer-encoding"]
    if codings and (lengths or codings != [b"chunked"]):
        raise Refused("400 Bad Request", "The request's length is told in two ways.")
    if len(lengths) > 1 or any(not one.isdigit() for one in lengths):
        raise Refused("400 Bad Request", "The request's length cannot be read.")
    return (int(lengths[0]) if lengths else 0), bool(codings)


async def _send_body(reader: asyncio.StreamReader, far: asyncio.StreamWriter, length: int, *, chunked: bool) -> None:
    """Pass on the body of one request and no more: what follows could be for somebody else."""
    while chunked:
        line = await reader.readuntil(b"\r\n")
        found = re.match(rb"([0-9a-fA-F]{1,12})[ \t]*[;\r]", line)
        if found is None:
            return
        size = int(found[1], 16)
        far.write(found[1] + b"\r\n")
        if not size:
            far.write(b"\r\n")
            break
        await _pass_on(reader, far, size + 2)
    await _pass_on(reader, far, length)


async def _pass_on(reader: asyncio.StreamReader, far: asyncio.StreamWriter, length: int) -> None:
    while length > 0:
        data = await reader.read(min(length, _CHUNK))
        if not data:
            break
        length -= len(data)
        far.write(data)
        await far.drain()


async def _both_ways(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    near: asyncio.StreamReader,
    far: asyncio.StreamWriter,
    heard: Callable[[], None],
) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(_carry(reader, far))
        group.create_task(_carry(near, writer, heard))


async def _carry(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, heard: Callable[[], None] | None = None
) -> None:
    """Until one side ends, or says nothing for very long; the end is passed on. `heard` is told that something came."""
    with contextlib.suppress(OSError, TimeoutError):
        while True:
            async with asyncio.timeout(_IDLE):
                data = await source.read(_CHUNK)
            if not data:
                break
            if heard is not None:
                heard()
            target.write(data)
            await target.drain()
    with contextlib.suppress(OSError):
        if target.can_write_eof():
            target.write_eof()

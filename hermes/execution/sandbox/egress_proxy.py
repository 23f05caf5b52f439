"""The sandbox's egress proxy: an HTTP proxy that lets through what the settings or a person allow.

It speaks CONNECT and plain HTTP with absolute targets, one request a connection. Names are resolved
here, after they were allowed (a look-up alone can carry data out), and the connection goes to the very
address that was judged.
"""

import asyncio
import contextlib
import ipaddress
import os
import re
import socket
import stat
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Protocol
from urllib.parse import urlsplit

from hermes.execution.base import CommandPermissions, Permit

_MAX_HEAD_BYTES = 16_384
_MAX_CONNECTIONS = 128
_CONNECT_SECONDS = 15.0
"""Seconds for a request's head, and for a connection to be made."""
_IDLE_SECONDS = 600.0
_CHUNK = 65_536
_DEFAULT_PORTS = (80, 443)
_MAX_NAMES = 1_000
_NO_ASKER = Permit(False, "nobody could be asked")
_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9_.-]{1,253}$")
_METADATA_ADDRESSES = tuple(
    map(
        ipaddress.ip_address,
        ("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254"),
    )
)
_TLS_HANDSHAKE = b"\x16"
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_HOP_HEADERS = frozenset(
    {b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive", b"te", b"upgrade", b"host"}
)

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
ResolveHost = Callable[[str, int], Awaitable[Sequence[str]]]
Connect = Callable[[str, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Connects to an address and a port. Raises OSError."""


class ProxyRefusal(Exception):  # noqa: N818 - an answer, not a fault
    """A request that the proxy refuses; the text goes to the client."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status


class HostNotAllowed(ProxyRefusal):
    """A refusal because commands are kept from this host."""

    def __init__(self, host: str, reason: str, name: str = "") -> None:
        led = f", where {name} leads," if name else ""
        super().__init__("403 Forbidden", f"Connections to {host}{led} are refused ({reason}); do not try again.")
        self.host = host


class HostRules(Protocol):
    """Decides where a proxy connects."""

    async def resolve_allowed(self, host: str, port: int, permissions: CommandPermissions | None) -> Sequence[str]:
        """Return the addresses that may be connected to, best first. Raises `ProxyRefusal`."""
        ...

    async def explain_refused_stream(self, host: str, port: int, opening: bytes) -> str:
        """Return why a connection must end that has begun with these bytes of its client; empty where it may go on."""
        ...

    def forget_answers(self, permissions: CommandPermissions | None) -> None:
        """Drop the answers of a command, which is over."""
        ...


class AllowedHosts:
    """The hosts that a session may connect to: patterns from the settings, and each command's answers, one a host."""

    def __init__(self, patterns: Sequence[str], resolve: ResolveHost | None = None) -> None:
        self._patterns = tuple(one.lower() for one in patterns)
        self._resolve = resolve or _resolve_host
        self._answers: dict[tuple[str, int, CommandPermissions | None], asyncio.Future[Permit]] = {}
        self._names_by_address: dict[str, str] = {}
        """The names by which addresses were reached: who connects to an address may have meant the name."""

    async def resolve_allowed(self, host: str, port: int, permissions: CommandPermissions | None) -> list[str]:
        """Return the addresses that may be connected to, best first. Raises `ProxyRefusal`."""
        literal = _parse_address(host)
        host = str(literal) if literal else host.lower().removesuffix(".")
        if literal is None and not _HOST_NAME.match(host):
            raise ProxyRefusal("400 Bad Request", "That is no name of a host.")
        if not self.is_named(host, port) and not (literal and is_metadata_address(literal)):
            await self._ask_once(host, port, permissions, self._names_by_address.get(host, ""))
        found = [host] if literal else list(await self._look_up(host, port))
        for address in found:
            if explain_refused_address(address) and not self.is_named(address, port):
                await self._check_local_address(host, address, port, permissions)
        if literal is None:
            self._remember_name(host, found)
        return found

    def _remember_name(self, host: str, found: Sequence[str]) -> None:
        self._names_by_address |= dict.fromkeys(found, host)
        while len(self._names_by_address) > _MAX_NAMES:
            del self._names_by_address[next(iter(self._names_by_address))]

    async def _check_local_address(
        self, host: str, address: str, port: int, permissions: CommandPermissions | None
    ) -> None:
        """Check whether an address that is not public may be connected to as `host`. Raises `ProxyRefusal`."""
        if is_metadata_address(ipaddress.ip_address(address)):
            raise HostNotAllowed(host, f"it leads to {address}, which hands out keys of this machine")
        if host != address and not any("*" not in one and _matches_pattern(one, host, port) for one in self._patterns):
            await self._ask_once(address, port, permissions, host)  # the person was asked about a name, not about this

    def is_named(self, host: str, port: int) -> bool:
        """Return whether the settings allow this host and port."""
        return any(_matches_pattern(pattern, host, port) for pattern in self._patterns)

    async def _ask_once(self, host: str, port: int, permissions: CommandPermissions | None, name: str = "") -> None:
        """Ask once, however many want to know. A question whose asker was stopped is asked again."""
        key = host, port, permissions
        while (answer := self._answers.get(key)) is not None:
            await asyncio.wait({answer})
            if not answer.cancelled():
                break
        if answer is None:
            answer = self._answers[key] = asyncio.get_running_loop().create_future()
            try:
                answer.set_result(await permissions.connect(host, port, name) if permissions is not None else _NO_ASKER)
            finally:
                if not answer.done():
                    answer.cancel()
                if answer.cancelled() or permissions is None:
                    del self._answers[key]
        if not answer.result().allowed:
            raise HostNotAllowed(host, answer.result().reason, name)

    async def explain_refused_stream(self, host: str, port: int, opening: bytes) -> str:
        """Return nothing: what a command says to a host that it may reach is its own."""
        return ""

    def forget_answers(self, permissions: CommandPermissions | None) -> None:
        """Drop the answers of a command: it is over, and the next one has its own permissions."""
        for key in [one for one in self._answers if one[2] is permissions]:
            del self._answers[key]

    async def _look_up(self, host: str, port: int) -> Sequence[str]:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                found = await self._resolve(host, port)
        except (OSError, TimeoutError):
            found = ()
        if not found:
            raise ProxyRefusal("502 Bad Gateway", f"{host} has no address.")
        return found


class EgressProxy:
    """The proxy of one command. `close` ends it with all its connections.

    `on_refusal` is called once for each refused host; `connect` makes the connections, by the system unless given.
    """

    def __init__(
        self,
        hosts: HostRules,
        permissions: CommandPermissions | None,
        on_refusal: Callable[[str], None] | None = None,
        connect: Connect | None = None,
    ) -> None:
        self._connect = connect or _connect_address
        self._hosts = hosts
        self._permissions = permissions
        self._on_refusal = on_refusal
        self._contacted_hosts: set[str] = set()
        self._refused_hosts: set[str] = set()
        self._tunnels: set[tuple[str, int, asyncio.StreamWriter]] = set()
        self._socket: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self) -> socket.socket:
        """Return the other end of the proxy's socket, to hand on and close: connections are handed in through it."""
        self._socket, relay_end = socket.socketpair()
        self._socket.setblocking(False)
        asyncio.get_running_loop().add_reader(self._socket, self._receive_connections)
        return relay_end

    @property
    def contacted_hosts(self) -> frozenset[str]:
        """The hosts from which anything came so far, by the names that were asked for."""
        return frozenset(self._contacted_hosts)

    async def close(self) -> None:
        """End every connection."""
        self._close_socket()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._hosts.forget_answers(self._permissions)

    def end_tunnels(self, host: str, port: int) -> None:
        """End the connections to a place at once, with what has not left yet."""
        for name, its_port, server_writer in [*self._tunnels]:
            if (name, its_port) == (host, port):
                server_writer.transport.abort()

    def _close_socket(self) -> None:
        near, self._socket = self._socket, None
        if near is not None:
            asyncio.get_running_loop().remove_reader(near)
            near.close()

    def _receive_connections(self) -> None:
        assert self._socket is not None
        try:
            data, handles, _, _ = socket.recv_fds(self._socket, 1, 4)
        except BlockingIOError:
            return
        except OSError:
            data, handles = b"", []
        if not data:
            self._close_socket()
        for handle in handles:
            # What comes through is a command's choice: it may be anything.
            if not stat.S_ISSOCK(os.fstat(handle).st_mode):
                os.close(handle)
                continue
            connection = socket.socket(fileno=handle)
            if connection.family != socket.AF_UNIX or connection.type != socket.SOCK_STREAM:
                connection.close()
            else:
                self.take_connection(connection)

    def take_connection(self, connection: socket.socket) -> None:
        """Serve a connection; beyond a number of them it is closed at once."""
        if len(self._tasks) > 2 * _MAX_CONNECTIONS:
            connection.close()
            return
        task = asyncio.create_task(self._serve_connection(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve_connection(self, connection: socket.socket) -> None:
        with connection:
            connection.setblocking(False)
            try:
                reader, writer = await _open_streams(connection)
            except (OSError, ValueError):
                return
            await self._serve_or_refuse(reader, writer)

    async def _serve_or_refuse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve_request(reader, writer)
        except ProxyRefusal as refused:
            body = f"{refused}\n".encode()
            head = f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
            writer.write(f"{head}X-Sandbox: {refused}\r\nConnection: close\r\n\r\n".encode("latin-1", "replace") + body)
            with contextlib.suppress(OSError):
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the connection ends, which tells the client
        finally:
            writer.close()

    async def _serve_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, target, headers = await _read_head(reader)
        if len(self._tasks) > _MAX_CONNECTIONS:
            raise ProxyRefusal("503 Service Unavailable", "Too many connections from the sandbox at once.")
        if method == "CONNECT":
            host, port = _parse_authority(target, None)
            server_reader, server_writer = await self._connect_host(reader, host, port)
            tunnel = (host.lower().removesuffix("."), port, server_writer)
            self._tunnels.add(tunnel)
            try:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                opening = await _read_opening(reader)
                if await self._hosts.explain_refused_stream(host, port, opening):
                    return
                server_writer.write(opening)
                await _copy_both_ways(
                    reader, writer, server_reader, server_writer, lambda: self._contacted_hosts.add(host.lower())
                )
            finally:
                self._tunnels.discard(tunnel)
                server_writer.close()
            return
        parts = urlsplit(target)
        if parts.scheme != "http" or not parts.netloc or "@" in parts.netloc:
            raise ProxyRefusal("400 Bad Request", "The sandbox's proxy takes CONNECT and http:// targets.")
        host, port = _parse_authority(parts.netloc, 80)
        length, chunked = _parse_body_length(headers)
        server_reader, server_writer = await self._connect_host(reader, host, port)
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            lines = [f"{method} {path} HTTP/1.1", f"Host: {parts.netloc}", "Connection: close"]
            forwarded_headers = [name + b": " + value for name, value in headers if name.lower() not in _HOP_HEADERS]
            server_writer.write(
                "\r\n".join(lines).encode("latin-1")
                + b"\r\n"
                + b"".join(one + b"\r\n" for one in forwarded_headers)
                + b"\r\n"
            )
            sending = asyncio.create_task(_send_body(reader, server_writer, length, chunked=chunked))
            try:
                await _copy_stream(server_reader, writer, lambda: self._contacted_hosts.add(host.lower()))
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
        finally:
            server_writer.close()

    async def _connect_host(
        self, reader: asyncio.StreamReader, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            found = await _run_while_open(reader, self._hosts.resolve_allowed(host, port, self._permissions))
        except HostNotAllowed as refused:
            if refused.host not in self._refused_hosts and self._on_refusal is not None:
                self._on_refusal(str(refused))
            self._refused_hosts.add(refused.host)
            raise
        for address in found:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await self._connect(address, port)
        raise ProxyRefusal("502 Bad Gateway", f"{host}:{port} does not answer.")


async def _connect_address(address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(address, port, limit=_CHUNK)


class _EndAwareReader(asyncio.StreamReader):
    """A stream reader that tells when the other side will send no more."""

    def __init__(self) -> None:
        super().__init__(limit=_MAX_HEAD_BYTES)
        self.ended = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.ended.set()


async def _open_streams(connection: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return the reader and writer of a connection that was handed in."""
    loop = asyncio.get_running_loop()
    reader = _EndAwareReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.create_connection(lambda: protocol, sock=connection)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


async def _run_while_open(
    reader: asyncio.StreamReader, work: Coroutine[object, object, Sequence[str]]
) -> Sequence[str]:
    """Return the result of the work, unless the client leaves before: nobody waits for the answer then."""
    if not isinstance(reader, _EndAwareReader):
        return await work
    task = asyncio.create_task(work)
    gone = asyncio.create_task(reader.ended.wait())
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ProxyRefusal("499 Client Closed Request", "The client has closed the connection.")
    finally:
        for one in (task, gone):
            one.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


def explain_refused_address(address: str) -> str:
    """Explain why connections do not go to an address unless somebody names it; empty when they may."""
    found = _unwrap_ipv4(ipaddress.ip_address(address))
    if is_metadata_address(found):
        return "it hands out keys of this machine"
    return "" if found.is_global and not found.is_multicast else "it is an address of a local network"


def is_metadata_address(address: IpAddress) -> bool:
    """Return whether a cloud's machines get their keys at this address."""
    address = _unwrap_ipv4(address)
    return address in _METADATA_ADDRESSES or address.is_link_local


def _unwrap_ipv4(address: IpAddress) -> IpAddress:
    """Return the IPv4 address that an IPv6 one stands for, if it does (mapped, 6to4, Teredo, NAT64)."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else address)


def _parse_address(host: str) -> IpAddress | None:
    """Return the address that a name stands for without any look-up, in every form that the system's resolver takes."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]"))
    if re.fullmatch(r"[0-9a-fx.]+", host) and host[0].isdigit():
        with contextlib.suppress(OSError):
            return ipaddress.IPv4Address(socket.inet_aton(host))
    return None


async def _resolve_host(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def _matches_pattern(pattern: str, host: str, port: int) -> bool:
    name, _, wanted = pattern.rpartition(":") if re.search(r"[^:]:\d+$", pattern) else (pattern, "", "")
    if port not in ((int(wanted),) if wanted else _DEFAULT_PORTS):
        return False
    return host.endswith(name[1:]) and host != name[2:] if name.startswith("*.") else host == name


async def _read_head(reader: asyncio.StreamReader) -> tuple[str, str, list[tuple[bytes, bytes]]]:
    """Read a request's line and headers, strictly: what two programs could read differently is refused."""
    async with asyncio.timeout(_CONNECT_SECONDS):
        raw = await reader.readuntil(b"\r\n\r\n")
    first, *rest = raw[:-4].split(b"\r\n")
    words = first.split(b" ")
    strange = any(b"\n" in line or b"\r" in line or b"\0" in line for line in (first, *rest))
    if len(words) != 3 or words[2] not in (b"HTTP/1.1", b"HTTP/1.0") or strange or not words[0].isalpha():
        raise ProxyRefusal("400 Bad Request", "The request cannot be read.")
    target = words[1].decode("latin-1")
    if not target.isascii() or not target.isprintable():
        raise ProxyRefusal("400 Bad Request", "The request's target cannot be read.")
    return words[0].decode(), target, [_parse_header(line) for line in rest]


def _parse_header(line: bytes) -> tuple[bytes, bytes]:
    name, found, value = line.partition(b":")
    if not found or not re.fullmatch(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
        raise ProxyRefusal("400 Bad Request", "A header of the request cannot be read.")
    return name, value.strip()


def _parse_authority(text: str, default: int | None) -> tuple[str, int]:
    found = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^\[\]:@/]+)(?::(\d{1,5}))?", text)
    port = int(found[2]) if found and found[2] else default
    if found is None or port is None or not 0 < port < 65_536:
        raise ProxyRefusal("400 Bad Request", "The request names no host and port.")
    return found[1].strip("[]"), port


def _parse_body_length(headers: Sequence[tuple[bytes, bytes]]) -> tuple[int, bool]:
    """Return how long a request's body is, and whether it comes in chunks."""
    lengths = [value for name, value in headers if name.lower() == b"content-length"]
    codings = [value.lower() for name, value in headers if name.lower() == b"transfer-encoding"]
    if codings and (lengths or codings != [b"chunked"]):
        raise ProxyRefusal("400 Bad Request", "The request's length is told in two ways.")
    if len(lengths) > 1 or any(not one.isdigit() for one in lengths):
        raise ProxyRefusal("400 Bad Request", "The request's length cannot be read.")
    return (int(lengths[0]) if lengths else 0), bool(codings)


async def _read_opening(reader: asyncio.StreamReader) -> bytes:
    """Return the first bytes of a client: of TLS its whole first record, of anything else what came first."""
    async with asyncio.timeout(_IDLE_SECONDS):
        opening = await reader.read(_CHUNK)
        while len(opening) < _MAX_HEAD_BYTES and opening[:1] == _TLS_HANDSHAKE and len(opening) < _record_end(opening):
            more = await reader.read(_CHUNK)
            if not more:
                break
            opening += more
    return opening


def _record_end(opening: bytes) -> int:
    return 5 + int.from_bytes(opening[3:5], "big") if len(opening) >= 5 else 5


async def _send_body(
    reader: asyncio.StreamReader, server_writer: asyncio.StreamWriter, length: int, *, chunked: bool
) -> None:
    """Pass on the body of one request and no more: what follows could be for somebody else."""
    while chunked:
        line = await reader.readuntil(b"\r\n")
        found = re.match(rb"([0-9a-fA-F]{1,12})[ \t]*[;\r]", line)
        if found is None:
            return
        size = int(found[1], 16)
        server_writer.write(found[1] + b"\r\n")
        if not size:
            server_writer.write(b"\r\n")
            break
        await _copy_bytes(reader, server_writer, size + 2)
    await _copy_bytes(reader, server_writer, length)


async def _copy_bytes(reader: asyncio.StreamReader, server_writer: asyncio.StreamWriter, length: int) -> None:
    while length > 0:
        data = await reader.read(min(length, _CHUNK))
        if not data:
            break
        length -= len(data)
        server_writer.write(data)
        await server_writer.drain()


async def _copy_both_ways(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    server_reader: asyncio.StreamReader,
    server_writer: asyncio.StreamWriter,
    on_data: Callable[[], None],
) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(_copy_stream(reader, server_writer))
        group.create_task(_copy_stream(server_reader, writer, on_data))


async def _copy_stream(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, on_data: Callable[[], None] | None = None
) -> None:
    """Copy until one side ends, or is silent for very long; the end is passed on.
    `on_data` is called for each piece.
    """
    with contextlib.suppress(OSError, TimeoutError):
        while True:
            async with asyncio.timeout(_IDLE_SECONDS):
                data = await source.read(_CHUNK)
            if not data:
                break
            if on_data is not None:
                on_data()
            target.write(data)
            await target.drain()
    with contextlib.suppress(OSError):
        if target.can_write_eof():
            target.write_eof()

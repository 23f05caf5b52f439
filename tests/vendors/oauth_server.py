"""A fake authorization server whose refresh tokens are good for one use, with a server behind it that wants its tokens.

A refresh token that is used twice ends the whole sign-in, as RFC 9700 wants it. The person always agrees: `/authorize`
redirects at once. What is asked for at `/mcp` goes on to `upstream`.
"""

import asyncio
import base64
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlencode, urlsplit

from msgspec import Struct

_RESOURCE = "/.well-known/oauth-protected-resource/mcp"
_LIFE = 3_600


class _Grant(Struct):
    """A sign-in: what was asked for, and the tokens that are valid now. A refresh token that was used is remembered."""

    client_id: str
    resource: str
    scope: str
    challenge: str = ""
    redirect_uri: str = ""
    access: str = ""
    refresh: str = ""
    used: tuple[str, ...] = ()


class _Request(Struct):
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(self.body.decode()).items()}


class FakeOAuthServer:
    """The server. Its counts say what clients have done; its flags make it misbehave."""

    def __init__(self, upstream: str = "", scope: str = "notes") -> None:
        self.url = ""
        self.refreshes = self.reuses = self.registrations = self.sign_ins = 0
        self.refresh_delay = 0.0
        """Seconds between the use of a refresh token and the answer."""
        self.loses_answers = False
        """Whether a refresh is carried out and its answer lost."""
        self.denies = False
        """Whether the person says no."""
        self.refresh_began = asyncio.Event()
        self.heads: list[str] = []
        self.tokens: list[str] = []
        """The tokens that were sent to the server behind this one."""
        self._upstream = upstream
        self._scope = scope
        self._codes: dict[str, _Grant] = {}
        self._grants: list[_Grant] = []
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def expire_access_tokens(self) -> None:
        """Make every access token invalid, as if its time had come."""
        for grant in self._grants:
            grant.access = ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            request = await _read_request(reader)
            self.heads.append(f"{request.method} {request.path}")
            if request.path == "/mcp":
                await self._serve_resource(request, reader, writer)
            else:
                await self._answer_client(request, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer_client(self, request: _Request, writer: asyncio.StreamWriter) -> None:
        match request.method, request.path:
            case "GET", "/.well-known/oauth-authorization-server":
                _write_json(writer, 200, self._metadata())
            case "GET", "/.well-known/oauth-protected-resource/mcp":
                _write_json(writer, 200, {"resource": f"{self.url}/mcp", "authorization_servers": [self.url]})
            case "POST", "/register":
                self.registrations += 1
                given = json.loads(request.body)
                _write_json(writer, 201, {**given, "client_id": secrets.token_hex(8)})
            case "GET", "/authorize":
                _write(writer, 302, {"location": self._authorize(request.query)}, b"")
            case "POST", "/token":
                status, answer = await self._give_tokens(request.form)
                if status == 200 and self.loses_answers and request.form["grant_type"] == "refresh_token":
                    writer.transport.abort()
                else:
                    _write_json(writer, status, answer)
            case _:
                _write(writer, 404, {}, b"")

    def _metadata(self) -> Mapping[str, object]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
            "scopes_supported": [self._scope, "offline_access"],
        }

    def _authorize(self, query: Mapping[str, str]) -> str:
        fields = {"state": query["state"], "iss": self.url}
        if self.denies:
            return f"{query['redirect_uri']}?{urlencode({**fields, 'error': 'access_denied'})}"
        code = secrets.token_urlsafe(16)
        self._codes[code] = _Grant(
            client_id=query["client_id"],
            resource=query.get("resource", ""),
            scope=query.get("scope", ""),
            challenge=query["code_challenge"],
            redirect_uri=query["redirect_uri"],
        )
        return f"{query['redirect_uri']}?{urlencode({**fields, 'code': code})}"

    async def _give_tokens(self, form: Mapping[str, str]) -> tuple[int, Mapping[str, object]]:
        grant = self._find_grant(form)
        if grant is None or grant.client_id != form.get("client_id") or grant.resource != form.get("resource", ""):
            return 400, {"error": "invalid_grant", "error_description": "the token is not valid"}
        grant.access, grant.refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        answer = {"access_token": grant.access, "refresh_token": grant.refresh, "token_type": "Bearer"}
        await asyncio.sleep(self.refresh_delay)
        return 200, {**answer, "expires_in": _LIFE, "scope": grant.scope}

    def _find_grant(self, form: Mapping[str, str]) -> _Grant | None:
        """Return the grant of a code or of a refresh token, which is used up; a token's second use ends its grant."""
        if form["grant_type"] == "authorization_code":
            grant = self._codes.pop(form["code"], None)
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            if grant is None or grant.challenge != proof or grant.redirect_uri != form["redirect_uri"]:
                return None
            self.sign_ins += 1
            self._grants.append(grant)
            return grant
        token = form["refresh_token"]
        for grant in list(self._grants):
            if token in grant.used:
                self.reuses += 1
                self._grants.remove(grant)
            elif token == grant.refresh:
                self.refreshes += 1
                self.refresh_began.set()
                grant.used = (*grant.used, token)
                return grant
        return None

    async def _serve_resource(
        self, request: _Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        self.tokens.append(token)
        if scheme != "Bearer" or not any(token == grant.access for grant in self._grants if grant.access):
            wanted = f'Bearer error="invalid_token", scope="{self._scope}", resource_metadata="{self.url}{_RESOURCE}"'
            _write(writer, 401, {"www-authenticate": wanted}, b"")
            return
        relaying = asyncio.ensure_future(self._pass_on(request, writer))
        leaving = asyncio.ensure_future(reader.read())  # the client has gone when this ends
        await asyncio.wait({relaying, leaving}, return_when=asyncio.FIRST_COMPLETED)
        for task in (relaying, leaving):
            task.cancel()

    async def _pass_on(self, request: _Request, writer: asyncio.StreamWriter) -> None:
        """Send the request upstream and what comes back to the client, as it comes; one request a connection."""
        where = urlsplit(self._upstream)
        reader, upstream = await asyncio.open_connection(where.hostname, where.port)
        try:
            kept = {name: value for name, value in request.headers.items() if name not in ("authorization", "host")}
            kept |= {"host": where.netloc, "connection": "close"}
            head = [f"{request.method} {where.path} HTTP/1.1", *(f"{name}: {value}" for name, value in kept.items())]
            upstream.write("\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + request.body)
            answer = await reader.readuntil(b"\r\n\r\n")
            fields = [line for line in answer.split(b"\r\n")[:-2] if not line.lower().startswith(b"connection:")]
            data = b"\r\n".join([*fields, b"connection: close", b"", b""])
            while data:
                writer.write(data)
                await writer.drain()
                data = await reader.read(65_536)
        finally:
            upstream.close()


@asynccontextmanager
async def fake_oauth_server(upstream: str = "") -> AsyncIterator[FakeOAuthServer]:
    """Run a fake for the time of a test."""
    server = FakeOAuthServer(upstream)
    await server.start()
    try:
        yield server
    finally:
        await server.close()


async def _read_request(reader: asyncio.StreamReader) -> _Request:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = lines[0].split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    body = await reader.readexactly(int(headers.get("content-length") or 0))
    parts = urlsplit(target)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    headers.pop("", None)
    return _Request(method, parts.path, query, headers, body)


def _write_json(writer: asyncio.StreamWriter, status: int, value: object) -> None:
    _write(writer, status, {"content-type": "application/json"}, json.dumps(value).encode())


def _write(writer: asyncio.StreamWriter, status: int, headers: Mapping[str, str], body: bytes) -> None:
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", "connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

"""The tokens of a server over HTTP: what the person has signed in for, refreshed in time, and asked for where somebody
is there to sign in.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec import Struct, structs

from hermes.core.errors import HermesError, ToolError
from hermes.i18n.messages import N_
from hermes.oauth.client_registration import ClientSettings
from hermes.oauth.metadata import Challenge, is_resource_of, parse_challenge
from hermes.oauth.requests import SendRequest
from hermes.oauth.sign_in import SignIn
from hermes.oauth.sign_in_flow import SignInPerson, SignInRequest, run_sign_in
from hermes.oauth.token_keeper import TokenKeeper
from hermes.oauth.token_store import TokenStore

ResultT = TypeVar("ResultT")
_MAX_SIGN_INS = 2
"""Sign-ins that one connection may ask the person for: the first, and one with further permissions."""


def name_sign_in(server: str) -> str:
    """Return the name that a server's sign-in has in the store."""
    return f"mcp:{server}"


class McpSignInSettings(ClientSettings, frozen=True, kw_only=True):
    """The client settings of a server, and the port of the redirect address (0: any)."""

    redirect_port: int = 0


class McpAuthorizationDeps(Struct, frozen=True, kw_only=True):
    """What tokens are found with. `person` signs in at once where a server asks for it; None: nobody does."""

    store: TokenStore
    send: SendRequest
    person: SignInPerson | None = None
    signs_in_again: bool = False
    """Whether a sign-in that is stored is not used: the person signs in once more."""
    now: Callable[[], float] = time.time


class McpAuthorization:
    """The tokens of one server, as `McpTokens` has them. They go to the server's own address and nowhere else."""

    def __init__(self, server: str, url: str, settings: McpSignInSettings, deps: McpAuthorizationDeps) -> None:
        self._server = server
        self._url = url
        self._settings = settings
        self._deps = deps
        self._keeper = TokenKeeper(deps.store, name_sign_in(server), deps.send, deps.now)
        self._lock = asyncio.Lock()
        self._sign_ins = 0

    async def find_token(self) -> str:
        """Return the token to send; empty where nobody has signed in. Raises `ToolError`."""
        if self._deps.signs_in_again and not self._sign_ins:
            return ""
        sign_in = await self._read_own_sign_in()
        return await self._call(self._keeper.find_token()) if sign_in is not None else ""

    async def answer_challenge(self, status: int, field: str, token: str, *, is_repeated: bool) -> None:
        """Refresh the token once, then have the person sign in, if somebody is there; return if that has helped.

        `is_repeated`: the request was refused before, so that refreshing is no help. Raises `ToolError`.
        """
        challenge = parse_challenge(status, field)
        if status == 403 and not challenge.wants_more_scope:
            raise ToolError(N_("it answered with status {status}", status=status))
        async with self._lock:
            if status == 401 and not is_repeated and await self._has_newer_token(token):
                return
            await self._sign_in(challenge)

    async def close(self) -> None:
        """Wait for a refresh that is under way: what it brings has to be stored."""
        await self._keeper.close()

    async def _has_newer_token(self, token: str) -> bool:
        """Return whether there is another token than the refused one: of another process, or by a refresh."""
        sign_in = await self._read_own_sign_in()
        if sign_in is None or not sign_in.access_token or (self._deps.signs_in_again and not self._sign_ins):
            return False
        if sign_in.access_token != token:
            return True
        return await self._call(self._keeper.refresh(token)) not in ("", token)

    async def _sign_in(self, challenge: Challenge) -> None:
        deps, stored = self._deps, await self._read_own_sign_in()
        if deps.person is None or self._sign_ins >= _MAX_SIGN_INS:
            raise ToolError(await self._describe_need(challenge, stored))
        keeps_scope = stored is not None and (challenge.wants_more_scope or not self._settings.scope)
        request = SignInRequest(
            **structs.asdict(self._settings),
            server_url=self._url,
            granted_scope=stored.scope if stored is not None and keeps_scope else "",
        )
        done = await self._call(run_sign_in(request, challenge, deps.person, deps.send, deps.now))
        await self._call(self._keeper.store_sign_in(done))
        self._sign_ins += 1

    async def _describe_need(self, challenge: Challenge, sign_in: SignIn | None) -> str:
        """Return what the person has to do, and note the permissions that are missing for then."""
        if challenge.wants_more_scope and sign_in is not None:
            missing = " ".join(dict.fromkeys((*sign_in.scope.split(), *challenge.scope.split())))
            if missing != sign_in.scope and self._deps.person is None:
                await self._call(self._keeper.store_sign_in(structs.replace(sign_in, scope=missing)))
            return N_("it wants further permissions: `hermes mcp login {name}` asks for them", name=self._server)
        if sign_in is not None and sign_in.ended_because:
            return N_("{why}: `hermes mcp login {name}`", why=sign_in.ended_because, name=self._server)
        return N_("it wants you to sign in: `hermes mcp login {name}`", name=self._server)

    async def _read_own_sign_in(self) -> SignIn | None:
        """Return the stored sign-in if it was made for the address that is configured now."""
        sign_in = await self._call(self._keeper.read_sign_in())
        if sign_in is None or not (is_resource_of(sign_in.resource, self._url) or sign_in.resource == self._url):
            return None
        return sign_in

    async def _call(self, work: Awaitable[ResultT]) -> ResultT:
        try:
            return await work
        except ToolError:
            raise
        except HermesError as error:
            raise ToolError(str(error).rstrip(".")) from None

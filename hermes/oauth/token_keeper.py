"""Valid tokens of one stored sign-in: refreshed in time, once for all processes."""

import asyncio
from collections.abc import Callable

from hermes.core.errors import HermesError
from hermes.i18n.messages import N_
from hermes.oauth.code_flow import refresh_tokens
from hermes.oauth.requests import OAuthError, SendRequest
from hermes.oauth.sign_in import SignIn
from hermes.oauth.token_store import TokenStore
from hermes.util.cancellation import cancel_tasks

_EARLY_SECONDS = 60.0
"""Seconds before its end at which a token is refreshed."""
_LOCK_SECONDS = 45.0
"""Seconds to wait for another process that refreshes: longer than its request may take."""
_CLOSE_SECONDS = 10.0
_FINAL_CODES = frozenset(
    {
        "invalid_grant",
        "invalid_client",
        "unauthorized_client",
        "unsupported_grant_type",
        "invalid_scope",
        "refresh_token_expired",
        "refresh_token_reused",
        "refresh_token_invalidated",
    }
)
"""Answers after which the refresh token is of no use any more."""


class TokenKeeper:
    """The tokens of one sign-in, by the name that the store has for it."""

    def __init__(
        self,
        store: TokenStore,
        name: str,
        send: SendRequest,
        now: Callable[[], float],
        *,
        early_seconds: float = _EARLY_SECONDS,
    ) -> None:
        self._store = store
        self._name = name
        self._send = send
        self._now = now
        self._early_seconds = early_seconds
        self._refreshing: asyncio.Task[str] | None = None
        self.address = ""
        """Where the last token that was seen is to be sent; empty: to the provider's address."""

    async def read_sign_in(self) -> SignIn | None:
        """Return the sign-in as it is stored, or None. Raises ConfigError."""
        found = await asyncio.to_thread(self._store.read, self._name)
        self.address = found.address if found is not None else ""
        return found

    async def find_token(self) -> str:
        """Return an access token that is valid as far as is known; empty where nobody is signed in.

        One that ends soon is refreshed. If that fails and it is not at its end, it is used. Raises HermesError.
        """
        sign_in = await self.read_sign_in()
        if sign_in is None or not sign_in.access_token or not self._ends_soon(sign_in) or not sign_in.refresh_token:
            return sign_in.access_token if sign_in is not None else ""
        try:
            return await self.refresh(sign_in.access_token)
        except HermesError:
            if self._now() < sign_in.expires_at:
                return sign_in.access_token
            raise

    async def refresh(self, refused: str) -> str:
        """Return a token that is newer than `refused`; empty where there is none to be had, so that somebody has to
        sign in.

        Who gets the lock first asks the server, all others use what it has stored. Raises HermesError when the server
        cannot be reached: then the sign-in stays as it is. Cancelling ends the wait, not the refresh: the server's
        answer ends the old refresh token, so it has to be stored.
        """
        running = self._refreshing
        if running is not None and not running.done():
            token = await asyncio.shield(running)
            if token != refused:
                return token
        self._refreshing = asyncio.create_task(self._refresh_under_lock(refused))
        self._refreshing.add_done_callback(_forget_result)
        return await asyncio.shield(self._refreshing)

    async def close(self) -> None:
        """Wait for a refresh that is under way, for `_CLOSE_SECONDS` at most."""
        if self._refreshing is not None and not self._refreshing.done():
            await asyncio.wait({self._refreshing}, timeout=_CLOSE_SECONDS)
            await cancel_tasks([self._refreshing])

    async def store_sign_in(self, sign_in: SignIn) -> None:
        """Store a new sign-in. Raises ConfigError, BusyError, StoreError."""
        async with self._store.hold_refresh_lock(self._name, _LOCK_SECONDS):
            await asyncio.to_thread(self._store.write, self._name, sign_in, is_new=True)

    async def _refresh_under_lock(self, refused: str) -> str:
        async with self._store.hold_refresh_lock(self._name, _LOCK_SECONDS):
            sign_in = await self.read_sign_in()
            if sign_in is None:
                return ""
            if sign_in.access_token and sign_in.access_token != refused:
                return sign_in.access_token
            return await self._request_and_store(sign_in) if sign_in.refresh_token else ""

    async def _request_and_store(self, sign_in: SignIn) -> str:
        # The answer ends the old refresh token: where it could not be stored, as on a full disk, nothing is asked.
        await asyncio.to_thread(self._store.rewrite_file)
        try:
            fresh = await refresh_tokens(sign_in, self._send, self._now())
        except OAuthError as error:
            if not _is_final(error, sign_in):
                raise
            reason = N_("the sign-in has ended ({reason})", reason=error.message.rstrip("."))
            await asyncio.to_thread(self._store.write, self._name, sign_in.end(reason))
            return ""
        await asyncio.to_thread(self._store.write, self._name, fresh)
        self.address = fresh.address
        return fresh.access_token

    def _ends_soon(self, sign_in: SignIn) -> bool:
        return bool(sign_in.expires_at) and self._now() >= sign_in.expires_at - self._early_seconds


def _is_final(error: OAuthError, sign_in: SignIn) -> bool:
    """Return whether nothing but another sign-in helps. An exchange has no codes for that: 401 says it."""
    return error.code in _FINAL_CODES or (sign_in.exchange is not None and error.status == 401)


def _forget_result(task: "asyncio.Task[str]") -> None:
    if not task.cancelled():
        task.exception()  # whoever waits for it has it

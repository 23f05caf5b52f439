"""An account that is signed in to, as an entry of the pool of keys: its token is refreshed in time, and once more when
it is refused.
"""

from msgspec import structs

from hermes.core.errors import HermesError, TransportError
from hermes.core.outcomes import FailureKind
from hermes.core.stream import Failure
from hermes.i18n.messages import N_
from hermes.llm.classify import build_failure
from hermes.llm.key_pool import KeySlot
from hermes.llm.key_sources import SIGN_IN_SOURCE, LiteralKeySource
from hermes.oauth.requests import OAuthError
from hermes.oauth.token_keeper import TokenKeeper
from hermes.util.clock import Clock


class SignInSlot(KeySlot):
    """A slot whose key is the access token of an account. All processes share one refresh."""

    def __init__(self, name: str, keeper: TokenKeeper, *, label: str, organisation: str, vendor: str) -> None:
        super().__init__(name, LiteralKeySource("", SIGN_IN_SOURCE), label=label, organisation=organisation)
        self.advice = N_("Sign in again: hermes auth login {name}", name=vendor)
        self._keeper = keeper
        self._renewed = ""
        """The token that came in the place of a refused one: when it is refused too, no further one would help."""

    async def read_key(self, clock: Clock, *, reread: bool = False) -> bool:
        """Read the token from the store each time, since another process may have refreshed it; refresh it if it ends
        soon. Return whether there is one.
        """
        del reread
        try:
            await self._take_token(await self._keeper.find_token(), clock)
        except HermesError as error:
            self.key = ""
            self._record_failure(str(error), clock)
            self.unreached = self._describe_absence(error)
        return bool(self.key)

    async def renew_key(self, clock: Clock, refused: str) -> bool:
        """Refresh the token, unless the refused one has come by that; return whether there is a newer one.

        A server that cannot be reached leaves everything as it is.
        """
        if refused == self._renewed:
            return False
        try:
            token = await self._keeper.refresh(refused)
        except HermesError as error:
            self.unreached = self._describe_absence(error)
            return False
        self._renewed = token
        await self._take_token(token, clock)
        return token not in ("", refused)

    def is_spent(self, refused: str) -> bool:
        """Return whether this token was refused although it had just been refreshed, or none is to be had."""
        return not self.key or refused == self._renewed

    async def close(self) -> None:
        """Wait for a refresh that is under way: what it brings has to be stored."""
        await self._keeper.close()

    def _describe_absence(self, error: HermesError) -> Failure | None:
        """Return the failure of a server that gives no token now and may give one later; None for any other error."""
        lasting = False
        if isinstance(error, TransportError):
            kind, lasting = error.kind, error.lasting
        elif isinstance(error, OAuthError) and (error.status >= 500 or error.status == 429):
            kind = FailureKind.SERVER_ERROR
        else:
            return None
        why = N_("{label}: the token cannot be refreshed: {reason}", label=self.label, reason=error.message)
        return structs.replace(build_failure(kind, why, hint=error.hint), retryable=not lasting)

    async def _take_token(self, token: str, clock: Clock) -> None:
        self.key, self.unreached = token, None
        if token:
            self.reason, self.address = "", self._keeper.address
            return
        sign_in = await self._keeper.read_sign_in()
        why = sign_in.ended_because if sign_in is not None else ""
        self._record_failure(f"{why or N_('nobody is signed in')}. {self.advice}", clock)

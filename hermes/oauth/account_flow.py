"""Sign in to a vendor whose endpoints are known: in the browser, with the pasted address as the way over ssh."""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

from hermes.core.errors import HermesError
from hermes.core.secret import KeyHolder
from hermes.i18n.messages import N_
from hermes.oauth.client_registration import OAuthClient
from hermes.oauth.code_flow import CodeRequest, exchange_code, read_code
from hermes.oauth.loopback import LoopbackReceiver
from hermes.oauth.metadata import AuthorizationServer
from hermes.oauth.pkce import create_state, create_verifier
from hermes.oauth.requests import SendRequest
from hermes.oauth.sign_in import SignIn, TokenDialect
from hermes.oauth.sign_in_flow import SignInPerson, wait_for_answer


class AccountRequest(KeyHolder, frozen=True, kw_only=True):
    """What is signed in to: a vendor's endpoints, and the redirect address that its client is known by."""

    server: AuthorizationServer
    client: OAuthClient
    scope: str = ""
    redirect_host: str = "127.0.0.1"
    redirect_path: str = "/callback"
    redirect_ports: tuple[int, ...] = (0,)
    """Ports to listen on, the first that is free; 0: any."""
    fields: Mapping[str, str] = {}
    account_claim: tuple[str, ...] = ()
    dialect: TokenDialect = TokenDialect()


async def run_account_flow(
    request: AccountRequest, person: SignInPerson, send: SendRequest, now: Callable[[], float]
) -> SignIn:
    """Sign the person in and return the tokens. Raises HermesError. Cancelling closes the port."""
    async with AsyncExitStack() as stack:
        receiver = await _open_receiver(request, stack)
        attempt = CodeRequest(
            server=request.server,
            client=request.client,
            redirect_uri=receiver.redirect_uri,
            scope=request.scope,
            resource="",
            state=create_state(),
            verifier=create_verifier(),
            fields=request.fields,
            account_claim=request.account_claim,
            dialect=request.dialect,
        )
        code = read_code(attempt, await wait_for_answer(receiver, person, attempt))
    return await exchange_code(attempt, code, send, now())


async def _open_receiver(request: AccountRequest, stack: AsyncExitStack) -> LoopbackReceiver:
    problem: HermesError | None = None
    for port in request.redirect_ports:
        try:
            return await stack.enter_async_context(
                LoopbackReceiver(port, path=request.redirect_path, host=request.redirect_host)
            )
        except HermesError as error:
            problem = error
    assert problem is not None
    raise HermesError(problem.message, N_("Another program signs in there: end it, or sign in with --device."))

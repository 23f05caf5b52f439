"""Sign a person in at the authorization server of a resource: discovery, client, browser or pasted address, tokens."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from hermes.i18n.messages import N_
from hermes.oauth.client_registration import ClientSettings, choose_client
from hermes.oauth.code_flow import CodeRequest, begin_code_flow, exchange_code, read_code
from hermes.oauth.loopback import SIGN_IN_SECONDS, LoopbackReceiver
from hermes.oauth.metadata import (
    AuthorizationServer,
    Challenge,
    ProtectedResource,
    default_authorization_server,
    discover_authorization_server,
    discover_resource,
    origin_of,
)
from hermes.oauth.requests import OAuthError, SendRequest, is_loopback_url
from hermes.oauth.sign_in import SignIn
from hermes.util.cancellation import cancel_tasks


class SignInPerson(Protocol):
    """The person who signs in."""

    async def show_address(self, url: str) -> None:
        """Show the address to open, and open it where that can be done."""
        ...

    async def read_pasted_address(self) -> str:
        """Return the address that the person has pasted: the one that their browser was sent back to. Waits for it."""
        ...

    async def ask_client_id(self, issuer: str) -> str:
        """Return the id of a client that the person has registered with this server; empty where there is none."""
        ...


class SignInRequest(ClientSettings, frozen=True, kw_only=True):
    """What is signed in to."""

    server_url: str
    redirect_port: int = 0
    """The port of the redirect address; 0: any that is free."""
    granted_scope: str = ""
    """The permissions that an earlier sign-in asked for: they are asked for again."""


async def run_sign_in(
    request: SignInRequest,
    challenge: Challenge,
    person: SignInPerson,
    send: SendRequest,
    now: Callable[[], float],
) -> SignIn:
    """Sign the person in and return the tokens. Raises OAuthError and other HermesErrors.

    The person has `SIGN_IN_SECONDS`. Cancelling closes the port.
    """
    resource, server = await find_authorization_server(request.server_url, challenge, send)
    scope = choose_scope(request, challenge, resource, server)
    async with LoopbackReceiver(request.redirect_port) as receiver:
        client = await choose_client(
            request, server, receiver.redirect_uri, send=send, ask_client_id=person.ask_client_id
        )
        attempt = begin_code_flow(
            server,
            client,
            redirect_uri=receiver.redirect_uri,
            scope=scope,
            # A server of 2025-03-26 publishes no metadata; the parameter is sent to it all the same.
            resource=resource.resource if resource is not None else request.server_url,
        )
        answered = await wait_for_answer(receiver, person, attempt)
        code = read_code(attempt, answered)
    return await exchange_code(attempt, code, send, now())


async def find_authorization_server(
    server_url: str, challenge: Challenge, send: SendRequest
) -> tuple[ProtectedResource | None, AuthorizationServer]:
    """Return the metadata of a server and of the authorization server that it names first. Raises OAuthError.

    A server without metadata is one of the revision 2025-03-26, whose authorization server is its own origin.
    """
    local = is_loopback_url(server_url)
    resource = await discover_resource(send, server_url, challenge)
    if resource is None:
        origin = origin_of(server_url)
        guessed = await discover_authorization_server(send, origin, allows_loopback=local, is_guessed=True)
        return None, guessed or default_authorization_server(server_url)
    if not resource.authorization_servers:
        raise OAuthError(N_("{url} names no authorization server.", url=server_url))
    issuer = resource.authorization_servers[0]
    server = await discover_authorization_server(send, issuer, allows_loopback=local)
    if server is None:
        raise OAuthError(N_("The authorization server {issuer} publishes no metadata.", issuer=issuer))
    return resource, server


def choose_scope(
    request: SignInRequest, challenge: Challenge, resource: ProtectedResource | None, server: AuthorizationServer
) -> str:
    """Return the permissions to ask for, separated by blanks: those of the challenge, else of the metadata; with those
    of an earlier sign-in, and with that for a refresh token where the server knows it.
    """
    supported: Sequence[str] = (resource.scopes_supported or ()) if resource is not None else ()
    wanted = (request.scope or challenge.scope).split() or supported
    found = dict.fromkeys((*request.granted_scope.split(), *wanted))
    if found and "offline_access" in server.scopes_supported:
        found["offline_access"] = None
    return " ".join(found)


async def wait_for_answer(receiver: LoopbackReceiver, person: SignInPerson, attempt: CodeRequest) -> str:
    """Show the address and return the one with the answer, whichever way it comes first."""
    receiver.expect_state(attempt.state)
    await person.show_address(attempt.url)
    ways: list[Awaitable[str]] = [receiver.wait_for_answer(), person.read_pasted_address()]
    tasks = [asyncio.ensure_future(one) for one in ways]
    try:
        async with asyncio.timeout(SIGN_IN_SECONDS):
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    except TimeoutError:
        raise OAuthError(
            N_("Nobody has signed in within {n} minutes.", n=round(SIGN_IN_SECONDS / 60)), N_("Sign in again.")
        ) from None
    finally:
        await cancel_tasks([task for task in tasks if not task.done()])
    return next(task for task in tasks if task in done).result()

"""The client for programs: it begins runs in a `hermes serve`, follows their events and manages sessions.

`HermesClient` is imported on first use, so that the server imports only the objects that both sides share.
"""

TYPE_CHECKING = False  # as in `typing`, whose import costs time
if TYPE_CHECKING:
    from hermes.client.client import HermesClient

__all__ = ["HermesClient"]


def __getattr__(name: str) -> object:
    if name == "HermesClient":
        from hermes.client.client import HermesClient

        return HermesClient
    raise AttributeError(f"module 'hermes.client' has no attribute {name!r}")

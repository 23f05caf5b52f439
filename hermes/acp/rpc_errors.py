"""The Agent Client Protocol's own of JSON-RPC: its codes, and Hermes' errors as an editor is told them."""

from hermes.core.errors import ConfigError, HermesError, NotFoundError, UsageError
from hermes.core.json_rpc import INTERNAL_ERROR, INVALID_PARAMS, RpcError
from hermes.i18n.messages import join_sentences, localize
from hermes.ipc.rpc_peer import RpcDialect

AUTH_REQUIRED, NOT_FOUND = -32000, -32002


def describe_error(error: HermesError) -> RpcError:
    """Return an error of ours as the editor shows it."""
    match error:
        case ConfigError():
            code = AUTH_REQUIRED
        case UsageError():
            code = INVALID_PARAMS
        case NotFoundError():
            code = NOT_FOUND
        case _:
            code = INTERNAL_ERROR
    return RpcError(code, join_sentences(localize(error.message), localize(error.hint)))


ACP_DIALECT = RpcDialect(describe_error=describe_error)

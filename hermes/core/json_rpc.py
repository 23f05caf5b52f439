"""Errors of JSON-RPC 2.0 as one side tells them to the other."""

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
INTERNAL_ERROR = -32603
RequestId = int | str


class RpcError(Exception):
    """An error as the other side is told it, or has told it."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

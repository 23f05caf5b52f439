"""The files of an editor, as it offers them over the protocol."""

import msgspec

from hermes.acp.protocol import ClientCapabilities, FileText
from hermes.core.json_rpc import RpcError
from hermes.ipc.rpc_peer import RpcPeer

_SECONDS = 3.0
"""How long an editor may take for a file; then the one on disk counts."""


class OfferedFiles:
    """Reads and writes the texts of one session's editor, where it offers that."""

    def __init__(self, peer: RpcPeer, capabilities: ClientCapabilities) -> None:
        self._peer = peer
        self.can_read = capabilities.fs.read_text_file
        self.can_write = capabilities.fs.write_text_file
        self.session_id = ""
        """The session that reads and writes, once it is known."""

    async def read_text(self, path: str) -> str | None:
        """Return the text of a file as it stands in the editor; None where the editor does not say."""
        params = {"sessionId": self.session_id, "path": path}
        try:
            raw = await self._peer.request("fs/read_text_file", params, _SECONDS)
            return msgspec.json.decode(raw, type=FileText).content
        except (RpcError, TimeoutError, msgspec.MsgspecError):
            return None

    async def write_text(self, path: str, text: str) -> bool:
        """Put a text into a file and save it; return whether the editor did."""
        params = {"sessionId": self.session_id, "path": path, "content": text}
        try:
            await self._peer.request("fs/write_text_file", params, _SECONDS)
        except (RpcError, TimeoutError):
            return False
        return True

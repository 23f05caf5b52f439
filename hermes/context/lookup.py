"""Says where condensed messages can be read again."""

from msgspec import Struct

SEARCH_TOOL = "session_search"
"""The tool that finds and reads earlier messages, condensed or not."""


class OriginalsLookup(Struct, frozen=True):
    """How the originals of one session are reached: by the model itself, where it has the tool, else by the user."""

    session_id: str
    searchable: bool = False

    def describe_message(self, number: int) -> str:
        """Say where the message of that number is."""
        if self.searchable:
            return f"{SEARCH_TOOL} with session_id {self.session_id} and around_message_id {number} shows it"
        return f"message {number} in what `hermes sessions show {self.session_id}` prints"

    def describe_all(self) -> str:
        """Say where every message is."""
        if self.searchable:
            return (
                f"`{SEARCH_TOOL}` with session_id {self.session_id} finds any message by words, and shows it by "
                f"its number "
                "as around_message_id"
            )
        return f"`hermes sessions show {self.session_id}` has them all; the user can look there"

"""Where what was condensed can be seen again, as a record and what stands for a cleared result say it."""

from msgspec import Struct

SEARCH = "session_search"
"""The tool that finds and reads what was said, condensed or not."""


class Lookup(Struct, frozen=True):
    """How the originals of one session are reached: by the model itself, where it has the tool, else by the person."""

    session_id: str
    searchable: bool = False

    def one(self, number: int) -> str:
        """Where the message of that number is."""
        if self.searchable:
            return f"{SEARCH} with session_id {self.session_id} and around_message_id {number} shows it"
        return f"message {number} in what `hermes sessions show {self.session_id}` prints"

    def all(self) -> str:
        """Where every message is."""
        if self.searchable:
            return (
                f"`{SEARCH}` with session_id {self.session_id} finds any message by words, and shows it by its number "
                "as around_message_id"
            )
        return f"`hermes sessions show {self.session_id}` has them all; the user can look there"

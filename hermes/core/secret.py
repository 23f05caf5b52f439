"""Values that hold a key and never show it."""

from msgspec import Struct

_MASK = "[key]"
_KEY_FIELDS = frozenset(
    {
        "key",
        "api_key",
        "more_keys",
        "credential_pool",
        "env",
        "environ",
        "headers",
        "extra_headers",
        "client_secret",
        "access_token",
        "refresh_token",
        "id_token",
        "device_code",
        "authorization_code",
        "code_verifier",
        "state",
        "verifier",
    }
)


class KeyHolder(Struct, frozen=True):
    """A base for structs with fields that hold keys (`_KEY_FIELDS`): they are in no `repr`."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({shown})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        pairs = [(name, getattr(self, name)) for name in self.__struct_fields__]
        return [(name, _MASK if name in _KEY_FIELDS and value else value) for name, value in pairs]

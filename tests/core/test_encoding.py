"""Values with messages in them are encoded as plain English, and the wordings travel beside it."""

import msgspec
import pytest
from msgspec import Struct

from hermes.core.encoding import restore_messages, to_json, to_json_with_wordings, to_plain
from hermes.util.localizable import Localizable, fill_template


class Inner(Struct, frozen=True):
    why: str
    count: int = 0


class Outer(Struct, frozen=True):
    inner: Inner
    text: str = ""


GONE = fill_template("{path} is gone", {"path": "a"})


def test_a_message_is_encoded_as_its_english() -> None:
    assert to_json(Outer(Inner(GONE), "x")) == b'{"inner":{"why":"a is gone","count":0},"text":"x"}'
    assert type(to_plain(Inner(GONE))["why"]) is str
    with pytest.raises(TypeError, match="type object"):
        to_json([object()])


def test_what_was_sent_is_translatable_again() -> None:
    line, wordings = to_json_with_wordings(Outer(Inner(GONE), "x"))
    plain = msgspec.json.decode(line, type=Outer)
    back = restore_messages(plain, msgspec.json.decode(msgspec.json.encode(wordings)))
    assert back == Outer(Inner("a is gone"), "x")
    assert isinstance(back.inner.why, Localizable) and back.inner.why.template == "{path} is gone"
    assert restore_messages(plain, {}) is plain


def test_a_wording_of_another_text_is_left_out() -> None:
    plain = Inner("a is gone")
    back = restore_messages(plain, {"a is gone": ["all is well", "{path} is gone", {"path": "a"}]})
    assert back is plain

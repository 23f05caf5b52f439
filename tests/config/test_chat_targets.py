"""Targets mean the same everywhere; what does not exist is refused where it is given."""

import pytest

from hermes.config.chat_targets import (
    PLATFORMS_WITHOUT_CHATS,
    ChatTarget,
    ReachablePerson,
    TargetBook,
    list_account_homes,
)
from hermes.core.errors import HermesError, NotFoundError, UsageError

ANNA = ReachablePerson("telegram:6660", "Anna", ChatTarget("telegram", "6660"))
BOB = ReachablePerson("discord:77", "Bob", ChatTarget("discord", "900100"))
BOOK = TargetBook(
    homes={"telegram": "-100:7", "discord": "", "matrix": ""},
    people=(ReachablePerson("owner", "", None), ANNA, BOB, ReachablePerson("matrix:c", "Cleo", None)),
    chats=frozenset({"telegram:6660", "discord:900100"}),
)


@pytest.mark.parametrize(
    ("text", "stored", "chats"),
    [
        ("home", "home", "telegram:-100:7"),
        ("ALL", "all", "telegram:-100:7"),
        ("telegram", "telegram", "telegram:-100:7"),
        ("telegram:5", "telegram:5", "telegram:5"),
        ("matrix:!room:example.org", "matrix:!room:example.org", "matrix:!room:example.org"),
        ("Anna", "@telegram:6660", "telegram:6660"),
        ("@anna", "@telegram:6660", "telegram:6660"),
        ("telegram:6660", "telegram:6660", "telegram:6660"),
        ("discord:77", "@discord:77", "discord:900100"),  # a person's id that is no chat
        ("discord:900100", "discord:900100", "discord:900100"),
    ],
)
def test_every_form_of_a_target(text: str, stored: str, chats: str) -> None:
    assert BOOK.check_target(text) == stored
    assert BOOK.check_target(stored) == stored, "what is stored can be given again"
    assert ", ".join(one.text for one in BOOK.find_chats(text)) == chats


@pytest.mark.parametrize(
    ("text", "why", "kind"),
    [
        ("origin", "not made in one", UsageError),
        ("matrix", "has no home chat", NotFoundError),
        ("telegramm:5", "Did you mean 'telegram'", NotFoundError),
        ("Ana", "Did you mean 'Anna'", NotFoundError),
        ("Cleo", "has not written from a direct chat", NotFoundError),
        ("owner", "has not written from a direct chat", NotFoundError),
        ("nobody at all", "not an account, chat or person", NotFoundError),
        ("", "not an account, chat or person", NotFoundError),
    ],
)
def test_what_does_not_exist_is_refused(text: str, why: str, kind: type[HermesError]) -> None:
    with pytest.raises(kind, match=why):
        BOOK.check_target(text)


def test_words_that_are_not_offered_are_no_targets() -> None:
    assert BOOK.check_target("Local") == "local"
    assert BOOK.check_target("log", words=("log",)) == "log"
    with pytest.raises(NotFoundError):
        BOOK.find_chats("local")


def test_two_people_of_one_name_are_named_by_id() -> None:
    two = TargetBook(homes={"telegram": ""}, people=(ANNA, ReachablePerson("telegram:7", "Anna", ANNA.chat)))
    with pytest.raises(UsageError, match="could be telegram:6660, telegram:7"):
        two.check_target("Anna")
    assert two.check_target("@telegram:7") == "@telegram:7"


def test_home_with_none_and_with_several() -> None:
    with pytest.raises(NotFoundError, match="no home chat"):
        TargetBook(homes={"telegram": ""}).check_target("home")
    several = TargetBook(homes={"telegram": "1", "discord": "2"})
    with pytest.raises(UsageError, match="telegram, discord"):
        several.check_target("home")
    assert len(several.find_chats("all")) == 2


def test_a_target_in_words() -> None:
    assert BOOK.describe_target("@telegram:6660") == "Anna (telegram:6660)"
    assert BOOK.describe_target("home") == "home (telegram:-100:7)"
    assert BOOK.describe_target("origin", "telegram:5") == "origin (telegram:5)"
    assert BOOK.describe_target("telegram:5") == "telegram:5"
    assert BOOK.describe_target("gone:5") == "gone:5"
    assert BOOK.is_new_chat("telegram:5") and not BOOK.is_new_chat("telegram:6660")


def test_accounts_that_have_chats() -> None:
    given = {"telegram": {"home": 5}, "mine": {"platform": "ntfy"}, "webhook": {}, "off": {"enabled": False}}
    assert list_account_homes(given) == {"telegram": "5", "mine": ""}  # type: ignore[arg-type]


def test_the_platforms_without_chats_are_those_that_answer_nobody() -> None:
    from hermes.gateway.accounts import load_descriptor, platform_names

    silent = {name for name in platform_names() if not load_descriptor(name).can.answers}
    assert silent == PLATFORMS_WITHOUT_CHATS

"""Ids in the settings, as people write them."""

import pytest

from hermes.core.errors import ConfigError
from hermes.gateway.accounts import plan_account
from hermes.testing.home import TempHome
from tests.forked_hermes import run_hermes

TOKEN = f"{12345}:{'A' * 35}"


def test_ids_may_stand_without_quotes_and_brackets() -> None:
    given = {"token": TOKEN, "owners": [1001, "1002"], "allow": 1003, "groups": "*", "home": -1001}
    plan = plan_account("telegram", given, {})
    assert plan is not None
    settings = plan.settings
    assert (settings.owners, settings.allow, settings.groups) == (("1001", "1002"), ("1003",), ("*",))
    assert settings.home == "-1001"


@pytest.mark.parametrize("wrong", [True, [True], [1.5], {"a": "b"}, [["1"]]])
def test_what_is_no_id_is_refused(wrong: object) -> None:
    with pytest.raises(ConfigError, match="owners"):
        plan_account("telegram", {"token": TOKEN, "owners": wrong}, {})


async def test_the_check_of_the_settings_names_what_is_wrong_with_accounts() -> None:
    accounts = {"telegramm": {}, "telegram": {"tokn": "x"}}
    with TempHome({"platforms": accounts}) as home:
        done = await run_hermes(home, "config", "check")
    assert "'telegramm'" in done.stdout and "'telegram'" in done.stdout
    assert "platforms.telegram.tokn" in done.stdout
    assert done.code == 0


async def test_an_account_without_its_token_is_named_by_the_check() -> None:
    """L2: `config check` says which secret is missing, and where it goes."""
    with TempHome({"platforms": {"telegram": {"owners": ["5"]}, "ntfy": {"topic": "t"}}}) as home:
        done = await run_hermes(home, "config", "check")
        assert "platforms.telegram has no token" in done.stdout and "TELEGRAM_BOT_TOKEN" in done.stdout
        assert "ntfy" not in done.stdout


async def test_an_account_in_the_place_of_a_person_or_a_code_leads_to_what_is_meant() -> None:
    with TempHome({"platforms": {"telegram": {"token": "x", "allow": ["1002"]}}}) as home:
        assert (await run_hermes(home, "people", "add", "anna")).code == 0
        assert (await run_hermes(home, "people", "link", "anna", "telegram", "1003")).code == 0
        revoked = await run_hermes(home, "pairing", "revoke", "telegram", "1003")
        assert revoked.code != 0 and "hermes people unlink telegram 1003" in revoked.stderr
        for words in (("role", "1002", "user"), ("remove", "1002", "--yes"), ("show", "1002")):
            assert "Did you mean 'telegram:1002'?" in (await run_hermes(home, "people", *words)).stderr
        assert "Did you mean 'anna'?" in (await run_hermes(home, "people", "remove", "1003", "--yes")).stderr


async def test_memory_of_a_person_is_found_by_name_and_not_invented() -> None:
    """M5, L4: a person who does not exist has no memory; a pairing code says what it makes of whom, and where."""
    with TempHome({"platforms": {"telegram": {"token": "x"}}}) as home:
        assert (await run_hermes(home, "people", "add", "anna", "--name", "Anna")).code == 0
        wrong = await run_hermes(home, "memory", "list", "--person", "Ana")
        assert wrong.code == 1 and "There is no person 'Ana'" in wrong.stderr
        by_name, by_id = [await run_hermes(home, "memory", "list", "--person", one) for one in ("Anna", "anna")]
        assert by_name.code == 0 and by_name.stdout == by_id.stdout
        code = await run_hermes(home, "pairing", "new", "--role", "guest", "--platform", "telegram")
        assert "guest" in code.stdout and "telegram" in code.stdout

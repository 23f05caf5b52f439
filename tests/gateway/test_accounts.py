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

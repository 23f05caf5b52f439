"""Commands get variables of a list: the locale, PATH and those of tool chains, and what a person names."""

import pytest

from hermes.safety.environment import DroppedVariables, select_command_variables

GIVEN = str.split(
    """
    PATH HOME LANG LC_ALL TZ JAVA_HOME GOPATH CARGO_HOME VIRTUAL_ENV CONDA_PREFIX CC CFLAGS CUDA_VISIBLE_DEVICES
    NODE_ENV CI PYTHONPATH PIP_INDEX_URL npm_config_registry SSH_AUTH_SOCK http_proxy XDG_RUNTIME_DIR
    """
)
DROPPED = str.split(
    """
    GITHUB_PAT BW_SESSION OP_SESSION_my JWT COOKIE NPM_AUTH DB_PW ROOT_PWD LDAP_BINDPW PGPASSWORD MYSQL_PWD
    REDISCLI_AUTH MNEMONIC MY_CRED TELEGRAM_BOT CI_JOB_JWT_V2 SLACK_WEBHOOK_URL MONGO_URI npm_config__auth
    PIP_PASSWORD UV_PUBLISH_TOKEN NPM_CONFIG_AUTH ANYTHING_ELSE GIT_CONFIG_COUNT GIT_CONFIG_VALUE_0
    CARGO_REGISTRY_TOKEN OPENAI_API_KEY CONDA_TOKEN
    """
)


def test_names_of_the_list_are_given_and_all_others_are_not() -> None:
    given = select_command_variables(dict.fromkeys((*GIVEN, *DROPPED), "x"))
    assert sorted(given) == sorted(GIVEN)


@pytest.mark.parametrize("scheme", ["https", "sparse+https", "socks5"])
def test_an_address_with_a_name_in_it_is_never_given(scheme: str) -> None:
    address = "".join((scheme, "://", "ann", ":", "a" * 8, "@host.example/simple"))
    environment = {"PIP_INDEX_URL": address, "http_proxy": address, "MY_URL": address, "MY_OTHER": "x"}
    assert select_command_variables(environment, ("MY_*",)) == {"MY_OTHER": "x"}
    assert select_command_variables(environment, ("MY_URL",)) == {"MY_URL": address}


def test_a_name_that_a_command_uses_is_told_once() -> None:
    dropped = DroppedVariables({"PATH": "/bin", "GH_TOKEN": "x", "MY_NAME": "x", "OTHER": "x"}, ("OTHER",))
    assert dropped.explain_use("MY_NAME=here make; echo $PATH $OTHER; X_MY_NAME") == []
    assert "handed to commands: GH_TOKEN, MY_NAME;" in dropped.explain_use("curl -H $GH_TOKEN ${MY_NAME}")[0]
    assert dropped.explain_use("echo $GH_TOKEN") == []


def test_names_are_found_by_patterns_wherever_the_star_stands() -> None:
    given = dict.fromkeys(("DBUS_A_BUS_ADDRESS", "NEXT_TELEMETRY_DISABLED", "A_OPTOUT", "LC_TIME", "LCTIME"), "x")
    assert select_command_variables(given).keys() == given.keys() - {"LCTIME"}

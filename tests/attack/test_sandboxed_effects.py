"""What a program in the sandbox does not reach or leave, whichever mechanism makes it (HERMES_TESTS_SANDBOX)."""

import pytest

from tests.attack.obedient_scene import scene
from tests.attack.test_pointers import run_program

VARIABLES = str.split(
    "GITHUB_PAT BW_SESSION OP_SESSION_x JWT COOKIE NPM_AUTH DB_PW ROOT_PWD LDAP_BINDPW PGPASSWORD MYSQL_PWD"
    " REDISCLI_AUTH MNEMONIC MY_CRED TELEGRAM_BOT CI_JOB_JWT_V2 SLACK_WEBHOOK_URL MONGO_URI PIP_INDEX_URL MADE_UP"
)


@pytest.mark.parametrize("name", ["bashrc", "autostart/x.desktop", "autostart/new.desktop"])
async def test_what_start_files_lead_to_is_as_it_was(name: str) -> None:
    async with scene(trusted=True) as one:
        dotfiles = one.home.cwd / "dotfiles"
        (dotfiles / "autostart").mkdir(parents=True)
        for mine in ("bashrc", "autostart/x.desktop"):
            (dotfiles / mine).write_text("mine")
        (one.home.home / ".bashrc").symlink_to(dotfiles / "bashrc")
        (one.home.home / ".config").mkdir(exist_ok=True)
        (one.home.home / ".config/autostart").symlink_to(dotfiles / "autostart")
        path = dotfiles / name
        await run_program(one, f"try: open({str(path)!r}, 'a').write('theirs')\nexcept OSError as error: print(error)")
        assert (path.read_text() == "mine") if "new" not in name else not path.exists()


async def test_no_variable_that_could_be_a_key_reaches_a_program() -> None:
    values = {name: f"value-of-{name}" for name in VARIABLES}
    values |= {name: f"https://me:value-of-{name}@host.test/x" for name in ("MONGO_URI", "PIP_INDEX_URL")}
    async with scene(trusted=True, environ=values) as one:
        said = await run_program(
            one,
            "print(*os.environ.values())\n"
            "for one in [one for one in os.listdir('/proc') if one.isdigit()]:\n"
            " try: print(open(f'/proc/{one}/environ').read())\n except OSError: pass",
        )
        assert "value-of" not in said and "/usr/bin" in said


async def test_another_home_of_hermes_is_not_read() -> None:
    async with scene(trusted=True) as one:
        other = one.home.home / ".hermes-work"
        other.mkdir()
        for name in (".env", "hermes.db", "config.yaml"):
            (other / name).write_text("a-private-word")
        said = await run_program(
            one,
            f"for name in ('.env', 'hermes.db', 'config.yaml'):\n"
            f" try: print(open({str(other)!r} + '/' + name).read())\n"
            " except OSError as error: print(error)\nprint('done')",
        )
        assert "done" in said and "a-private-word" not in said

"""Profiles: homes of their own, chosen by `-p`, by `use`, or overruled by HERMES_HOME."""

import json
import sys

import pytest

from hermes.testing.home import ProgramResult, TempHome
from tests.forked_hermes import run_hermes

pytestmark = pytest.mark.slow


class Person(TempHome):
    """A home in which HERMES_HOME is not set, so that profiles count."""

    @property
    def environ(self) -> dict[str, str]:
        """The environment without HERMES_HOME."""
        return {name: value for name, value in super().environ.items() if name != "HERMES_HOME"}

    async def call(self, *arguments: str, stdin: bytes = b"") -> ProgramResult:
        """Run the command line."""
        return await self.run(sys.executable, "-m", "hermes", *arguments, stdin=stdin)


async def test_p_and_use_choose_the_home() -> None:
    with Person() as home:
        base = home.home / ".hermes"
        assert (await home.call("profile", "create", "work")).code == 0
        assert (base / "profiles/work").stat().st_mode & 0o777 == 0o700 and base.stat().st_mode & 0o777 == 0o700
        for words in (("-p", "work", "home"), ("home", "-p", "work"), ("home", "--profile=work")):
            assert (await home.call(*words)).stdout.strip() == str(base / "profiles/work")
        assert (await home.call("home")).stdout.strip() == str(base)
        assert (await home.call("profile", "use", "work")).code == 0
        assert (await home.call("home")).stdout.strip() == str(base / "profiles/work")
        assert (await home.call("-p", "default", "home")).stdout.strip() == str(base)
        rows = json.loads((await home.call("profile", "list", "--json")).stdout)
        assert [(row["name"], row["in_use"]) for row in rows] == [("default", False), ("work", True)]


async def test_what_is_no_profile_is_said_with_the_nearest() -> None:
    with Person() as home:
        await home.call("profile", "create", "work")
        done = await home.call("-p", "wrok", "home")
        assert done.code == 78 and "There is no profile 'wrok'. Did you mean 'work'?" in done.stderr
        done = await home.call("-p", "hello")  # which is a prompt elsewhere
        assert done.code == 78 and done.stderr.endswith("shows those there are. To ask something: -z TEXT.\n")
        for name in ("../x", "Work", "", "a b", "-x"):
            assert (await home.call(f"--profile={name}", "home")).code == 2, name
            assert (await home.call("profile", "create", f"{name}")).code == 2, name
        done = await home.call("profile", "show", "wrok")
        assert done.code == 1 and "Did you mean 'work'?" in done.stderr


async def test_hermes_home_comes_first_and_is_said() -> None:
    with TempHome() as home:
        done = await run_hermes(home, "-p", "work", "home")
        assert done.stdout.strip() == str(home.hermes) and "HERMES_HOME is set and comes first" in done.stderr


@pytest.mark.parametrize(("options", "keys"), [(("--keys",), True), (("--no-keys",), False), ((), False)])
async def test_a_clone_takes_what_is_known_and_keys_only_on_purpose(options: tuple[str, ...], keys: bool) -> None:
    with Person() as home:
        base = home.home / ".hermes"
        for name in ("config.yaml", ".env", "skills/a/SKILL.md", "memories/MEMORY.md", "hermes.db", "trust.json"):
            (base / name).parent.mkdir(parents=True, exist_ok=True)
            (base / name).write_text("{}")
        done = await home.call("profile", "clone", "work", *options)
        assert done.code == 0
        assert ("--keys does that" in done.stderr) == (not options)
        new = base / "profiles/work"
        assert (new / "skills/a/SKILL.md").exists() and (new / "memories/MEMORY.md").exists()
        assert (
            (new / ".env").exists() == keys and not (new / "hermes.db").exists() and not (new / "trust.json").exists()
        )
        shown = json.loads((await home.call("profile", "show", "work", "--json")).stdout)
        assert (shown["skills"], shown["memories"], shown["keys"]) == (1, ["MEMORY.md"], keys)


async def test_renaming_and_deleting() -> None:
    with Person() as home:
        profiles = home.home / ".hermes/profiles"
        await home.call("profile", "create", "work")
        await home.call("profile", "use", "work")
        assert (await home.call("profile", "rename", "work", "job")).code == 0
        assert (await home.call("home")).stdout.strip() == str(profiles / "job")
        assert (await home.call("profile", "delete", "job")).code == 2
        assert (await home.call("profile", "delete", "default", "--yes")).code == 2
        assert (await home.call("profile", "delete", "job", "--yes")).code == 0
        assert list(profiles.iterdir()) == []
        assert (await home.call("home")).stdout.strip() == str(home.home / ".hermes")


async def test_what_a_command_says_of_itself_is_no_profile() -> None:
    with Person() as home:
        done = await home.call("guard", "command", "mkdir", "-p", "work")
        assert "no profile" not in done.stderr and done.code == 0

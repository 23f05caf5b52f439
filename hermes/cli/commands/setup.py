"""`hermes setup`: from nothing to a working model, on a terminal or by options."""

import argparse
import asyncio
import getpass
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import structs

from hermes.admin.config import get_setting
from hermes.admin.migrate.detect import find_foreign_homes, open_foreign_home
from hermes.admin.migrate.foreign_home import ForeignHome
from hermes.admin.migrate.importer import ImportPreview, ImportResult, import_home, preview_import
from hermes.admin.models.local_servers import KNOWN_SERVERS, LocalModelServer, find_local_servers
from hermes.admin.models.models import FoundKey, ModelSelection, describe_current_model, list_model_names, probe_model
from hermes.admin.models.setup import (
    SetupRequest,
    SetupSelection,
    complete_model,
    find_provider_keys,
    key_variable,
    list_providers,
    normalize_address,
    resolve_setup,
    save_setup,
    suggest_setup,
)
from hermes.cli.arguments import Parser
from hermes.cli.commands.model import about, test_line
from hermes.cli.errors import complain, explained, failed
from hermes.cli.plain.menu import LeftError, ask, at_a_terminal, choose, pick, secret, yes_no
from hermes.config.env_file import set_variables
from hermes.config.environment import process_environment, with_dotenv
from hermes.config.home import locate_home
from hermes.core.errors import ConfigError, HermesError, UsageError
from hermes.i18n.formats import compact, number
from hermes.i18n.messages import CHINESE, ENGLISH, language_of, phrase, say, say_many, speak
from hermes.sessions.app import share_home
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import escaped, one_line

STOPPED = 130
_LOCALES = ("HERMES_LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
_NO_LOCALE = ("", "C", "POSIX", "C.UTF-8", "C.utf8")
_SHOWN = 12


def run(arguments: list[str], *, servers: tuple[LocalModelServer, ...] = KNOWN_SERVERS) -> int:
    """Ask, or do what the options say; `servers` are looked for on this machine."""
    given = _parser().read(arguments)
    environ = process_environment()
    speak(language_of(with_dotenv(environ, locate_home(environ).env_file)))
    named = given.provider or given.model or given.base_url or given.api_key_env or given.key_stdin or given.yes
    try:
        if named or given.from_path or not at_a_terminal():
            return _Unasked(environ, given, servers).run()
        return _Asked(environ, given, servers).run()
    except HermesError as error:
        return failed(error)
    except (LeftError, KeyboardInterrupt):
        print("\n" + say("Left. What you had not said yes to was not changed."))
        return STOPPED


def _parser() -> Parser:
    made = Parser(
        prog="hermes setup",
        description="Find a model that works and keep it: keys in the environment and .env, model servers on this"
        " machine, another agent's home. On a terminal it asks; with options it does what they say.",
        epilog="example: hermes setup --provider ollama --model qwen3:8b --yes",
    )
    made.add_argument("--provider", default="", metavar="P", help="who serves the model, such as openrouter or ollama")
    made.add_argument("--model", default="", metavar="M", help="the model, as its provider writes it")
    made.add_argument("--base-url", default="", metavar="U", help="where a server of your own is")
    keys = made.add_mutually_exclusive_group()
    keys.add_argument("--api-key-env", default="", metavar="NAME", help="the variable that holds the key")
    keys.add_argument("--key-stdin", action="store_true", help="read the key from standard input; it goes into .env")
    old = made.add_mutually_exclusive_group()
    old.add_argument("--import", default="", dest="from_path", metavar="PATH", help="take over another agent's home")
    old.add_argument("--no-import", action="store_true", help="do not look for other agents' homes")
    made.add_argument("--no-test", action="store_true", help="make no test call")
    made.add_argument("--yes", action="store_true", help="write and take over without asking")
    return made


class _Unasked:
    """Setting up by options."""

    def __init__(
        self, environ: Mapping[str, str], given: argparse.Namespace, servers: tuple[LocalModelServer, ...]
    ) -> None:
        self._environ = environ
        self._given = given
        self._servers = servers

    def run(self) -> int:
        """Take over, choose, test, write."""
        given = self._given
        code = self._taken_over(Path(given.from_path)) if given.from_path else 0
        if code:
            return code
        wanted = self._wanted()
        if wanted is None:
            return 0
        choice = asyncio.run(complete_model(self._environ, resolve_setup(self._environ, wanted)))
        if not given.no_test and choice.selection.provider != "local":
            result = asyncio.run(probe_model(self._environ, choice.trial_selection))
            print(test_line(result))
            if result.problem:
                complain(say("Nothing was written. With --no-test it is, all the same."))
                return 1
        _written(save_setup(self._environ, choice))
        return 0

    def _taken_over(self, path: Path) -> int:
        """The exit code: 1 after a no, 2 where nobody can be asked."""
        old = open_foreign_home(self._environ, path)
        _show_preview(preview_import(self._environ, old))
        if not self._given.yes:
            if not at_a_terminal():
                complain(say("Taking it over needs a yes: --yes."))
                return 2
            if not yes_no(say("Take this over?")):
                return 1
        _show_taken(asyncio.run(import_home(self._environ, old, _progress)))
        return 0

    def _wanted(self) -> SetupRequest | None:
        """What is to be chosen; None when all is said."""
        given = self._given
        if given.key_stdin and not given.provider and not given.base_url:
            raise UsageError(phrase("--key-stdin needs --provider: whose key is it?"))
        key = sys.stdin.readline().strip() if given.key_stdin else ""
        wanted = SetupRequest(
            provider=given.provider, model=given.model, base_url=given.base_url, api_key=key, variable=given.api_key_env
        )
        if given.provider or given.base_url:
            return wanted
        shown = _standing(self._environ)
        if shown is None:
            return self._suggested()
        if given.model:
            return wanted
        print("\n".join(about(shown)))
        return None

    def _suggested(self) -> SetupRequest | None:
        """What was found suggests itself, to a yes."""
        keys, servers = find_provider_keys(self._environ), asyncio.run(find_local_servers(self._servers))
        likely = suggest_setup(keys, servers) if self._given.yes else None
        if likely is not None:
            print(_offers(keys, servers)[0])
            return structs.replace(likely, model=self._given.model)
        if self._given.from_path:
            complain(say("No model is set up yet: `hermes setup` finds one."))
            return None
        raise UsageError(
            phrase("Nothing says which provider to use."), phrase("Name one: --provider P, and --yes to write it down.")
        )


class _Asked:
    """Setting up with a person at the terminal."""

    def __init__(
        self, environ: Mapping[str, str], given: argparse.Namespace, servers: tuple[LocalModelServer, ...]
    ) -> None:
        self._environ = environ
        self._given = given
        self._servers = servers

    def run(self) -> int:
        """Ask for one thing after the other; Enter takes what is shown."""
        language = self._language()
        home = locate_home(self._environ)
        home.check()
        print(
            say(
                "Hermes keeps its things in {home}. Enter takes what is shown; Ctrl-C leaves.",
                home=escaped(str(home.root)),
            )
        )
        shown = _standing(self._environ)
        if not self._given.no_import:
            for old in find_foreign_homes(self._environ):
                self._offer(old)
        if home.foreign():
            self._share()
        shown = _standing(self._environ)
        if shown is not None and not self._change(shown):
            self._speak(language)
            _next_steps()
            return 0
        choice = self._choice()
        if choice is None:
            return 0
        code = self._finish(choice)
        self._speak(language)
        return code

    def _language(self) -> str:
        """The language, asked for where the locale does not say; empty when it does."""
        whole = with_dotenv(self._environ, locate_home(self._environ).env_file)
        said = next((whole[name] for name in _LOCALES if whole.get(name)), "")
        if said not in _NO_LOCALE:
            return ""
        languages = (ENGLISH, CHINESE)
        chosen = languages[choose("Language / 语言", ["English", "中文"])]
        speak(chosen)
        return chosen

    def _speak(self, language: str) -> None:
        """Keep a language that was chosen and is not what everybody has anyway."""
        home = locate_home(self._environ)
        if language == CHINESE and not home.foreign():
            home.ensure()
            set_variables(home.env_file, {"HERMES_LANGUAGE": language})

    def _offer(self, old: ForeignHome) -> None:
        shown = preview_import(self._environ, old)
        if shown.empty:
            return
        _show_preview(shown)
        if yes_no(say("Take this over?")):
            _show_taken(asyncio.run(import_home(self._environ, old, _progress)))

    def _share(self) -> None:
        home = locate_home(self._environ)
        text = say(
            "{home} is another program's home too. Keep Hermes' own files (hermes.db, search.db) beside them?",
            home=home.root,
        )
        if not yes_no(text):
            raise ConfigError(phrase("Nothing was changed."), phrase("HERMES_HOME names another folder for Hermes."))
        asyncio.run(share_home(self._environ))

    def _change(self, shown: Plain) -> bool:
        """Show what is there; whether something else is wanted."""
        print("\n" + say("This is set up:"))
        print("\n".join(about(shown)))
        wishes = [say("Leave it so"), say("Test it"), say("Another model or provider")]
        while True:
            wish = choose(say("What now?"), wishes)
            if wish == 1:
                print(test_line(asyncio.run(probe_model(self._environ, ModelSelection()))))
            else:
                return wish == 2

    def _choice(self) -> SetupSelection | None:
        keys, servers = find_provider_keys(self._environ), asyncio.run(find_local_servers(self._servers))
        rows = _offers(keys, servers)
        rows += [say("Another provider; I have a key"), say("A server, by its address")]
        rows.append(say("None yet: the small model that comes with Hermes answers"))
        at = choose(say("Who serves the model?"), rows)
        if at < len(keys):
            return self._with_model(SetupRequest(provider=keys[at].provider))
        if at < len(keys) + len(servers):
            server = servers[at - len(keys)]
            return self._with_model(SetupRequest(provider=server.provider, base_url=server.base_url))
        if at == len(rows) - 1:
            _next_steps()
            return None
        if at == len(rows) - 2:
            url = _address()
            key = secret(say("Its key, if it wants one (not shown; Enter for none):"), getpass.getpass)
            return self._with_model(SetupRequest(base_url=url, api_key=key))
        known = list_providers()
        title = pick(say("Which provider?"), [one.title for one in known], free=False)
        provider = next(one.name for one in known if one.title == title)
        return self._with_model(SetupRequest(provider=provider, api_key=self._key(provider)))

    def _key(self, provider: str) -> str:
        variable = key_variable(provider)
        while True:
            key = secret(say("The key (not shown; it goes into .env as {name}):", name=variable), getpass.getpass)
            if key:
                return key

    def _with_model(self, wanted: SetupRequest) -> SetupSelection:
        choice = resolve_setup(self._environ, wanted)
        try:
            names = [one.name for one in asyncio.run(list_model_names(self._environ, choice.trial_selection))]
        except ConfigError as error:
            complain(explained(error))
            names = []
        model = names[0] if len(names) == 1 else pick(say("Which model?"), names)
        return structs.replace(choice, selection=structs.replace(choice.selection, model=model))

    def _finish(self, choice: SetupSelection) -> int:
        """Test and write."""
        kept = False
        while not self._given.no_test:
            print(say("Testing {model} ...", model=escaped(choice.selection.model)), flush=True)
            result = asyncio.run(probe_model(self._environ, choice.trial_selection))
            print(test_line(result))
            if not result.problem:
                break
            wishes = [
                say("Try again"),
                say("Another key"),
                say("Another choice"),
                say("Keep it all the same"),
                say("Leave"),
            ]
            wish = choose(say("What now?"), wishes)
            if wish == 1:
                provider = choice.selection.provider
                choice = structs.replace(choice, api_key=self._key(provider), variable=key_variable(provider))
            elif wish == 2:
                other = self._choice()
                if other is None:
                    return 0
                choice = other
            elif wish == 3:
                kept = True
                break
            elif wish == 4:
                raise LeftError
        if not kept and not yes_no(say("Keep this choice?"), default=True):
            raise LeftError
        _written(save_setup(self._environ, choice))
        return 0


def _address() -> str:
    """The address of a server, asked for until it is one."""
    while True:
        url = normalize_address(ask(say("Its address (mostly ending in /v1):"), "http://127.0.0.1:8000/v1"))
        if url:
            return url
        print(say("That is no address: http://HOST:PORT/v1 is one."))


def _offers(keys: Sequence[FoundKey], servers: Sequence[LocalModelServer]) -> list[str]:
    """What was found, a line each."""
    rows = [say("{provider} (key: {place})", provider=one.title, place=one.place) for one in keys]
    for server in servers:
        count = say_many("{n} model", "{n} models", len(server.models))
        rows.append(say("{provider} at {url} ({models})", provider=server.title, url=server.base_url, models=count))
    return rows


def _standing(environ: Mapping[str, str]) -> Plain | None:
    """The model as it is set up; None when nothing is, or what is cannot be used (then that is said)."""
    try:
        shown = asyncio.run(describe_current_model(environ))
    except ConfigError as error:
        if "config.yaml" in str(error):
            raise
        if get_setting(environ, "model")["source"] == "config.yaml":  # else nobody has chosen anything yet
            complain(explained(error))
        return None
    return None if shown["provider"] == "local" else shown


def _written(places: list[str]) -> None:
    for place in places:
        print(escaped(say("Wrote {place}.", place=place)))
    if not places:
        print(say("It was so already; nothing had to be written."))
    _next_steps()


def _next_steps() -> None:
    print("\n" + say("What next:"))
    print("  hermes                " + say("talk with it; /help shows what it can do"))
    print('  hermes -z "..."       ' + say("one task, only the answer printed"))
    print("  hermes config list    " + say("what is set; `hermes tools` for its tools"))


def _show_preview(shown: ImportPreview) -> None:
    print("\n" + escaped(say("A home of {title}: {root}", title=shown.title, root=shown.root)))
    if shown.empty:
        print("  " + say("There is nothing to take over."))
    elif not shown.news:
        print("  " + say("Nothing new, unless something was said in its sessions since."))
    rows = [
        (shown.sessions, say_many("{n} session", "{n} sessions", shown.sessions) + _size(shown)),
        (shown.known, say_many("{n} of them is here already", "{n} of them are here already", shown.known)),
        (shown.memory, say_many("{n} memory", "{n} memories", shown.memory)),
        (shown.user, say_many("{n} note about you", "{n} notes about you", shown.user)),
        (shown.identity, "SOUL.md"),
        (len(shown.skills), say_many("{n} skill", "{n} skills", len(shown.skills)) + _names(shown.skills)),
        (len(shown.settings), say_many("{n} setting", "{n} settings", len(shown.settings)) + _names(shown.settings)),
        (len(shown.keys), say("variables of its .env (copied into ours, not shown)") + _names(shown.keys)),
    ]
    for count, text in rows:
        if count:
            print("  + " + escaped(text))
    for one in shown.full:
        print("      " + escaped(f"{one.what}: {one.why}"))
    for one in shown.conflicts:
        print("  = " + escaped(f"{one.what}: {one.why}"))
    for one in shown.left:
        print("  - " + escaped(one_line(f"{one.what}: {one.why}", 200)))
    print("  " + say("Nothing is changed there. What reads like an order to the agent waits for your yes."))


def _size(shown: ImportPreview) -> str:
    return ", " + say("{n} messages, {size} bytes", n=number(shown.messages), size=compact(shown.bytes))


def _names(names: tuple[str, ...]) -> str:
    more = ", ..." if len(names) > _SHOWN else ""
    return ": " + ", ".join(names[:_SHOWN]) + more


def _show_taken(taken: ImportResult) -> None:
    messages = say_many("{n} message", "{n} messages", taken.messages)
    known = say_many("{n} session was here already", "{n} sessions were here already", taken.known)
    rows = [
        (taken.sessions, say_many("{n} session", "{n} sessions", taken.sessions) + f", {messages}"),
        (taken.known, known),
        (taken.memories, say_many("{n} memory", "{n} memories", taken.memories)),
        (taken.skills, say_many("{n} skill", "{n} skills", taken.skills)),
        (taken.settings, say_many("{n} setting", "{n} settings", taken.settings)),
        (taken.keys, say_many("{n} variable", "{n} variables", taken.keys)),
        (taken.identity, "SOUL.md"),
    ]
    print(say("Taken over:"))
    told = [text for count, text in rows if count]
    for text in told or [say("nothing new")]:
        print("  " + text)
    if taken.waiting:
        waits = say_many("{n} change waits for your yes:", "{n} changes wait for your yes:", taken.waiting)
        print(f"{waits} `hermes memory pending`, `hermes skills pending`")
    for one in taken.left:
        print("  - " + escaped(one_line(f"{one.what}: {one.why}", 200)))


def _progress(done: int, whole: int) -> None:
    """Say now and then how far taking over is, on a terminal only."""
    if sys.stderr.isatty() and (done % 50 == 0 or done == whole > 50):
        sys.stderr.write("\r" + say("{n} of {whole} sessions", n=done, whole=whole) + ("\n" if done >= whole else ""))
        sys.stderr.flush()

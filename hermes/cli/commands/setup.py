"""`hermes setup`: find a working model and save it, by questions on a terminal or by options."""

import argparse
import asyncio
import contextlib
import getpass
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import structs

from hermes.admin.config import get_setting
from hermes.admin.migrate.foreign_home import ForeignHome
from hermes.admin.migrate.importer import (
    ImportPreview,
    ImportResult,
    find_foreign_homes,
    import_home,
    open_foreign_home,
    preview_import,
)
from hermes.admin.models.local_servers import KNOWN_SERVERS, LocalModelServer, find_local_servers
from hermes.admin.models.models import (
    FoundKey,
    KeyRefusedError,
    ModelSelection,
    describe_current_model,
    list_model_names,
    probe_model,
)
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
from hermes.cli.commands.model import format_current_model, format_test_result
from hermes.cli.commands.setup_extras import list_extras, offer_extras, run_extra
from hermes.cli.output import EXIT_INTERRUPTED, format_error, print_error, report_failure
from hermes.cli.parser import CommandParser
from hermes.cli.plain.menu import (
    PromptAbortedError,
    WentBackError,
    ask_line,
    ask_secret,
    ask_yes_no,
    choose_option,
    is_interactive,
    pick_name,
)
from hermes.config.environment import copy_environment, merge_dotenv, set_variables
from hermes.config.home import locate_home
from hermes.config.other_agents import list_present_agents
from hermes.core.encoding import Plain
from hermes.core.errors import ConfigError, HermesError, UsageError
from hermes.i18n.formats import format_compact, format_number
from hermes.i18n.messages import CHINESE, ENGLISH, N_, language_from_environment, set_language, tr, tr_plural
from hermes.sessions.app import share_home
from hermes.util.text import escape_unseen_characters, to_one_line

_LOCALE_VARIABLES = ("HERMES_LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
_NEUTRAL_LOCALES = ("", "C", "POSIX", "C.UTF-8", "C.utf8")
_MAX_NAMES = 12


def run(arguments: list[str], *, servers: tuple[LocalModelServer, ...] = KNOWN_SERVERS) -> int:
    """Ask, or do what the options say; `servers` are looked for on this machine."""
    args = _build_parser().parse_arguments(arguments)
    environ = copy_environment()
    set_language(language_from_environment(merge_dotenv(environ, locate_home(environ).env_file)))
    named = args.provider or args.model or args.base_url or args.api_key_env or args.key_stdin or args.yes
    try:
        if named or args.from_path or not is_interactive():
            return _OptionSetup(environ, args, servers).run()
        return _InteractiveSetup(environ, args, servers).run()
    except HermesError as error:
        return report_failure(error)
    except (PromptAbortedError, KeyboardInterrupt):
        print("\n" + tr("Stopped. Only what you confirmed was changed."))
        return EXIT_INTERRUPTED


def _build_parser() -> CommandParser:
    made = CommandParser(
        prog="hermes setup",
        description="Find a model that works and keep it: keys in the environment and .env, model servers on this"
        " machine, another agent's home. On a terminal it asks; with options it does what they say.",
        epilog="example: hermes setup --provider ollama --model qwen3:8b --yes",
    )
    made.add_argument("--provider", default="", metavar="P", help="the model's provider, such as openrouter or ollama")
    made.add_argument("--model", default="", metavar="M", help="the model, as its provider writes it")
    made.add_argument("--base-url", default="", metavar="U", help="where a server of your own is")
    keys = made.add_mutually_exclusive_group()
    keys.add_argument("--api-key-env", default="", metavar="NAME", help="the variable that holds the key")
    keys.add_argument("--key-stdin", action="store_true", help="read the key from standard input; it goes into .env")
    old = made.add_mutually_exclusive_group()
    old.add_argument("--import", default="", dest="from_path", metavar="PATH", help="import another agent's home")
    old.add_argument("--no-import", action="store_true", help="do not look for other agents' homes")
    made.add_argument("--no-test", action="store_true", help="make no test call")
    made.add_argument("--yes", action="store_true", help="write and import without asking")
    return made


class _OptionSetup:
    """Sets Hermes up as the options say."""

    def __init__(
        self, environ: Mapping[str, str], args: argparse.Namespace, servers: tuple[LocalModelServer, ...]
    ) -> None:
        self._environ = environ
        self._given = args
        self._servers = servers

    def run(self) -> int:
        """Import a home, choose the model, test it, save it."""
        args = self._given
        code = self._import_home(Path(args.from_path)) if args.from_path else 0
        if code:
            return code
        request = self._build_request()
        if request is None:
            return 0
        choice = asyncio.run(complete_model(self._environ, resolve_setup(self._environ, request)))
        if not args.no_test and choice.selection.provider != "local":
            result = asyncio.run(probe_model(self._environ, choice.trial_selection))
            print(format_test_result(result))
            if result.problem:
                print_error(tr("Nothing was written. `--no-test` writes it without a test."))
                return 1
        _report_written(save_setup(self._environ, choice))
        _print_next_steps(self._environ)
        return 0

    def _import_home(self, path: Path) -> int:
        """Import another agent's home. Return the exit code: 1 after a no, 2 where nobody can be asked."""
        old = open_foreign_home(self._environ, path)
        _print_preview(preview_import(self._environ, old))
        if not self._given.yes:
            if not is_interactive():
                print_error(tr("Run it again with --yes to import it."))
                return 2
            if not ask_yes_no(tr("Take this over?")):
                return 1
        _print_import_result(asyncio.run(import_home(self._environ, old, _print_progress)))
        return 0

    def _build_request(self) -> SetupRequest | None:
        """Return what is to be set up; None when there is nothing left to do."""
        args = self._given
        if args.key_stdin and not args.provider and not args.base_url:
            raise UsageError(N_("--key-stdin needs --provider: whose key is it?"))
        key = sys.stdin.readline().strip() if args.key_stdin else ""
        request = SetupRequest(
            provider=args.provider, model=args.model, base_url=args.base_url, api_key=key, variable=args.api_key_env
        )
        if args.provider or args.base_url:
            return request
        shown = _load_current_model(self._environ)
        if shown is None:
            return self._suggest_request()
        if args.model:
            return request
        print("\n".join(format_current_model(shown)))
        return None

    def _suggest_request(self) -> SetupRequest | None:
        """Choose from the keys and servers that were found, when the person said yes."""
        keys, servers = find_provider_keys(self._environ), asyncio.run(find_local_servers(self._servers))
        likely = suggest_setup(keys, servers) if self._given.yes else None
        if likely is not None:
            print(_format_offers(keys, servers)[0])
            return structs.replace(likely, model=self._given.model)
        if self._given.from_path:
            print_error(tr("No model is set up yet: `hermes setup` finds one."))
            return None
        raise UsageError(
            N_("Nothing says which provider to use."), N_("Name one: --provider P, and --yes to write it down.")
        )


class _InteractiveSetup:
    """Sets Hermes up with a person at the terminal."""

    def __init__(
        self, environ: Mapping[str, str], args: argparse.Namespace, servers: tuple[LocalModelServer, ...]
    ) -> None:
        self._environ = environ
        self._given = args
        self._servers = servers

    def run(self) -> int:
        """Ask for one thing after the other; Enter takes the default that is shown."""
        language = self._choose_language()
        home = locate_home(self._environ)
        home.check_usable()
        print(
            tr(
                "Hermes keeps its things in {home}. Enter takes what is shown; Ctrl-C leaves.",
                home=escape_unseen_characters(str(home.root)),
            )
        )
        shown = _load_current_model(self._environ)
        if not self._given.no_import:
            for old in find_foreign_homes(self._environ):
                self._offer_import(old)
        if home.find_foreign_file():
            self._agree_to_share()
        shown = _load_current_model(self._environ)
        if shown is not None and not self._wants_change(shown):
            self._save_language(language)
            _print_next_steps(self._environ)
            return 0
        code = self._choose_and_save()
        self._save_language(language)
        return code

    def _choose_language(self) -> str:
        """Ask for the language where the locale does not name one; return an empty text when it does."""
        whole = merge_dotenv(self._environ, locate_home(self._environ).env_file)
        said = next((whole[name] for name in _LOCALE_VARIABLES if whole.get(name)), "")
        if said not in _NEUTRAL_LOCALES:
            return ""
        languages = (ENGLISH, CHINESE)
        chosen = languages[choose_option("Language / 语言", ["English", "中文"])]
        set_language(chosen)
        return chosen

    def _save_language(self, language: str) -> None:
        """Save a chosen language that is not the default."""
        home = locate_home(self._environ)
        if language == CHINESE and not home.find_foreign_file():
            home.ensure_exists()
            set_variables(home.env_file, {"HERMES_LANGUAGE": language})

    def _offer_import(self, old: ForeignHome) -> None:
        shown = preview_import(self._environ, old)
        if shown.empty:
            return
        _print_preview(shown)
        if ask_yes_no(tr("Take this over?")):
            _print_import_result(asyncio.run(import_home(self._environ, old, _print_progress)))

    def _agree_to_share(self) -> None:
        home = locate_home(self._environ)
        text = tr(
            "{home} is another program's home too. Keep Hermes' own files (hermes.db, search.db) beside them?",
            home=home.root,
        )
        if not ask_yes_no(text):
            raise ConfigError(N_("Nothing was changed."), N_("HERMES_HOME names another folder for Hermes."))
        asyncio.run(share_home(self._environ))

    def _wants_change(self, shown: Plain) -> bool:
        """Show the current setup and return whether the person wants to change it."""
        print("\n" + tr("This is set up:"))
        print("\n".join(format_current_model(shown)))
        wishes = [tr("Leave it so"), tr("Test it"), tr("Another model or provider"), *list_extras()]
        while True:
            wish = choose_option(tr("What now?"), wishes)
            if wish == 1:
                print(format_test_result(asyncio.run(probe_model(self._environ, ModelSelection()))))
            elif wish > 2:
                run_extra(self._environ, wish - 3)
            else:
                return wish == 2

    def _choose_provider(self) -> SetupSelection | None:
        """Ask for provider, key and model, where each question can go back to the one before."""
        while True:
            keys, servers = find_provider_keys(self._environ), asyncio.run(find_local_servers(self._servers))
            rows = _format_offers(keys, servers)
            rows += [tr("A provider for which I have a key"), tr("A server, by its address")]
            rows.append(tr("None yet: the small model that comes with Hermes answers"))
            at = choose_option(tr("Which provider?"), rows)
            if at == len(rows) - 1:
                return None
            with contextlib.suppress(WentBackError):
                if at < len(keys):
                    return self._choose_model(SetupRequest(provider=keys[at].provider))
                if at < len(keys) + len(servers):
                    server = servers[at - len(keys)]
                    return self._choose_model(SetupRequest(provider=server.provider, base_url=server.base_url))
                return self._choose_address() if at == len(rows) - 2 else self._choose_keyed_provider()

    def _choose_address(self) -> SetupSelection:
        """Ask for a server by its address, its key and its model."""
        while True:
            url = _ask_address()
            with contextlib.suppress(WentBackError):
                question = tr("API key (optional; not shown; Enter for none):")
                key = ask_secret(question, getpass.getpass, back=True)
                return self._choose_model(SetupRequest(base_url=url, api_key=key))

    def _choose_keyed_provider(self) -> SetupSelection:
        """Ask for a provider of the catalogue, its key and its model."""
        known = list_providers()
        while True:
            title = pick_name(tr("Which provider?"), [one.title for one in known], free=False, back=True)
            provider = next(one.name for one in known if one.title == title)
            with contextlib.suppress(WentBackError):
                return self._choose_with_key(SetupRequest(provider=provider))

    def _choose_with_key(self, request: SetupRequest) -> SetupSelection:
        """Ask for a key and a model; going back from the model leads to the key."""
        while True:
            keyed = structs.replace(request, api_key=self._ask_key(request.provider))
            with contextlib.suppress(WentBackError):
                return self._choose_model(keyed)

    def _ask_key(self, provider: str) -> str:
        variable = key_variable(provider)
        question = tr("The key (not shown; it goes into .env as {name}):", name=variable)
        while True:
            key = ask_secret(question, getpass.getpass, back=True)
            if key:
                return key

    def _choose_model(self, request: SetupRequest) -> SetupSelection:
        """Ask for a model of the provider's list; for another key as long as the provider refuses the one there is."""
        while True:
            choice = resolve_setup(self._environ, request)
            try:
                names = [one.name for one in asyncio.run(list_model_names(self._environ, choice.trial_selection))]
                break
            except KeyRefusedError as error:
                print_error(error.message)
                request = structs.replace(request, api_key=self._ask_key(choice.selection.provider), variable="")
            except ConfigError as error:
                print_error(format_error(error))
                names = []
                break
        model = names[0] if len(names) == 1 else pick_name(tr("Which model?"), names, back=True)
        return structs.replace(choice, selection=structs.replace(choice.selection, model=model))

    def _choose_and_save(self) -> int:
        """Ask for a model until one is kept, or none is wanted."""
        while True:
            choice = self._choose_provider()
            if choice is None:
                _print_next_steps(self._environ)
                return 0
            with contextlib.suppress(WentBackError):
                return self._test_and_save(choice)

    def _test_and_save(self, choice: SetupSelection) -> int:
        """Test the choice and save it. Raises WentBackError where another one is wanted."""
        is_sure = False
        while not self._given.no_test and not is_sure:
            print(tr("Testing {model} ...", model=escape_unseen_characters(choice.selection.model)), flush=True)
            result = asyncio.run(probe_model(self._environ, choice.trial_selection))
            print(format_test_result(result))
            if not result.problem:
                break
            if result.key_refused:
                choice = self._replace_key(choice)
                continue
            wishes = [
                tr("Try again"),
                tr("Another key"),
                tr("Another choice"),
                tr("Keep it anyway"),
                tr("Leave"),
            ]
            wish = choose_option(tr("What now?"), wishes)
            if wish == 1:
                with contextlib.suppress(WentBackError):
                    choice = self._replace_key(choice)
            elif wish == 2:
                raise WentBackError
            elif wish == 4:
                raise PromptAbortedError
            is_sure = wish == 3
        if not is_sure and not ask_yes_no(tr("Keep this choice?"), default=True):
            raise WentBackError
        _report_written(save_setup(self._environ, choice))
        offer_extras(self._environ)
        _print_next_steps(self._environ)
        return 0

    def _replace_key(self, choice: SetupSelection) -> SetupSelection:
        provider = choice.selection.provider
        return structs.replace(choice, api_key=self._ask_key(provider), variable=key_variable(provider))


def _ask_address() -> str:
    """Ask for the address of a server until it is one."""
    while True:
        typed = ask_line(tr("Base URL (usually ends in /v1):"), "http://127.0.0.1:8000/v1", back=True)
        url = normalize_address(typed)
        if url:
            return url
        print(tr("That is not an address. An address looks like http://HOST:PORT/v1."))


def _format_offers(keys: Sequence[FoundKey], servers: Sequence[LocalModelServer]) -> list[str]:
    """Format what was found, one line each."""
    rows = [tr("{provider} (key: {place})", provider=one.title, place=one.place) for one in keys]
    for server in servers:
        count = tr_plural("{n} model", "{n} models", len(server.models))
        rows.append(tr("{provider} at {url} ({models})", provider=server.title, url=server.base_url, models=count))
    return rows


def _load_current_model(environ: Mapping[str, str]) -> Plain | None:
    """Return the model that is set up; None when none is, or when it cannot be used, which is printed."""
    try:
        shown = asyncio.run(describe_current_model(environ))
    except ConfigError as error:
        if "config.yaml" in str(error):
            raise
        if get_setting(environ, "model")["source"] == "config.yaml":  # else nobody has chosen anything yet
            print_error(format_error(error))
        return None
    return None if shown["provider"] == "local" else shown


def _report_written(places: list[str]) -> None:
    for place in places:
        print(escape_unseen_characters(tr("Wrote {place}.", place=place)))
    if not places:
        print(tr("It is already set; nothing was written."))


def _print_next_steps(environ: Mapping[str, str]) -> None:
    print("\n" + tr("What next:"))
    print("  hermes                " + tr("talk with it; /help shows what it can do"))
    print('  hermes -z "..."       ' + tr("one task, only the answer printed"))
    print("  hermes gateway run    " + tr("answer on chat platforms; `hermes setup` shows the steps"))
    print("  hermes config list    " + tr("what is set; `hermes tools` for its tools"))
    if found := list_present_agents(environ):
        titles = ", ".join(agent.title for agent in found)
        print("  hermes import         " + tr("use what {titles} left here: commands, agents, skills", titles=titles))


def _print_preview(shown: ImportPreview) -> None:
    print("\n" + escape_unseen_characters(tr("A home of {title}: {root}", title=shown.title, root=shown.root)))
    if shown.empty:
        print("  " + tr("There is nothing to take over."))
    elif not shown.news:
        print("  " + tr("Nothing new, unless something was said in its sessions since."))
    rows = [
        (shown.sessions, tr_plural("{n} session", "{n} sessions", shown.sessions) + _format_size(shown)),
        (shown.known, tr_plural("{n} of them is here already", "{n} of them are here already", shown.known)),
        (shown.memory, tr_plural("{n} memory", "{n} memories", shown.memory)),
        (shown.user, tr_plural("{n} note about you", "{n} notes about you", shown.user)),
        (shown.identity, "SOUL.md"),
        (len(shown.skills), tr_plural("{n} skill", "{n} skills", len(shown.skills)) + _format_names(shown.skills)),
        (
            len(shown.settings),
            tr_plural("{n} setting", "{n} settings", len(shown.settings)) + _format_names(shown.settings),
        ),
        (len(shown.keys), tr("variables of its .env (copied into ours, not shown)") + _format_names(shown.keys)),
    ]
    for count, text in rows:
        if count:
            print("  + " + escape_unseen_characters(text))
    for one in shown.full:
        print("      " + escape_unseen_characters(f"{one.what}: {one.why}"))
    for one in shown.conflicts:
        print("  = " + escape_unseen_characters(f"{one.what}: {one.why}"))
    for one in shown.left:
        print("  - " + escape_unseen_characters(to_one_line(f"{one.what}: {one.why}", 200)))
    print(
        "  " + tr("Nothing is changed there. Text that reads like an instruction to the agent waits for your approval.")
    )


def _format_size(shown: ImportPreview) -> str:
    return ", " + tr("{n} messages, {size} bytes", n=format_number(shown.messages), size=format_compact(shown.bytes))


def _format_names(names: tuple[str, ...]) -> str:
    more = ", ..." if len(names) > _MAX_NAMES else ""
    return ": " + ", ".join(names[:_MAX_NAMES]) + more


def _print_import_result(taken: ImportResult) -> None:
    messages = tr_plural("{n} message", "{n} messages", taken.messages)
    known = tr_plural("{n} session was here already", "{n} sessions were here already", taken.known)
    rows = [
        (taken.sessions, tr_plural("{n} session", "{n} sessions", taken.sessions) + f", {messages}"),
        (taken.known, known),
        (taken.memories, tr_plural("{n} memory", "{n} memories", taken.memories)),
        (taken.skills, tr_plural("{n} skill", "{n} skills", taken.skills)),
        (taken.settings, tr_plural("{n} setting", "{n} settings", taken.settings)),
        (taken.keys, tr_plural("{n} variable", "{n} variables", taken.keys)),
        (taken.identity, "SOUL.md"),
    ]
    print(tr("Taken over:"))
    lines = [text for count, text in rows if count]
    for text in lines or [tr("nothing new")]:
        print("  " + text)
    if taken.waiting:
        waits = tr_plural("{n} change waits for your yes:", "{n} changes wait for your yes:", taken.waiting)
        print(f"{waits} `hermes memory pending`, `hermes skills pending`")
    for one in taken.left:
        print("  - " + escape_unseen_characters(to_one_line(f"{one.what}: {one.why}", 200)))


def _print_progress(done: int, whole: int) -> None:
    """Print now and then how far an import is, on a terminal only."""
    if sys.stderr.isatty() and (done % 50 == 0 or done == whole > 50):
        sys.stderr.write("\r" + tr("{n} of {whole} sessions", n=done, whole=whole) + ("\n" if done >= whole else ""))
        sys.stderr.flush()

"""`hermes model`: show the current model, choose another, list the models there are."""

import argparse
import asyncio
import json
from collections.abc import Mapping

from msgspec import structs

from hermes.admin.models.models import (
    ListedModel,
    ModelSelection,
    ModelTestResult,
    describe_current_model,
    describe_unlisted,
    list_model_names,
    probe_model,
    resolve_selection,
    save_selection,
)
from hermes.cli.output import EXIT_INTERRUPTED, format_error, print_error, report_failure
from hermes.cli.parser import CommandParser
from hermes.cli.plain.menu import PromptAbortedError, ask_yes_no, is_interactive, pick_name
from hermes.config.environment import copy_environment
from hermes.core.encoding import Plain, to_plain
from hermes.core.errors import ConfigError, HermesError
from hermes.i18n.formats import format_number
from hermes.i18n.messages import localize, tr
from hermes.markup.cells import pad_text
from hermes.util.text import escape_unseen_characters


def run(arguments: list[str]) -> int:
    """Show, choose or list."""
    parser = _build_parser()
    args = parser.parse_arguments(arguments, mixed=True)
    _read_action(parser, args)
    if args.listing is not None and args.name:
        parser.error("--list takes a provider, not a model")
    try:
        return asyncio.run(_run_verb(args, copy_environment()))
    except HermesError as error:
        return report_failure(error)
    except (PromptAbortedError, KeyboardInterrupt):
        print("\n" + tr("Nothing was changed."))
        return EXIT_INTERRUPTED


def _build_parser() -> CommandParser:
    made = CommandParser(
        prog="hermes model",
        description="Show the model that answers, or choose another. Without arguments on a terminal it asks.",
        epilog="example: hermes model qwen3:8b --provider ollama --test",
    )
    made.add_argument(
        "words",
        nargs="*",
        metavar="NAME",
        help="the model; or `show`, `set NAME`, `list [PROVIDER]`, `test [NAME]`, `refresh [PROVIDER ...]`",
    )
    made.add_argument("--provider", default="", metavar="P", help="its provider, such as openrouter or ollama")
    made.add_argument("--base-url", default="", metavar="U", help="where the provider is")
    made.add_argument("--test", action="store_true", help="make one small call first; nothing is kept when it fails")
    made.add_argument(
        "--list", nargs="?", const="", default=None, dest="listing", metavar="PROVIDER", help="the models there are"
    )
    made.add_argument(
        "--from", default="", dest="source", metavar="U", help="where `refresh` reads, instead of models.dev"
    )
    made.add_argument("--own", action="store_true", help="`refresh` asks the providers for their own lists")
    made.add_argument("--yes", action="store_true", help="keep what `refresh` found without asking")
    made.add_argument("--json", action="store_true", dest="as_json", help="print JSON")
    return made


_ACTIONS = ("list", "test", "refresh", "show", "set")
"""Words that stand for no model."""
_SAME_ACTIONS = {"ls": "list", "get": "show", "current": "show", "status": "show", "use": "set", "switch": "set"}
"""Words that people type for them."""


def _read_action(parser: CommandParser, args: argparse.Namespace) -> None:
    """Read the words: a model's name, or what is to be done and to whom."""
    first = next(iter(args.words), "")
    if known := parser.explain_foreign_word(first):
        parser.error(known)
    first = _SAME_ACTIONS.get(first, first)
    args.action = first if first in _ACTIONS else ""
    args.rest = args.words[1:] if args.action else args.words
    args.name = next(iter(args.rest), "")
    _check_action(parser, args)
    if args.action == "list" and args.listing is None:
        args.listing, args.name = args.name, ""


def _check_action(parser: CommandParser, args: argparse.Namespace) -> None:
    """Refuse options and names that do not belong to the action."""
    refreshing = args.action == "refresh"
    if not refreshing and any((args.source, args.own, args.yes)):
        parser.error("--from, --own and --yes belong to `hermes model refresh`")
    if (not refreshing and len(args.rest) > 1) or (args.action == "set" and not args.name):
        parser.error("give one name")
    if args.action == "show" and args.name:
        parser.error("show takes no name")
    if args.source and args.own:
        parser.error("give --from or --own, not both")


async def _run_verb(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    if args.action == "refresh":
        from hermes.cli.commands.model_refresh import refresh_models

        return await refresh_models(environ, args)
    if args.listing is not None:
        from hermes.cli.commands.model_refresh import tell_model_file

        tell_model_file(environ)
        where = ModelSelection(provider=args.listing or args.provider, base_url=args.base_url)
        return _print_models(await list_model_names(environ, where), as_json=args.as_json)
    wanted = ModelSelection(model=args.name, provider=args.provider, base_url=args.base_url)
    if args.action == "test":
        return await _test_only(environ, wanted, as_json=args.as_json)
    if wanted == ModelSelection():
        return await _show_current(environ, args)
    if not wanted.model:
        wanted = await _complete_choice(environ, wanted)
    return await _save_choice(environ, wanted, args)


async def _test_only(environ: Mapping[str, str], wanted: ModelSelection, *, as_json: bool) -> int:
    result = await probe_model(environ, wanted)
    if as_json and not result.problem:
        print(json.dumps(to_plain(result), ensure_ascii=False))
    return _report_test(result, as_json=as_json)


async def _show_current(environ: Mapping[str, str], args: argparse.Namespace) -> int:
    asked = is_interactive() and not args.as_json and args.action != "show"
    shown = await describe_current_model(environ, ask=True)
    print(json.dumps(shown, ensure_ascii=False) if args.as_json else "\n".join(format_current_model(shown)))
    if args.test:
        return _report_test(await probe_model(environ, ModelSelection()), as_json=args.as_json)
    return await _choose_interactively(environ, shown) if asked else 0


async def _save_choice(environ: Mapping[str, str], wanted: ModelSelection, args: argparse.Namespace) -> int:
    resolve_selection(environ, wanted)
    if args.test:
        result = await probe_model(environ, wanted)
        if _report_test(result, as_json=args.as_json):
            print_error(tr("Nothing was changed."))
            return 1
    changed = save_selection(environ, wanted)
    shown = await describe_current_model(environ)
    if args.as_json:
        print(json.dumps({**shown, "changed": changed}, ensure_ascii=False))
    else:
        print("\n".join(format_current_model(shown)))
        print(tr("Kept in config.yaml: {keys}.", keys=", ".join(changed)) if changed else tr("It is already set."))
    if not args.test and (said := await describe_unlisted(environ, wanted)):
        print_error(said)
    return 0


async def _complete_choice(environ: Mapping[str, str], wanted: ModelSelection) -> ModelSelection:
    """Add the model when only a provider was named: ask for it, or take the provider's default."""
    try:
        return structs.replace(wanted, model=resolve_selection(environ, wanted).model)
    except ConfigError:
        if not is_interactive():
            raise
    names = [one.name for one in await list_model_names(environ, wanted)]
    return structs.replace(wanted, model=pick_name(tr("Which model?"), names))


async def _choose_interactively(environ: Mapping[str, str], shown: Plain) -> int:
    """Let the person at the terminal choose another model of the same provider."""
    if shown["provider"] == "local":
        print(tr("`hermes setup` chooses a provider."))
        return 0
    try:
        names = [one.name for one in await list_model_names(environ, ModelSelection())]
    except ConfigError as error:
        print_error(format_error(error))
        return 0
    name = pick_name(tr("Which model? Enter keeps this one."), names, default=str(shown["model"]))
    if name == shown["model"]:
        return 0
    wanted = ModelSelection(model=name)
    failed_test = ask_yes_no(tr("Try it with one small call?"), default=True) and _report_test(
        await probe_model(environ, wanted)
    )
    if failed_test and not ask_yes_no(tr("Keep it anyway?")):
        return 1
    changed = save_selection(environ, wanted)
    print(tr("Kept in config.yaml: {keys}.", keys=", ".join(changed)))
    return 0


def format_current_model(shown: Plain) -> list[str]:
    """Format the current model in a few lines."""
    sources = shown["sources"]
    assert isinstance(sources, dict)
    place = f" ({shown['base_url']})" if shown["base_url"] else ""
    window = shown["context_length"]
    tokens = tr("{n} tokens", n=format_number(window)) if isinstance(window, int) else tr("unknown")
    rows = [
        (tr("model"), f"{shown['model']}", sources.get("model")),
        (tr("provider"), f"{localize(str(shown['title']))}{place}", sources.get("provider")),
        (tr("key"), str(sources.get("key", tr("none needed"))), None),
        (tr("window"), tokens, None),
        (tr("price"), _format_price(shown), None),
    ]
    return [
        escape_unseen_characters(f"{pad_text(name, 10)} {value}" + (f"   [{why}]" if why else ""))
        for name, value, why in rows
    ]


def _format_price(shown: Plain) -> str:
    price = shown["price"]
    if shown["free"]:
        return tr("nothing")
    if not isinstance(price, dict):
        return tr("unknown; `prices` in config.yaml can name it")
    return tr("${input} in, ${output} out, a million tokens", input=price["input"], output=price["output"])


def _report_test(result: ModelTestResult, *, as_json: bool = False) -> int:
    if as_json and result.problem:
        print(json.dumps(to_plain(result), ensure_ascii=False))
    elif not as_json:
        print(format_test_result(result))
    return 1 if result.problem else 0


def format_test_result(result: ModelTestResult) -> str:
    """Format the result of a test call on one line."""
    seconds = f"{result.seconds:.1f}"
    if result.problem:
        return escape_unseen_characters(
            tr("The test failed after {n} s: {why}", n=seconds, why=f"{result.problem} {result.hint}".strip())
        )
    cost = escape_unseen_characters(result.cost)
    return tr("It answered in {n} s. Cost: {cost}.", n=seconds, cost=cost)


def _print_models(found: list[ListedModel], *, as_json: bool) -> int:
    if as_json:
        print(json.dumps(to_plain(found), ensure_ascii=False))
        return 0
    for one in found:
        window = format_number(one.context_length) if one.context_length else ""
        price = f"${one.input:g}/{one.output:g}" if one.input is not None and one.output is not None else ""
        print(escape_unseen_characters(f"{one.name:<48} {window:>10} {price}".rstrip()))
    if not found:
        print(tr("It names no models."))
    return 0

"""`hermes model`: the model that answers: show it, choose another, list what there is."""

import argparse
import asyncio
import json
from collections.abc import Mapping

from msgspec import structs, to_builtins

from hermes.admin.models.models import (
    ListedModel,
    ModelSelection,
    ModelTestResult,
    describe_current_model,
    list_model_names,
    probe_model,
    resolve_selection,
    save_selection,
)
from hermes.cli.arguments import Parser
from hermes.cli.errors import complain, explained, failed
from hermes.cli.plain.menu import LeftError, at_a_terminal, pick, yes_no
from hermes.config.environment import process_environment
from hermes.core.errors import ConfigError, HermesError
from hermes.i18n.formats import number
from hermes.i18n.messages import say, translated
from hermes.markup.charts import pad_right
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import escaped

STOPPED = 130


def run(arguments: list[str]) -> int:
    """Show, choose or list."""
    parser = _parser()
    given = parser.read(arguments)
    if given.listing is not None and given.name:
        parser.error("--list takes a provider, not a model")
    try:
        return asyncio.run(_run(given, process_environment()))
    except HermesError as error:
        return failed(error)
    except (LeftError, KeyboardInterrupt):
        print("\n" + say("Nothing was changed."))
        return STOPPED


def _parser() -> Parser:
    made = Parser(
        prog="hermes model",
        description="Show the model that answers, or choose another. Without arguments on a terminal it asks.",
        epilog="example: hermes model qwen3:8b --provider ollama --test",
    )
    made.add_argument("name", nargs="?", default="", help="the model, as its provider writes it")
    made.add_argument("--provider", default="", metavar="P", help="who serves it, such as openrouter or ollama")
    made.add_argument("--base-url", default="", metavar="U", help="where the provider is")
    made.add_argument("--test", action="store_true", help="make one small call first; nothing is kept when it fails")
    made.add_argument(
        "--list", nargs="?", const="", default=None, dest="listing", metavar="PROVIDER", help="the models there are"
    )
    made.add_argument("--json", action="store_true", dest="as_json", help="print JSON")
    return made


async def _run(given: argparse.Namespace, environ: Mapping[str, str]) -> int:
    if given.listing is not None:
        where = ModelSelection(provider=given.listing or given.provider, base_url=given.base_url)
        return _list(await list_model_names(environ, where), as_json=given.as_json)
    wanted = ModelSelection(model=given.name, provider=given.provider, base_url=given.base_url)
    if wanted == ModelSelection():
        asked = at_a_terminal() and not given.as_json
        shown = await describe_current_model(environ, ask=True)
        print(json.dumps(shown, ensure_ascii=False) if given.as_json else "\n".join(about(shown)))
        if given.test:
            result = await probe_model(environ, wanted)
            return _tested(result, as_json=given.as_json)
        return await _chosen(environ, shown) if asked else 0
    if not wanted.model:
        wanted = await _named(environ, wanted)
    return await _kept(environ, wanted, given)


async def _kept(environ: Mapping[str, str], wanted: ModelSelection, given: argparse.Namespace) -> int:
    resolve_selection(environ, wanted)
    if given.test:
        result = await probe_model(environ, wanted)
        if _tested(result, as_json=given.as_json):
            complain(say("Nothing was changed."))
            return 1
    changed = save_selection(environ, wanted)
    shown = await describe_current_model(environ)
    if given.as_json:
        print(json.dumps({**shown, "changed": changed}, ensure_ascii=False))
        return 0
    print("\n".join(about(shown)))
    print(say("Kept in config.yaml: {keys}.", keys=", ".join(changed)) if changed else say("It was so already."))
    return 0


async def _named(environ: Mapping[str, str], wanted: ModelSelection) -> ModelSelection:
    """The choice with a model, when only a provider was named: asked for, or the provider's own."""
    try:
        return structs.replace(wanted, model=resolve_selection(environ, wanted).model)
    except ConfigError:
        if not at_a_terminal():
            raise
    names = [one.name for one in await list_model_names(environ, wanted)]
    return structs.replace(wanted, model=pick(say("Which model?"), names))


async def _chosen(environ: Mapping[str, str], shown: Plain) -> int:
    """Let the person at the terminal choose another model of the same provider."""
    if shown["provider"] == "local":
        print(say("`hermes setup` chooses a provider."))
        return 0
    try:
        names = [one.name for one in await list_model_names(environ, ModelSelection())]
    except ConfigError as error:
        complain(explained(error))
        return 0
    name = pick(say("Which model? Enter keeps this one."), names, default=str(shown["model"]))
    if name == shown["model"]:
        return 0
    wanted = ModelSelection(model=name)
    failed_test = yes_no(say("Try it with one small call?"), default=True) and _tested(
        await probe_model(environ, wanted)
    )
    if failed_test and not yes_no(say("Keep it all the same?")):
        return 1
    changed = save_selection(environ, wanted)
    print(say("Kept in config.yaml: {keys}.", keys=", ".join(changed)))
    return 0


def about(shown: Plain) -> list[str]:
    """The model in a few lines."""
    sources = shown["sources"]
    assert isinstance(sources, dict)
    place = f" ({shown['base_url']})" if shown["base_url"] else ""
    window = shown["context_length"]
    tokens = say("{n} tokens", n=number(window)) if isinstance(window, int) else say("unknown")
    rows = [
        (say("model"), f"{shown['model']}", sources.get("model")),
        (say("provider"), f"{translated(str(shown['title']))}{place}", sources.get("provider")),
        (say("key"), str(sources.get("key", say("none needed"))), None),
        (say("window"), tokens, None),
        (say("price"), _price(shown), None),
    ]
    return [escaped(f"{pad_right(name, 10)} {value}" + (f"   [{why}]" if why else "")) for name, value, why in rows]


def _price(shown: Plain) -> str:
    price = shown["price"]
    if shown["free"]:
        return say("nothing")
    if not isinstance(price, dict):
        return say("unknown; `prices` in config.yaml can name it")
    return say("${input} in, ${output} out, a million tokens", input=price["input"], output=price["output"])


def _tested(result: ModelTestResult, *, as_json: bool = False) -> int:
    if as_json and result.problem:
        print(json.dumps(to_builtins(result), ensure_ascii=False))
    elif not as_json:
        print(test_line(result))
    return 1 if result.problem else 0


def test_line(result: ModelTestResult) -> str:
    """What came of a test call, on one line."""
    seconds = f"{result.seconds:.1f}"
    if result.problem:
        return escaped(
            say("The test failed after {n} s: {why}", n=seconds, why=f"{result.problem} {result.hint}".strip())
        )
    cost = escaped(result.cost)
    return say("It answered in {n} s. Cost: {cost}.", n=seconds, cost=cost)


def _list(found: list[ListedModel], *, as_json: bool) -> int:
    if as_json:
        print(json.dumps(to_builtins(found), ensure_ascii=False))
        return 0
    for one in found:
        print(escaped(f"{one.name:<48} {number(one.context_length) if one.context_length else ''}".rstrip()))
    if not found:
        print(say("It names no models."))
    return 0

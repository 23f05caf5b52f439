"""`hermes prompt-size`: what every request begins with, part by part."""

import asyncio

import msgspec

from hermes.cli.errors import complain, failed
from hermes.cli.options import app_options, parser
from hermes.config.environment import process_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import say, translated
from hermes.markup.charts import fit_text
from hermes.markup.charts import text_width as cells
from hermes.sessions.app import App
from hermes.sessions.system_prompt import PromptPartSize


def run(arguments: list[str]) -> int:
    """Show the parts of the prompt and the tools that a session begun here would send with each request."""
    made = parser("hermes prompt-size")
    made.description = say(
        "Show how large each part is that every request begins with: the prompt's parts and the tools."
    )
    made.epilog = say("example: hermes prompt-size -t file,terminal")
    made.add_argument("--json", action="store_true", help="as JSON")
    given = made.read(arguments)
    try:
        found, notices = asyncio.run(_sizes(App(process_environment(), app_options(given))))
    except HermesError as error:
        return failed(error)
    for line in notices:
        complain(line)
    if given.json:
        rows = [{"part": size.part, "bytes": size.bytes, "tokens": size.estimated_tokens} for size in found]
        print(msgspec.json.encode(rows).decode())
        return 0
    total = PromptPartSize(say("all of it"), sum(size.bytes for size in found))
    width = max(cells(translated(size.part)) for size in (*found, total))
    print(f"{fit_text(say('part'), width)}  {say('bytes'):>8}  {say('tokens, about'):>13}")
    for size in (*found, total):
        print(f"{fit_text(translated(size.part), width)}  {size.bytes:>8,}  {size.estimated_tokens:>13,}")
    return 0


async def _sizes(app: App) -> tuple[list[PromptPartSize], list[str]]:
    async with app:
        actor = await app.open_session()
        return app.measure_prompt(actor), app.notices

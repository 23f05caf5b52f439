"""`hermes prompt-size`: show the size of each part that every request begins with."""

import asyncio

from hermes.cli.chat_options import build_app_options, build_chat_parser
from hermes.cli.output import print_error, report_failure
from hermes.config.environment import copy_environment
from hermes.core.encoding import to_json
from hermes.core.errors import HermesError
from hermes.i18n.messages import localize, tr
from hermes.markup.cells import fit_text
from hermes.markup.cells import measure_width as cells
from hermes.sessions.app import App
from hermes.sessions.epoch_frame import PromptPartSize


def run(arguments: list[str]) -> int:
    """Print the sizes of the prompt's parts and of the tools that a session opened here
    would send with each request.
    """
    made = build_chat_parser("hermes prompt-size", is_chat=False)
    made.description = tr(
        "Show how large each part is that every request begins with: the prompt's parts and the tools."
    )
    made.epilog = tr("example: hermes prompt-size -t file,terminal")
    made.add_argument("--json", action="store_true", help="as JSON")
    args = made.parse_arguments(arguments)
    try:
        found, notices = asyncio.run(_measure_parts(App(copy_environment(), build_app_options(args))))
    except HermesError as error:
        return report_failure(error)
    for line in notices:
        print_error(line)
    if args.json:
        rows = [{"part": size.part, "bytes": size.bytes, "tokens": size.estimated_tokens} for size in found]
        print(to_json(rows).decode())
        return 0
    total = PromptPartSize(tr("all of it"), sum(size.bytes for size in found))
    width = max(cells(localize(size.part)) for size in (*found, total))
    print(f"{fit_text(tr('part'), width)}  {tr('bytes'):>8}  {tr('tokens, about'):>13}")
    for size in (*found, total):
        print(f"{fit_text(localize(size.part), width)}  {size.bytes:>8,}  {size.estimated_tokens:>13,}")
    return 0


async def _measure_parts(app: App) -> tuple[list[PromptPartSize], list[str]]:
    async with app:
        actor = await app.open_session()
        return app.measure_prompt(actor), app.notices

"""`hermes model refresh`, and what `hermes model list` says of the list that was taken over."""

import argparse
import json
import time
from collections.abc import Mapping

from hermes.admin.models.refresh import (
    STALE_DAYS,
    RefreshPlan,
    count_days,
    describe_change,
    plan_refresh,
    read_model_file,
    save_refresh,
)
from hermes.cli.output import print_error
from hermes.cli.plain.menu import ask_yes_no, is_interactive
from hermes.config.home import locate_home
from hermes.core.encoding import to_plain
from hermes.i18n.formats import format_number
from hermes.i18n.messages import tr
from hermes.util.text import escape_unseen_characters


async def refresh_models(environ: Mapping[str, str], args: argparse.Namespace) -> int:
    """Show what a list would change about windows and prices, and keep it after a yes."""
    plan = await plan_refresh(environ, args.rest, url=args.source, own=args.own)
    if plan.skipped:
        print_error(tr("{n} entries of the list say nothing that is understood.", n=format_number(plan.skipped)))
    if args.as_json:
        file = save_refresh(environ, plan) if plan.changes and args.yes else ""
        print(json.dumps({"changes": to_plain(plan.changes), "source": plan.source, "file": file}, ensure_ascii=False))
        return 0 if file or not plan.changes else 1
    for one in plan.changes:
        print(escape_unseen_characters(describe_change(one)))
    if not plan.changes:
        print(tr("There is nothing new."))
        return 0
    if not args.yes and not _ask(plan):
        print(tr("Nothing was changed."))
        return 1
    print(tr("Kept in {file}.", file=save_refresh(environ, plan)))
    return 0


def _ask(plan: RefreshPlan) -> bool:
    return is_interactive() and ask_yes_no(tr("Keep these {n} changes?", n=format_number(len(plan.changes))))


def tell_model_file(environ: Mapping[str, str]) -> None:
    """Name the list that windows and prices were taken over from, and say when it has become old."""
    file = read_model_file(locate_home(environ))
    if file is None:
        return
    days = count_days(file, time.time())
    print_error(tr("Windows and prices: also from {source}, {date}.", source=file.source, date=file.as_of))
    if days > STALE_DAYS:
        print_error(tr("That is {n} days ago; `hermes model refresh` reads it again.", n=format_number(days)))

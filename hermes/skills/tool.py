"""The tools about skills. What the model writes waits for a person's yes, unless the settings say otherwise."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from hermes.core.errors import HermesError, ToolError
from hermes.skills.catalogue import Skill, Tier
from hermes.skills.command import provenance
from hermes.skills.files import MAIN, Files, as_text, check_own
from hermes.skills.section import described
from hermes.skills.skill import parted, with_category
from hermes.skills.skills import Change, Skills
from hermes.store.revisions import Author
from hermes.tools.edits import replace_text
from hermes.tools.session import ToolContext
from hermes.tools.tool import Parallel, Tool, ToolOutput, tool
from hermes.util.text import escaped

_DESCRIPTION = 300
_MOST_LISTED = 200

Action = Literal["create", "patch", "edit", "delete", "write_file", "remove_file"]


class Manage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `skill_manage` takes."""

    action: Annotated[Action, Meta(description="edit: whole SKILL.md; patch: a text in it.")]
    name: Annotated[str, Meta(description="a-z, 0-9, hyphens.")]
    content: Annotated[str, Meta(description="SKILL.md: --- name, description --- steps.")] = ""
    old_string: Annotated[str, Meta(description="Stands there once (patch).")] = ""
    new_string: Annotated[str, Meta(description="In its place (patch).")] = ""
    replace_all: Annotated[bool, Meta(description="Every place (patch).")] = False
    category: str = ""
    file_path: Annotated[str, Meta(description="In references/, templates/, assets/, scripts/.")] = ""
    file_content: Annotated[str, Meta(description="Its text (write_file).")] = ""
    absorbed_into: str = ""
    reason: Annotated[str, Meta(description="What showed the need.")] = ""


def skill_tools(skills: Skills, *, writes: bool, automatic: bool) -> tuple[Tool, ...]:
    """The tools over these skills. `writes`: changes may be proposed; `automatic`: they need no yes as long as no
    text from strangers stands in the conversation."""
    reading = (_list_tool(skills), _view_tool(skills))
    return (*reading, _manage_tool(skills, automatic=automatic)) if writes else reading


def _list_tool(skills: Skills) -> Tool:
    @tool("skills", parallel=Parallel.SAFE, repeatable=True, summary=lambda args: "list skills")
    async def skills_list(ctx: ToolContext, category: Annotated[str, "Only these; empty: all."] = "") -> str:
        """List skills and what they are for."""
        return escaped(_listed(await asyncio.to_thread(skills.catalogue.all), category))

    return skills_list


def _listed(skills: Sequence[Skill], category: str) -> str:
    found = [one for one in skills if one.usable]
    known = ", ".join(sorted({_category(one) for one in found}))
    wanted = [one for one in found if category in ("", _category(one))]
    if not wanted:
        return f"There is no skill here. Categories: {known or 'none'}."
    left = len(wanted) - _MOST_LISTED
    rest = f"[{left} more; give a category: {known}]" if left > 0 else ""
    return "\n".join(filter(None, [*map(_line, wanted[:_MOST_LISTED]), rest]))


def _category(skill: Skill) -> str:
    return (skill.category if skill.vouched else "") or "other"


def _line(skill: Skill) -> str:
    if not skill.vouched:  # all else of its head is a stranger's words, and this list stands in no fence
        return f"{skill.name}: {described(skill, _DESCRIPTION)}"
    missing = f" [cannot be used here, it lacks: {', '.join(skill.missing)}]" if skill.missing else ""
    return f"{skill.name} ({_category(skill)}): {described(skill, _DESCRIPTION)}{missing}"


def _view_tool(skills: Skills) -> Tool:
    @tool("skills", parallel=Parallel.SAFE, repeatable=True, summary=lambda args: f"read skill {args.get('name')}")
    async def skill_view(
        ctx: ToolContext,
        name: Annotated[str, "The skill."],
        file_path: Annotated[str, "One of its other files."] = "",
    ) -> ToolOutput:
        """Read a skill's instructions, or a file of it."""
        try:
            skill = await skills.find(name)
        except HermesError as error:
            raise ToolError(str(error)) from None
        try:
            text = await skills.text(name, file_path or MAIN)
            files = [path for path in await skills.files(name) if path != MAIN]
        except HermesError as error:  # it may quote the name of a file
            why = str(error) if skill.vouched else f"That cannot be read; `hermes skills view {skill.name}` says why."
            raise ToolError(why) from None
        if not file_path:
            await skills.used(name)
            said = [f"[It lacks here: {', '.join(skill.missing)}.]"] if skill.missing else []
            said += [f"[Its other files, in {skill.folder}: {', '.join(files)}]"] if files else []
            text = "\n".join([parted(text)[1], *said])
        return ToolOutput(text=text, provenance=provenance(skill))

    return skill_view


def _manage_tool(skills: Skills, *, automatic: bool) -> Tool:
    @tool("skills", housekeeping=True, summary=lambda args: f"{args.get('action')} skill {args.get('name')}")
    async def skill_manage(ctx: ToolContext, change: Manage) -> str:
        """Keep what you learned as a skill, or mend one. The person may have to approve it first."""
        sources = ctx.state.taint.list_sources()
        try:
            base = await skills.base(change.name, ctx.session_id)
            after = await asyncio.to_thread(_changed, ctx, change, base)
            if after is None:
                await _check_deleted(skills, change)
            revision_id = await skills.propose(
                Change(change.name, after),
                author=Author.MODEL,
                reason=_reason(change),
                sources=sources,
                session_id=ctx.session_id,
            )
            if automatic and not (await skills.revision(revision_id)).sources:  # those that it builds on count too
                await skills.apply(revision_id, "automatic")
                return f"Done (change {revision_id} of {change.name}). It counts from the next session on."
        except HermesError as error:
            raise ToolError(str(error)) from None
        return (
            f"Proposed as change {revision_id} of {change.name}. It is not in effect: the person decides"
            f" (`hermes skills diff {revision_id}`, then approve or reject). Go on without it, and tell them of it."
        )

    return skill_manage


async def _check_deleted(skills: Skills, change: Manage) -> None:
    skill = next((one for one in await asyncio.to_thread(skills.catalogue.all) if one.name == change.name), None)
    if skill is not None and skill.tier is not Tier.OWN:
        raise ToolError(f"{change.name} is {skill.tier} and cannot be deleted; the person can name it in"
                        " `skills.disabled`.")  # fmt: skip


def _reason(change: Manage) -> str:
    into = f"absorbed into {change.absorbed_into[:64]}" if change.absorbed_into else ""
    return "; ".join(filter(None, (f"{change.action}: {change.reason}" if change.reason else change.action, into)))


def _changed(ctx: ToolContext, change: Manage, base: Files | None) -> Files | None:
    """The skill as it is to stand. Raises HermesError."""
    for text in (change.content, change.new_string, change.file_content):
        if ctx.redact(text) != text:
            raise ToolError(
                "It holds what looks like a key or password. Leave it out; name the variable that holds it."
            )
    if change.action == "create":
        if base is not None:
            raise ToolError(f"There is a skill {change.name} already: patch it, or edit it.")
        content = ctx.restore_secrets(change.content, "")
        return {MAIN: _ended(with_category(content, change.category)).encode()}
    if base is None:
        raise ToolError(f"There is no skill {change.name[:80]!r}. skills_list names them; action create makes one.")
    return _ACTIONS[change.action](ctx, change, dict(base))


def _edited(ctx: ToolContext, change: Manage, files: dict[str, bytes]) -> Files | None:
    return {**files, MAIN: _ended(ctx.restore_secrets(change.content, _old(files, MAIN))).encode()}


def _patched(ctx: ToolContext, change: Manage, files: dict[str, bytes]) -> Files | None:
    path = MAIN if change.file_path in ("", MAIN) else check_own(change.file_path)
    if path not in files:
        raise ToolError(f"{change.name} has no file {path}. It has: {', '.join(sorted(files))}.")
    old = _old(files, path)
    new = ctx.restore_secrets(change.new_string, old)
    text, _ = replace_text(
        old, ctx.restore_secrets(change.old_string, old), new, everywhere=change.replace_all, display_path=path
    )
    return {**files, path: text.encode()}


def _deleted(ctx: ToolContext, change: Manage, files: dict[str, bytes]) -> Files | None:
    return None


def _with_file(ctx: ToolContext, change: Manage, files: dict[str, bytes]) -> Files | None:
    path = check_own(change.file_path)
    old = _old(files, path) if path in files else ""
    return {**files, path: ctx.restore_secrets(change.file_content, old).encode()}


def _without_file(ctx: ToolContext, change: Manage, files: dict[str, bytes]) -> Files | None:
    if files.pop(check_own(change.file_path), None) is None:
        raise ToolError(f"{change.name} has no file {change.file_path}. It has: {', '.join(sorted(files))}.")
    return files


def _old(files: Files, path: str) -> str:
    text = as_text(files[path])
    if text is None:
        raise ToolError(f"{path} is no text.")
    return text


def _ended(text: str) -> str:
    return text.rstrip() + "\n"


_ACTIONS: dict[str, Callable[[ToolContext, Manage, dict[str, bytes]], Files | None]] = {
    "edit": _edited,
    "patch": _patched,
    "delete": _deleted,
    "write_file": _with_file,
    "remove_file": _without_file,
}

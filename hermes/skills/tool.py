"""The tools about skills. What the model writes waits for approval, unless the settings say otherwise.

The message form `/name what to do`: a skill that the user asks for by its name, attached to their message.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from hermes.core.errors import HermesError, ToolError
from hermes.core.messages import Provenance, Source, TextPart
from hermes.safety.fencing import fence_untrusted_text
from hermes.skills.catalog import Skill, SkillTier, add_category, split_head
from hermes.skills.files import MAIN_FILE, Files, check_extra_path, decode_text
from hermes.skills.section import SKILL_MARK, describe_skill
from hermes.skills.skill_library import SkillChange, SkillLibrary
from hermes.store.revisions import RevisionAuthor
from hermes.tools.edits import replace_text
from hermes.tools.session import ToolContext
from hermes.tools.taint import name_source
from hermes.tools.tool import Parallel, Tool, ToolOutput, tool
from hermes.util.text import escape_unseen_characters

_COMMAND = re.compile(r"/([a-z0-9]+(?:-[a-z0-9]+)*)(?=\s|\Z)")


def parse_skill_name(text: str) -> str:
    """Return the skill name that a message begins with as a command; empty when there is none. A path has a second
    slash.
    """
    match = _COMMAND.match(text)
    return match[1] if match else ""


def build_skill_part(skill: Skill, body: str) -> TextPart:
    """Build the part of the user's message with the skill's instructions; those of an untrusted skill are fenced."""
    origin = skill_provenance(skill)
    missing = f"\n[It lacks here: {', '.join(skill.missing)}.]" if skill.missing else ""
    text = f"{body}{missing}\n[Its other files lie in {skill.folder}.]"
    return TextPart(
        f"{SKILL_MARK.format(name=skill.name)}\n{fence_untrusted_text(text, origin) if origin.is_untrusted else text}",
        origin,
    )


def skill_provenance(skill: Skill) -> Provenance:
    """Return the provenance of a skill's text."""
    if skill.trusted:
        return Provenance(Source.FILE, f"skill {skill.name}", vouched=True)
    return Provenance(Source.OTHER, name_source(Source.FILE, skill.folder))


_MAX_DESCRIPTION = 300
_MOST_LISTED = 200

Action = Literal["create", "patch", "edit", "delete", "write_file", "remove_file"]


class SkillManageParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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


def build_skill_tools(skills: SkillLibrary, *, writes: bool, automatic: bool) -> tuple[Tool, ...]:
    """Build the tools over these skills.

    `writes`: changes may be proposed; `automatic`: they need no approval as long as no untrusted content
    stands in the conversation.
    """
    reading = (_build_list_tool(skills), _build_view_tool(skills))
    return (*reading, _build_manage_tool(skills, automatic=automatic)) if writes else reading


def _build_list_tool(skills: SkillLibrary) -> Tool:
    @tool("skills", parallel=Parallel.SAFE, repeatable=True, summary=lambda args: "list skills")
    async def skills_list(ctx: ToolContext, category: Annotated[str, "Only these; empty: all."] = "") -> str:
        """List skills and what they are for."""
        return escape_unseen_characters(_format_skills(await asyncio.to_thread(skills.catalog.list_all), category))

    return skills_list


def _format_skills(skills: Sequence[Skill], category: str) -> str:
    found = [one for one in skills if one.is_usable]
    known = ", ".join(sorted({_display_category(one) for one in found}))
    wanted = [one for one in found if category in ("", _display_category(one))]
    if not wanted:
        return f"There is no skill here. Categories: {known or 'none'}."
    left = len(wanted) - _MOST_LISTED
    rest = f"[{left} more; give a category: {known}]" if left > 0 else ""
    return "\n".join(filter(None, [*map(_format_skill, wanted[:_MOST_LISTED]), rest]))


def _display_category(skill: Skill) -> str:
    return (skill.category if skill.trusted else "") or "other"


def _format_skill(skill: Skill) -> str:
    if not skill.trusted:  # the rest of its head is untrusted content, and this list has no fence
        return f"{skill.name}: {describe_skill(skill, _MAX_DESCRIPTION)}"
    missing = f" [cannot be used here, it lacks: {', '.join(skill.missing)}]" if skill.missing else ""
    return f"{skill.name} ({_display_category(skill)}): {describe_skill(skill, _MAX_DESCRIPTION)}{missing}"


def _build_view_tool(skills: SkillLibrary) -> Tool:
    @tool("skills", parallel=Parallel.SAFE, repeatable=True, summary=lambda args: f"read skill {args.get('name')}")
    async def skill_view(
        ctx: ToolContext,
        name: Annotated[str, "The skill."],
        file_path: Annotated[str, "One of its other files."] = "",
    ) -> ToolOutput:
        """Read a skill's instructions, or a file of it."""
        try:
            skill = await skills.find_skill(name)
        except HermesError as error:
            raise ToolError(str(error)) from None
        try:
            text = await skills.read_text(name, file_path or MAIN_FILE)
            files = [path for path in await skills.list_files(name) if path != MAIN_FILE]
        except HermesError as error:  # it may quote the name of a file
            why = str(error) if skill.trusted else f"That cannot be read; `hermes skills view {skill.name}` says why."
            raise ToolError(why) from None
        if not file_path:
            await skills.count_use(name)
            said = [f"[It lacks here: {', '.join(skill.missing)}.]"] if skill.missing else []
            said += [f"[Its other files, in {skill.folder}: {', '.join(files)}]"] if files else []
            text = "\n".join([split_head(text)[1], *said])
        return ToolOutput(text=text, provenance=skill_provenance(skill))

    return skill_view


def _build_manage_tool(skills: SkillLibrary, *, automatic: bool) -> Tool:
    @tool(
        "skills",
        deferred=True,
        brief="keep what you learned as a skill, or fix one",
        housekeeping=True,
        summary=lambda args: f"{args.get('action')} skill {args.get('name')}",
    )
    async def skill_manage(ctx: ToolContext, change: SkillManageParams) -> str:
        """Keep what you learned as a skill, or fix one. The person may have to approve it first."""
        sources = ctx.state.taint.list_sources()
        try:
            base = await skills.load_base(change.name, ctx.session_id)
            after = await asyncio.to_thread(_apply_action, ctx, change, base)
            if after is None:
                await _check_deletable(skills, change)
            revision_id = await skills.propose_change(
                SkillChange(change.name, after),
                author=RevisionAuthor.MODEL,
                reason=_format_reason(change),
                sources=sources,
                session_id=ctx.session_id,
            )
            if automatic and not (await skills.get_revision(revision_id)).sources:  # those that it builds on count too
                await skills.approve_change(revision_id, "automatic")
                return f"Done (change {revision_id} of {change.name}). It counts from the next session on."
        except HermesError as error:
            raise ToolError(str(error)) from None
        return (
            f"Proposed as change {revision_id} of {change.name}. It is not in effect: the person decides"
            f" (`hermes skills diff {revision_id}`, then approve or reject). Go on without it, and tell them of it."
        )

    return skill_manage


async def _check_deletable(skills: SkillLibrary, change: SkillManageParams) -> None:
    skill = next((one for one in await asyncio.to_thread(skills.catalog.list_all) if one.name == change.name), None)
    if skill is not None and skill.tier is not SkillTier.OWN:
        raise ToolError(f"{change.name} is {skill.tier} and cannot be deleted; the person can name it in"
                        " `skills.disabled`.")  # fmt: skip


def _format_reason(change: SkillManageParams) -> str:
    into = f"absorbed into {change.absorbed_into[:64]}" if change.absorbed_into else ""
    return "; ".join(filter(None, (f"{change.action}: {change.reason}" if change.reason else change.action, into)))


def _apply_action(ctx: ToolContext, change: SkillManageParams, base: Files | None) -> Files | None:
    """Return the skill as it is to be. Raises HermesError."""
    for text in (change.content, change.new_string, change.file_content):
        if ctx.redact(text) != text:
            raise ToolError(
                "It holds what looks like a key or password. Leave it out; name the variable that holds it."
            )
    if change.action == "create":
        if base is not None:
            raise ToolError(f"There is a skill {change.name} already: patch it, or edit it.")
        content = ctx.restore_secrets(change.content, "")
        return {MAIN_FILE: _end_with_newline(add_category(content, change.category)).encode()}
    if base is None:
        raise ToolError(f"There is no skill {change.name[:80]!r}. skills_list names them; action create makes one.")
    return _ACTIONS[change.action](ctx, change, dict(base))


def _edit_main_file(ctx: ToolContext, change: SkillManageParams, files: dict[str, bytes]) -> Files | None:
    return {
        **files,
        MAIN_FILE: _end_with_newline(ctx.restore_secrets(change.content, _read_old_text(files, MAIN_FILE))).encode(),
    }


def _patch_file(ctx: ToolContext, change: SkillManageParams, files: dict[str, bytes]) -> Files | None:
    path = MAIN_FILE if change.file_path in ("", MAIN_FILE) else check_extra_path(change.file_path)
    if path not in files:
        raise ToolError(f"{change.name} has no file {path}. It has: {', '.join(sorted(files))}.")
    old = _read_old_text(files, path)
    new = ctx.restore_secrets(change.new_string, old)
    text, _ = replace_text(
        old, ctx.restore_secrets(change.old_string, old), new, everywhere=change.replace_all, display_path=path
    )
    return {**files, path: text.encode()}


def _delete_skill(ctx: ToolContext, change: SkillManageParams, files: dict[str, bytes]) -> Files | None:
    return None


def _write_file(ctx: ToolContext, change: SkillManageParams, files: dict[str, bytes]) -> Files | None:
    path = check_extra_path(change.file_path)
    old = _read_old_text(files, path) if path in files else ""
    return {**files, path: ctx.restore_secrets(change.file_content, old).encode()}


def _remove_file(ctx: ToolContext, change: SkillManageParams, files: dict[str, bytes]) -> Files | None:
    if files.pop(check_extra_path(change.file_path), None) is None:
        raise ToolError(f"{change.name} has no file {change.file_path}. It has: {', '.join(sorted(files))}.")
    return files


def _read_old_text(files: Files, path: str) -> str:
    text = decode_text(files[path])
    if text is None:
        raise ToolError(f"{path} is no text.")
    return text


def _end_with_newline(text: str) -> str:
    return text.rstrip() + "\n"


_ACTIONS: dict[str, Callable[[ToolContext, SkillManageParams, dict[str, bytes]], Files | None]] = {
    "edit": _edit_main_file,
    "patch": _patch_file,
    "delete": _delete_skill,
    "write_file": _write_file,
    "remove_file": _remove_file,
}

"""Says in lines what a plug-in may do: what a person reads before they enable it."""

from collections.abc import Iterator

from hermes.i18n.messages import N_
from hermes.plugin_host.manifest import PluginManifest, WorkspaceAccess


def describe_manifest(manifest: PluginManifest) -> tuple[str, ...]:
    """Return the lines, the most far-reaching first."""
    rest = N_(
        "Nothing else of this machine is open to it but {memory} MB of memory and a folder for its data.",
        memory=manifest.capabilities.memory,
    )
    return (*_list_capabilities(manifest), *_list_offers(manifest), rest)


def _list_capabilities(manifest: PluginManifest) -> Iterator[str]:
    wants = manifest.capabilities
    if manifest.hosts:
        yield N_("It connects to {hosts}, and to nothing else.", hosts=", ".join(manifest.hosts))
        if manifest.hears_conversations:
            yield N_("It is told what is said in conversations, which may leave for those hosts.")
    elif manifest.hears_conversations:
        yield N_("It is told what is said in conversations; it reaches no host.")
    if manifest.env:
        yield N_("It is given your variables {names}.", names=", ".join(manifest.env))
    if manifest.secret_variables:
        yield N_("Of these, {names} may hold keys.", names=", ".join(manifest.secret_variables))
    if wants.workspace is WorkspaceAccess.WRITE:
        yield N_("It reads the session's folder, and its tools may write there.")
    elif wants.workspace is WorkspaceAccess.READ:
        yield N_("It reads the session's folder.")
    if wants.processes:
        yield N_("It may start {count} processes of its own.", count=wants.processes)


def _list_offers(manifest: PluginManifest) -> Iterator[str]:
    if manifest.hooks:
        yield N_("It is asked at {hooks}.", hooks=", ".join(manifest.hooks))
    if manifest.tools:
        yield N_("It has the tools {tools}.", tools=", ".join(one.name for one in manifest.tools))
    if manifest.commands:
        yield N_("It has the commands {commands}.", commands=", ".join(one.name for one in manifest.commands))
    if manifest.memory:
        yield N_("It can be the memory provider ({setting}).", setting="memory.provider")
    if manifest.engine:
        yield N_("It can write the summaries of conversations ({setting}).", setting="context.engine")

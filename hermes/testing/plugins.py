"""What tests of plug-ins need beside a temporary home: enabling what is to be tested."""

from collections.abc import Mapping

from hermes.admin.plugins import PluginAdmin


def enable_plugin(environ: Mapping[str, str], name: str, folder: str = "") -> None:
    """Enable hooks, a package or a folder plug-in in a home, as it is now and as a session in `folder` would use it.

    Raises NotFoundError for a name that there is not, and ConfigError where it cannot be used.
    """
    admin = PluginAdmin(environ, folder)
    admin.enable(admin.find(name))

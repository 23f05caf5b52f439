"""Every secret that this process holds, for the one redactor that all texts pass."""

from collections.abc import Mapping

from hermes.safety.environment import holds_secret
from hermes.safety.secrets import Redactor


def process_redactor(environ: Mapping[str, str]) -> Redactor:
    """A redactor that knows the keys of the environment and `.env`."""
    redactor = Redactor({name: value for name, value in environ.items() if holds_secret(name)})
    return redactor

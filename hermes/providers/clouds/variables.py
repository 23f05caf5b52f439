"""Reads the variables that name a cloud's region, project or resource."""

import re
from collections.abc import Mapping, Sequence

from hermes.core.errors import ConfigError
from hermes.i18n.messages import N_

_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._:-]*[A-Za-z0-9])?", re.ASCII)


def read_first(environ: Mapping[str, str], names: Sequence[str]) -> str:
    """Return the value of the first of these variables that is set; empty where none is."""
    return next((value for name in names if (value := environ.get(name, "").strip())), "")


def read_label(environ: Mapping[str, str], names: Sequence[str], default: str = "") -> str:
    """Return the first value like `read_first`, which becomes part of an address.

    Raises ConfigError for one that could lead elsewhere.
    """
    value = read_first(environ, names) or default
    if value and not _LABEL.fullmatch(value):
        name = next(name for name in names if environ.get(name, "").strip())
        raise ConfigError(
            N_("{name} cannot be part of an address: {value}.", name=name, value=repr(value[:60])),
            N_("Set {name}.", name=name),
        )
    return value

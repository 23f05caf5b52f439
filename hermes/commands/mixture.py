"""`hermes moa`: show the mixtures of models that the settings name."""

from hermes.commands.verb import JSON_OPTION, Verb, VerbCall, VerbResult, rows_result
from hermes.core.encoding import Plain
from hermes.i18n.messages import tr
from hermes.util.text import escape_unseen_characters

MOA = Verb(
    "moa",
    description="Mixtures of models (moa.presets): /moa in a chat asks several models, and one weighs their answers.",
    example="hermes config set moa.default_preset deep",
)


@MOA.action("", "", JSON_OPTION)
def list_mixtures(call: VerbCall) -> VerbResult:
    """List the presets."""
    from hermes.config.home import locate_home
    from hermes.config.load import load_settings
    from hermes.sessions.sub_agents.mixture import list_presets

    rows = list_presets(load_settings(locate_home(call.environ)).settings)
    return rows_result(rows, _format_mixture, tr("There is no mixture; name its models under `moa.presets`."))


def _format_mixture(row: Plain) -> str:
    models = row["reference_models"]
    assert isinstance(models, list)
    mark = "*" if row["default"] else " "
    judge = str(row["aggregator"]) or tr("the session's model")
    return escape_unseen_characters(f"{mark} {row['name']:<16} {', '.join(map(str, models))} -> {judge}")

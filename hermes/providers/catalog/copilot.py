"""The models of a GitHub Copilot subscription."""

from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="copilot",
    title="GitHub Copilot",
    base_url="https://api.individual.githubcopilot.com",
    wires={"gpt-5*": "responses", "gpt-6*": "responses"},
    sign_in="github-copilot",
    default_model="gpt-5-mini",
    quirks=Quirks(
        extra_headers={"editor-version": "Hermes/1", "editor-plugin-version": "Hermes/1"},
    ),
    notes="`hermes auth login github-copilot` signs in, once config.yaml allows it; there are no keys. GitHub is "
    "reported to refuse programs that it does not know by name; what it has given you for that goes into "
    "`providers.copilot.headers`. Newer OpenAI models have the Responses format only.",
)

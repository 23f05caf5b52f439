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
        extra_headers={
            "editor-version": "vscode/1.99.3",
            "editor-plugin-version": "copilot-chat/0.26.7",
            "copilot-integration-id": "vscode-chat",
        },
    ),
    notes="`hermes auth login github-copilot` signs in, once config.yaml allows it; there are no keys. Requests that "
    "name no editor, or an unknown one, are refused. Newer OpenAI models have the Responses format only.",
)

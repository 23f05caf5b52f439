"""Azure OpenAI."""

from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="azure",
    title="Azure OpenAI",
    base_url="",
    cloud="azure",
    key_variables=("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"),
    quirks=Quirks(
        max_tokens_field="max_completion_tokens", unreasoning_models=("gpt-4*", "gpt-35*", "gpt-3.5*", "chatgpt-4o*")
    ),
    notes="The model's name is that of the deployment. `api_mode: responses` works, too. A token of Microsoft Entra "
    'from a command: `hermes auth add azure --command "az account get-access-token --resource '
    'https://cognitiveservices.azure.com --query accessToken -o tsv"`. Judged by the official client against a fake.',
)

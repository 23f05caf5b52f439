"""Google Vertex AI."""

from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="vertex",
    title="Google Vertex AI",
    base_url="",
    cloud="vertex",
    key_variables=("VERTEX_ACCESS_TOKEN", "GOOGLE_OAUTH_ACCESS_TOKEN"),
    credential_variables=("GOOGLE_APPLICATION_CREDENTIALS",),
    quirks=Quirks(vendor_names=True),
    notes="Models are named as at the OpenAI-compatible address (google/gemini-...). A service account's key file "
    "(GOOGLE_APPLICATION_CREDENTIALS) needs the extra `crypto`; a token from a command does not: "
    "`hermes auth add vertex --command 'gcloud auth print-access-token'`.",
)

"""The API server: OpenAI's wire, runs, sessions and jobs over HTTP."""

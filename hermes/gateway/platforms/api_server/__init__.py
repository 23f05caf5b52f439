"""The API server: OpenAI's API formats, runs, sessions and jobs over HTTP."""

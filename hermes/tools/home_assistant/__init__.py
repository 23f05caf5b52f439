"""Home Assistant by its REST API (https://developers.home-assistant.io/docs/api/rest)."""

"""The Slack platform: its Web API client and its event reader."""

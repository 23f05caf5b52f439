"""The Discord platform: its REST client and its event reader."""

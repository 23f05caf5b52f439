"""The verbs about the gateway and the people who talk with it."""

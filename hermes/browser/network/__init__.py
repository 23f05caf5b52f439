"""Where pages may lead and what they may reach: the rules, the watch over requests, and what the proxy reads."""

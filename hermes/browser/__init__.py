"""A Chromium's pages, used over its DevTools protocol: what a page shows, and what is done on it."""

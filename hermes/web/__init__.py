"""Web access: fetching with a guard, pages as markdown, search engines."""

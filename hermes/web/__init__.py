"""Reading the web: fetching with a guard, pages as markdown, search engines."""

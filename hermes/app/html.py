"""HTML that came from somewhere, as text for whoever reads it."""

from hermes.tools.web.pages import from_html


async def words_of_html(html: str) -> str:
    """HTML as markdown, made in a process of its own; as bare text where that is not possible."""
    return (await from_html(html, "")).text.strip()

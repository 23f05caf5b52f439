"""Pages as text, for front-ends that are given some."""

from hermes.tools.web.pages import from_html

__all__ = ["from_html"]

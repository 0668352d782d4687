"""The last word on every piece of HTML that a page is given: what is not on these lists is not in it."""

from __future__ import annotations

from typing import Final

import nh3

from chatserve.page.highlight import CLASSES, LANGUAGES, PREFIX

SCHEMES: Final = frozenset(("http", "https", "mailto"))
"""Of links. There are no relative ones: they would lead to this server's own routes."""
ALIGNED: Final = {"left": "align-left", "center": "align-center", "right": "align-right"}
"""A table cell's side and the class that says so: the content policy takes no style attribute."""

_TEXT: Final = ("a", "br", "code", "em", "s", "span", "strong")
_BLOCKS: Final = ("blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "ul")
_TABLE: Final = ("table", "tbody", "td", "th", "thead", "tr")
_CLEANER: Final = nh3.Cleaner(
    tags={*_TEXT, *_BLOCKS, *_TABLE},
    clean_content_tags={"script", "style"},
    attributes={"a": {"href", "title"}, "ol": {"start"}},
    set_tag_attribute_values={"a": {"target": "_blank"}},
    link_rel="noopener noreferrer nofollow",
    url_schemes=SCHEMES,
    url_relative="deny",
    allowed_classes={
        "code": {PREFIX + language for language in LANGUAGES},
        "span": CLASSES,
        "td": frozenset(ALIGNED.values()),
        "th": frozenset(ALIGNED.values()),
    },
)


def sanitized(html: str) -> str:
    """The HTML with nothing in it that runs, loads, or looks like a part of the page."""
    return _CLEANER.clean(html)

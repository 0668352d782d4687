"""The notes that a client may keep with a conversation or a response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from chatserve.server.errors import BadRequest, shown
from chatserve.server.fields import Fields

PAIRS: Final = 16
KEY_LENGTH: Final = 64
VALUE_LENGTH: Final = 512


def read_metadata(fields: Fields) -> dict[str, str]:
    """The field `metadata`; empty when absent or null. Raises BadRequest."""
    metadata = fields.nested("metadata").values
    if len(metadata) > PAIRS:
        raise BadRequest(f"metadata has {len(metadata)} pairs; the limit is {PAIRS}.", param="metadata")
    return dict(_pairs(metadata))


def _pairs(metadata: Mapping[str, object]) -> list[tuple[str, str]]:
    pairs = []
    for key, value in metadata.items():
        if len(key) > KEY_LENGTH:
            raise BadRequest(f"metadata has a key longer than {KEY_LENGTH} characters: {shown(key)}.", param="metadata")
        if not isinstance(value, str) or len(value) > VALUE_LENGTH:
            raise BadRequest(
                f"metadata must hold strings of at most {VALUE_LENGTH} characters; {shown(key)} is {shown(value)}.",
                param="metadata",
            )
        pairs.append((key, value))
    return pairs

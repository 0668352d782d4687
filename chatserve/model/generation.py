"""A model's own generation settings as sampling defaults."""

from __future__ import annotations

from typing import Any

from chatserve.model.sampling import SamplingDefaults


def sampling_defaults(settings: Any) -> SamplingDefaults:
    """The listed values where the settings say `do_sample`; otherwise they describe greedy runs and are not used.

    A value that is absent is off. top_k 0, -1 and null all mean off.
    """
    if settings is None or not settings.do_sample:
        return SamplingDefaults()
    off = SamplingDefaults()
    return SamplingDefaults(
        temperature=off.temperature if settings.temperature is None else float(settings.temperature),
        top_p=off.top_p if settings.top_p is None else float(settings.top_p),
        top_k=max(0, settings.top_k or 0),
        min_p=float(settings.min_p or 0.0),
        repetition_penalty=float(settings.repetition_penalty or 1.0),
    )

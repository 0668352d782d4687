"""Whether a checkpoint holds the tensors of its architecture, all of them and no others."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from chatserve.model.errors import IncompleteModel


def refuse_incomplete(
    name: str, *, missing: Collection[str], unused: Collection[str], misshapen: Collection[str]
) -> None:
    """Raises IncompleteModel, naming the tensors, when there are any. name: the model's."""
    faults = {"missing": missing, "not used": unused, "of another shape": misshapen}
    told = [f"{fault}: {shorten(sorted(names))}" for fault, names in faults.items() if names]
    if told:
        raise IncompleteModel(
            f"the tensors of {name} are not those of its architecture; {'; '.join(told)} (an output layer that shares "
            "the embeddings needs tie_word_embeddings in config.json)"
        )


def shorten(names: Sequence[str], most: int = 8) -> str:
    """The first few names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")

"""Random numbers that depend on a seed and a place in its stream, and on nothing else."""

from __future__ import annotations

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_BITS = 40
"""Few enough that a draw times a total is below the total in float64, whatever it is rounded to."""


def uniform(seed: int, step: int) -> float:
    """The `step`-th number of `seed`, in [0, 1). Any integer is a seed; seeds equal modulo 2**64 are the same."""
    return (_state(seed, step) >> (64 - _BITS)) * 2.0**-_BITS


def key(seed: int, step: int) -> int:
    """The `step`-th key of `seed`, as int64: for a generator on the device that makes many numbers of one key."""
    state = _state(seed, step)
    return state - (1 << 64) if state >> 63 else state


def _state(seed: int, step: int) -> int:
    return _mix(_mix(seed & _MASK) + step * _GOLDEN)


def _mix(state: int) -> int:
    """SplitMix64's output function: every bit of the result depends on every bit of the state."""
    state = (state + _GOLDEN) & _MASK
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
    return state ^ (state >> 31)

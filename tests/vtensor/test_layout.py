"""KVLayout: least padding first, then nearest to 256 tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtensor.layout import CHUNK_TOKENS, KVLayout, LayoutError

MB = 1 << 20


def choose(layers: int, kv_heads: int, head_dim: int, itemsize: int, granularity: int, **more: int) -> KVLayout:
    return KVLayout.choose(
        layers=layers,
        kv_heads=kv_heads,
        head_dim=head_dim,
        itemsize=itemsize,
        granularity=granularity,
        **({"max_len": 8192} | more),
    )


def test_an_8b_model_gets_chunks_of_256_tokens_and_32_mb_without_padding() -> None:
    layout = choose(32, 8, 128, 2, 2 * MB)
    assert (layout.chunk_tokens, layout.chunk_bytes) == (256, 32 * MB)
    assert layout.token_stride == layout.token_bytes == 128 * 1024
    assert layout.padding == 0


def test_the_demo_model_fits_pages_exactly() -> None:
    layout = choose(30, 3, 64, 4, 4096)
    assert layout.chunk_tokens == 256
    assert layout.chunk_bytes == 256 * 46_080
    assert layout.padding == 0


def test_less_padding_wins_over_256_tokens() -> None:
    layout = choose(24, 2, 64, 2, 2 * MB)  # 12 KiB a token: only 1,024 tokens fill whole granules
    assert layout.chunk_tokens == 512
    assert layout.padding == 0


def test_a_slot_is_one_kernel_tile_longer_than_the_longest_sequence() -> None:
    assert choose(32, 8, 128, 2, 2 * MB, max_len=8192).slot_chunks == 33
    assert choose(32, 8, 128, 2, 2 * MB, max_len=8192, tile=256).slot_chunks == 33
    assert choose(32, 8, 128, 2, 2 * MB, max_len=8192, tile=257).slot_chunks == 34


@pytest.mark.parametrize("name", ["layers", "kv_heads", "head_dim", "itemsize", "granularity", "max_len", "tile"])
def test_sizes_that_are_not_positive_are_refused_by_name(name: str) -> None:
    sizes = {"layers": 1, "kv_heads": 1, "head_dim": 8, "itemsize": 2, "granularity": 4096, "max_len": 8, "tile": 1}
    with pytest.raises(LayoutError, match=f"{name} is 0"):
        KVLayout.choose(**(sizes | {name: 0}))


@given(
    layers=st.integers(1, 100),
    kv_heads=st.integers(1, 64),
    head_dim=st.integers(1, 512),
    itemsize=st.sampled_from([1, 2, 4]),
    granularity=st.sampled_from([4096, 65536, 2 * MB]),
)
def test_any_shape_lies_in_whole_granules_with_aligned_rows(
    layers: int, kv_heads: int, head_dim: int, itemsize: int, granularity: int
) -> None:
    layout = choose(layers, kv_heads, head_dim, itemsize, granularity)
    assert layout.chunk_tokens in CHUNK_TOKENS
    assert layout.chunk_bytes % granularity == 0
    assert layout.chunk_bytes == layout.chunk_tokens * layout.token_stride
    assert layout.token_stride >= layout.token_bytes
    assert layout.token_stride % 16 == 0
    assert layout.token_stride % itemsize == 0
    others = (choose(layers, kv_heads, head_dim, itemsize, granularity, chunk_tokens=n) for n in CHUNK_TOKENS)
    assert all(layout.padding <= other.padding for other in others)

"""The growth benchmark measures what it says, of sizes that a test can wait for."""

from __future__ import annotations

from loadtest.growth import growth

KINDS = {"rtree_by_conversations", "rtree_by_history", "store_by_conversations", "store_by_turns"}


async def test_every_act_is_measured_at_every_size_and_compared() -> None:
    figures = await growth((1, 2), rounds=2)
    assert set(figures) == KINDS
    for part in figures.values():
        small, large = part["rows"]
        timed = {name for name in small if name.endswith("_us")}
        assert all(row[name] > 0 for row in (small, large) for name in timed)
        assert set(part["largest_to_smallest"]) == {name.removesuffix("_us") for name in timed}
    by_conversations = figures["rtree_by_conversations"]["rows"]
    assert by_conversations[1]["nodes"] > 1.8 * by_conversations[0]["nodes"]
    assert [row["history_tokens"] for row in figures["rtree_by_history"]["rows"]] == [1_000, 2_000]
    assert [row["turns"] for row in figures["store_by_turns"]["rows"]] == [10, 20]

"""The Triton kernels on a GPU: right on random data, then microseconds a layer beside what the memory allows.

    python -m loadtest.gpu_kernels --out X.json                                 every kernel as it is used
    python -m loadtest.gpu_kernels --out X.json --tune "few rows" attention     and the best tiling of each shape

Shapes are Llama-8B's in bf16; each time is a captured graph's, over buffers that together are larger than the cache.
"""

from __future__ import annotations

import torch

from loadtest.gpu_kernels_attention import check_attention, time_attention, tune_attention
from loadtest.gpu_kernels_ops import check_ops, time_draws, time_ops
from loadtest.gpu_kernels_products import (
    check_few_rows,
    check_products,
    time_few_rows,
    time_products,
    tune_few_rows,
    tune_products,
)
from loadtest.report import keep, options


def main() -> None:
    """Check, time, and on request tune; the short table comes last."""
    parser = options(__doc__, "gpu_kernels.h200")
    parser.add_argument("--tune", nargs="*", default=[], choices=["few rows", "attention", "one row"])
    chosen = parser.parse_args()
    torch.manual_seed(0)
    errors = {**check_attention(), **check_ops(), **check_products(), **check_few_rows()}
    wrong = {name: error for name, error in errors.items() if not error < 1e-2}
    times: dict[str, dict[str, dict[str, float | str]]] = {
        "decode_attention_us": time_attention(),
        "small_operations_us": {**time_ops(), **time_draws()},
        "one_row_products": time_products(),
        "few_row_products": time_few_rows(),
    }
    tuned: dict[str, dict[str, dict[str, list[str]]]] = {}
    for name, tune in {"few rows": tune_few_rows, "attention": tune_attention, "one row": tune_products}.items():
        if name in chosen.tune:
            tuned[name] = tune()
    keep(chosen.out, {"device": torch.cuda.get_device_name(), "relative_errors": errors, **times, "tuned": tuned})
    for title, table in times.items():
        print(title)
        for name, row in table.items():
            print(f"  {name:<34}", "  ".join(f"{key} {value}" for key, value in row.items()))
    for shapes in tuned.values():
        for name, lines in shapes.items():
            print(f"  {name}", *lines["best"], sep="\n      ")
    assert not wrong, f"relative errors of 1e-2 and more: {wrong}"


if __name__ == "__main__":
    main()

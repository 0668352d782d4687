"""The plots of loadtest.memory_figures, from its JSON: on any machine that has matplotlib.

python -m loadtest.draw_memory loadtest/results/memory_figures.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import pyplot
from matplotlib.axes import Axes

from loadtest.kept import RESULTS

UNITS = ((1e9, "GB"), (1e6, "MB"))


def main() -> None:
    """Two PNG files beside the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", type=Path, nargs="?", default=RESULTS / "memory_figures.json")
    source: Path = parser.parse_args().figures
    figures = json.loads(source.read_text())
    figures = figures.get("memory", figures)  # bench_gpu's joined file has them under that name
    matplotlib.use("agg")
    for name, draw in (("batches", draw_batches), ("trace", draw_trace)):
        if name in figures:
            figure, axes = pyplot.subplots(figsize=(9, 4.5), layout="constrained")
            draw(axes, figures, *unit(figures["shape"]))
            target = source.with_suffix(f".{name}.png")
            figure.savefig(target, dpi=120)
            print(f"wrote {target}", flush=True)


def unit(shape: dict[str, Any]) -> tuple[float, str]:
    """Bytes, and what so many are called: as the device is large."""
    return next((size, name) for size, name in UNITS if shape["device_bytes"] >= 10 * size)


def draw_batches(axes: Axes, figures: dict[str, Any], size: float, name: str) -> None:
    """Bars: what each way takes for KV; a line where the device ends."""
    rows, shape = figures["batches"], figures["shape"]
    room = shape["device_bytes"] - shape["weights_bytes"]
    for offset, (key, label) in enumerate(
        (("native_bytes", "native preallocation"), ("paged_bytes", "paged preallocation"), ("ours_bytes", "chatserve"))
    ):
        places = [index + (offset - 1) * 0.27 for index in range(len(rows))]
        axes.bar(places, [min(row[key], room) / size for row in rows], 0.27, label=label)
    axes.plot(range(len(rows)), [row["used_bytes"] / size for row in rows], "k_", markersize=24, label="tokens held")
    for index, row in enumerate(rows):
        if not row["native_fits"]:
            axes.text(index - 0.27, room / size, "does not fit", ha="center", va="bottom", fontsize=8)
    axes.axhline(room / size, color="gray", linestyle=":", label="device without weights")
    axes.set_xticks(range(len(rows)), [str(row["batch"]) for row in rows])
    axes.set_xlabel("batch size")
    axes.set_ylabel(f"KV memory, {name}")
    axes.legend(loc="center left", bbox_to_anchor=(0, 0.6))


def draw_trace(axes: Axes, figures: dict[str, Any], size: float, name: str) -> None:
    """Memory over time, and the request rate behind it."""
    samples, shape = figures["trace"]["samples"], figures["shape"]
    seconds = samples["seconds"]
    native = [running * shape["max_len"] * shape["kv_bytes_a_token"] / size for running in samples["running"]]
    room = (shape["device_bytes"] - shape["weights_bytes"]) / size
    axes.plot(seconds, [min(each, room) for each in native], label="native preallocation", linewidth=1)
    axes.axhline(shape["paged_kv_bytes"] / size, color="tab:orange", label="paged preallocation")
    axes.plot(seconds, [each / size for each in samples["physical"]], color="tab:green", label="chatserve")
    axes.plot(
        seconds, [each / size for each in samples["used"]], "k", linewidth=0.8, label="tokens of running requests"
    )
    axes.set_xlabel("seconds")
    axes.set_ylabel(f"KV memory, {name}")
    rate = axes.twinx()
    rate.fill_between(seconds, samples["rate"], step="post", alpha=0.12, color="gray")
    rate.set_ylabel("requests a second (gray)")
    axes.legend(loc="upper left")


if __name__ == "__main__":
    main()

"""The paper's memory figures: KV memory over batch sizes, and over time under a changing request rate.

    python -m loadtest.memory_figures                    anywhere, everything 1,024 times smaller
    python -m loadtest.memory_figures --driver cuda      on a GPU, the Llama-8B shape

JSON; `python -m loadtest.draw_memory` makes the plots of it.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from loadtest.kept import RESULTS, Kept, say
from loadtest.memory_batches import over_batches
from loadtest.memory_shape import LLAMA_8B, SMALL
from loadtest.memory_trace import Pace, Trace
from vtensor.driver.registry import DRIVERS, open_driver

QUICK_SECONDS = 12.0


def main() -> None:
    """Both figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", choices=list(DRIVERS), default="host")
    parser.add_argument("--seconds", type=float, default=Pace().seconds, help="of the trace")
    parser.add_argument("--quick", action="store_true", help=f"a trace of {QUICK_SECONDS:g} seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS / "memory_figures.json")
    options = parser.parse_args()
    shape = LLAMA_8B if options.driver == "cuda" else SMALL
    kept = Kept(options.out)
    kept.put("shape", shape.described())
    batches = over_batches(partial(open_driver, options.driver), shape, options.seed)
    kept.put("batches", batches)
    for row in batches:
        say(
            f"batch {row['batch']:2}: used {row['used_bytes'] / 1e9:.3f} GB, ours {row['ours_bytes'] / 1e9:.3f}, "
            f"native {row['native_bytes'] / 1e9:.3f}, paged {row['paged_bytes'] / 1e9:.3f}"
        )
    pace = Pace(seconds=QUICK_SECONDS if options.quick else options.seconds)
    say(f"a trace of {pace.seconds:g} s")
    trace = Trace(open_driver(options.driver), shape, pace, options.seed).run()
    kept.put("trace", trace)
    say(
        f"at most {trace['physical_bytes_at_most'] / 1e9:.3f} GB, in pauses down to "
        f"{[round(each / 1e9, 3) for each in trace['physical_bytes_at_least_in_each_pause']]} GB"
    )


if __name__ == "__main__":
    main()

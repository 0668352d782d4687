"""What an idle server keeps: KV memory seen from outside its process, after load, after ten seconds, after a flush.

python -m loadtest.idle_memory
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from loadtest.report import keep, options
from loadtest.server import Server, running

CLIENTS = 6
IDLE_SECONDS = 10.0


TEXT = [{"role": "user", "content": "tell me more about the moon and the sea " * 60}]


def talk(server: Server) -> None:
    """A question whose answer reuses nothing and leaves nothing: its memory is freed as it ends."""
    server.chat(TEXT, max_tokens=24, ignore_eos=True, reuse_prefix=False)


def main() -> None:
    """Load, idle, flush."""
    parser = options(__doc__, "idle_memory")
    parser.add_argument("--port", type=int, default=8766)
    chosen = parser.parse_args()
    with running(chosen.port) as server:
        server.chat(TEXT, max_tokens=24, ignore_eos=True)
        peak = 0
        with ThreadPoolExecutor(CLIENTS) as pool:
            talks = [pool.submit(talk, server) for _ in range(CLIENTS)]
            while not all(each.done() for each in talks):
                peak = max(peak, server.kv_bytes())
                time.sleep(0.02)
            for each in talks:
                each.result()
        ended = time.perf_counter()
        recorded = server.stats()["private_bytes"]
        while server.kv_bytes() > recorded and time.perf_counter() - ended < 5:
            time.sleep(0.01)
        returned_after = time.perf_counter() - ended
        after_load = server.kv_bytes()
        time.sleep(IDLE_SECONDS)
        after_idle = server.kv_bytes()
        again = server.chat(TEXT, max_tokens=1)
        server.http.post("/admin/flush").raise_for_status()
        figures = {
            "peak_bytes": peak,
            "recorded_bytes": recorded,
            "after_load_bytes": after_load,
            "free_chunks_back_after_s": round(returned_after, 3),
            "after_ten_idle_seconds_bytes": after_idle,
            "cached_tokens_of_a_prompt_seen_before": again.cached,
            "prompt_tokens": again.prompt,
            "after_flush_bytes": server.kv_bytes(),
        }
    keep(chosen.out, figures)


if __name__ == "__main__":
    main()

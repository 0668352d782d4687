"""Runs steps on a CUDA device: queued without waiting, read one after the other as they end.

One thread queues: a decode step as a captured graph, any other launch by launch. Tokens stay on the device for the
step after and are copied to pinned memory; a second thread waits for each step's event and hands its tokens out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch

from chatserve.model.attention_fa3 import Fa3Kernel
from chatserve.model.batch import Batch, Sample
from chatserve.model.decode_graphs import DecodeGraphs
from chatserve.model.device_inputs import device_inputs, to_device
from chatserve.model.draw_triton import DrawWorkspace
from chatserve.model.fused import FusedWeights
from chatserve.model.graphs import Outcome, Stage, StepGraphs, capture_all, draw, every_size
from chatserve.model.kernels import choose_kernels
from chatserve.model.loaded import LoadedModel
from chatserve.model.runner import Launched, checked
from chatserve.model.sampler import is_plain, sample
from chatserve.model.step import Kernel, Network
from chatserve.model.turn_graphs import TurnGraphs


class CudaRunner:
    """newest: int64 [slots], on the device.  graphs: none where the network cannot be captured.

    worker: one thread; the runner's own from now on.
    """

    def __init__(
        self,
        network: Network,
        kernel: Kernel,
        graphs: Sequence[StepGraphs],
        workspace: DrawWorkspace,
        *,
        newest: torch.Tensor,
        worker: ThreadPoolExecutor,
    ) -> None:
        self._network = network
        self._kernel = kernel
        self._graphs = graphs
        self._workspace = workspace
        self._newest = newest
        self._worker = worker
        self._ends = ThreadPoolExecutor(1, thread_name_prefix="step-ends")

    def launch(self, batch: Batch) -> Launched:
        """See `Runner`."""
        queued = self._worker.submit(self._queue, batch)
        return Launched(self._ends.submit(tokens_of, queued))

    def trim(self) -> None:
        """See `Runner`."""
        self._worker.submit(torch.cuda.empty_cache)

    def close(self) -> None:
        """See `Runner`."""
        self._worker.shutdown(wait=True)
        self._ends.shutdown(wait=True)

    def _queue(self, batch: Batch) -> tuple[torch.Tensor, torch.cuda.Event]:
        """Where the step's tokens will be on the host, and the event after which they are."""
        with torch.inference_mode(), torch.cuda.device(self._newest.device):
            tokens = self._step(batch)
            read = torch.empty(len(tokens), dtype=torch.int64, pin_memory=True)
            read.copy_(tokens, non_blocking=True)
            ended = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            ended.record()
        return read, ended

    def _step(self, batch: Batch) -> torch.Tensor:
        """The token of each sample, on the device."""
        graphs = next((each for each in self._graphs if each.fits(batch)), None)
        if graphs is not None:
            return self._choose_others(graphs.replay(batch), batch.samples)
        inputs = device_inputs(batch, self._newest)
        logits = self._network.logits(inputs.rows, self._kernel.step(batch), inputs.sampled)
        if not batch.samples:
            return inputs.sampled
        tokens = draw(logits, inputs.drawing, self._newest, self._workspace)
        ids = inputs.rows.ids[inputs.sampled]
        return self._choose_others(Outcome(ids, inputs.drawing.slots, logits, tokens), batch.samples)

    def _choose_others(self, outcome: Outcome, samples: Sequence[Sample]) -> torch.Tensor:
        """Choose again where more than the temperature has a say; the tokens of all samples."""
        others = [row for row, each in enumerate(samples) if not is_plain(each.params)]
        if others:
            rows = to_device(np.array(others, dtype=np.int64), self._newest.device)
            chosen = sample(outcome.logits[rows].float(), [samples[row] for row in others], outcome.ids[rows])
            outcome.tokens[rows] = chosen
            self._newest[outcome.slots[rows]] = chosen.clamp(min=0)
        return outcome.tokens[: len(samples)]


def tokens_of(queued: Future[tuple[torch.Tensor, torch.cuda.Event]]) -> list[int]:
    """A step's tokens once it has ended. Raises what it raised, BadLogits among it."""
    tokens, ended = queued.result()
    ended.synchronize()
    return checked(tokens.tolist())


def open_runner(
    model: LoadedModel,
    kv: torch.Tensor,
    worker: ThreadPoolExecutor,
    *,
    chunk_tokens: int,
    most_sequences: int,
    most_rows: int,
    scratch: int,
    progress: Callable[[int, int], None],
) -> CudaRunner:
    """See `runners.cuda_runner`; called in the thread that will compute."""
    torch.cuda.set_device(model.device)
    spec = model.spec
    kernels = choose_kernels(kv, heads=spec.heads, chunk_tokens=chunk_tokens, most_rows=most_sequences)
    with torch.inference_mode():
        network = model.weights.over(kv)
        newest = torch.zeros(len(kv), dtype=torch.int64, device=model.device)
        workspace = DrawWorkspace.of(most_sequences, spec.vocab_size, model.device)
        stage = Stage(network, workspace, newest, scratch)
        graphs: list[StepGraphs] = []
        if isinstance(model.weights, FusedWeights):
            if kernels.decode is not None:
                graphs.append(DecodeGraphs(stage, kernels.decode))
            if isinstance(kernels.prompts, Fa3Kernel):
                graphs.append(TurnGraphs(stage, kernels.prompts, kernels.decode, most_rows))
        capture_all(every_size(graphs), model.device, progress)
    return CudaRunner(network, kernels.step, graphs, workspace, newest=newest, worker=worker)

"""The batches of a training epoch under a clock, each beside its bare matrix products."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.harness.devices import torch_device
from benchmarks.molecules.data import Split
from benchmarks.molecules.models import Model
from benchmarks.speed.products import BareProducts, Product, RecordProducts
from benchmarks.speed.timing import Step, seconds_of
from benchmarks.speed.training import BatchClock, train_batches

WARM_BATCHES = 2  # the ops' kernels are compiled in these, off the record


class ProductsRecorder(BatchClock):
    """Records the products of each batch, from its forward to the step of the optimiser.

    Attributes:
        batches: The products of each batch.
    """

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[Product]] = []
        self._recording = RecordProducts()

    def on_train_batch_start(self, *arguments: Any) -> None:
        """Begins to record."""
        self._recording = RecordProducts()
        self._recording.__enter__()

    def on_train_batch_end(self, *arguments: Any) -> None:
        """Ends the record of the batch."""
        self._recording.__exit__(None, None, None)
        self.batches.append(self._recording.products)
        super().on_train_batch_end(*arguments)


class AlternatingClock(BatchClock):
    """Times each batch, and its bare products right after it.

    Args:
        steps: Computes the bare products, for each batch.

    Attributes:
        products_seconds: Of each batch.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        super().__init__()
        self.steps = steps
        self.products_seconds: list[float] = []

    def between(self, batch_idx: int, device: torch.device) -> None:
        """The bare products of the batch that has ended."""
        self.products_seconds.append(seconds_of(self.steps[batch_idx], device))


def recorded(
    split: Split, model: Model, batch_size: int, num_batches: int | None = None, device: str = "cpu"
) -> ProductsRecorder:
    """The products of the batches that `train_batches` trains with these arguments."""
    warm = min(WARM_BATCHES, num_batches or WARM_BATCHES)
    train_batches(split, model, batch_size, BatchClock(), warm, device)
    recorder = ProductsRecorder()
    train_batches(split, model, batch_size, recorder, num_batches, device)
    return recorder


def measure_epochs(
    split: Split,
    models: Sequence[Model],
    batch_size: int,
    num_batches: int | None = None,
    rounds: int = 7,
    device: str = "cpu",
) -> list[dict[str, Any]]:
    """Times the batches of each network and their products, round by round.

    Every round trains each network once, in a random order, on the same batches from the same
    weights. Of each batch, and of its products, the median over the rounds counts; one round
    before does not.

    Args:
        split: The molecules.
        models: The networks.
        batch_size (int): Molecules a batch.
        num_batches (int, optional): Batches at most; ``None``: the whole epoch.
        rounds (int): Rounds that count.
        device (str): As in the benchmark.

    Returns:
        A row a network: milliseconds a batch, those of its products, and so on.
    """
    records = [recorded(split, model, batch_size, num_batches, device) for model in models]
    sets = [batch for record in records for batch in record.batches]
    bare = BareProducts(sets, torch_device(device))
    steps = [[bare.step(batch) for batch in record.batches] for record in records]
    clocks: list[list[AlternatingClock]] = [[] for _ in models]
    shuffled = random.Random(0)
    for round_number in range(-1, rounds):
        for k in shuffled.sample(range(len(models)), len(models)):
            clock = AlternatingClock(steps[k])
            train_batches(split, models[k], batch_size, clock, num_batches, device)
            if round_number >= 0:
                clocks[k].append(clock)
    return [
        {
            "model": model.name,
            "hidden": model.arguments["hidden_channels"],
            "num_parameters": model.num_parameters,
            **_figures(record, rounds_of_model),
        }
        for model, record, rounds_of_model in zip(models, records, clocks, strict=True)
    ]


def _figures(record: ProductsRecorder, clocks: Sequence[AlternatingClock]) -> dict[str, Any]:
    batches, molecules = len(record.batches), sum(record.molecules)
    seconds = _sum_of_medians([clock.seconds for clock in clocks])
    products = _sum_of_medians([clock.products_seconds for clock in clocks])
    flop = sum(product.flop for batch in record.batches for product in batch)
    return {
        "batches": batches,
        "molecules": molecules,
        "milliseconds": 1e3 * seconds / batches,
        "molecules_a_second": molecules / seconds,
        "epoch_seconds": seconds,
        "products": sum(map(len, record.batches)) / batches,
        "products_milliseconds": 1e3 * products / batches,
        "over_products": seconds / products,
        "gigaflop": flop / 1e9 / batches,
        "gigaflop_a_second": flop / 1e9 / seconds,
        "products_gigaflop_a_second": flop / 1e9 / products,
    }


def _sum_of_medians(rounds: Sequence[Sequence[float]]) -> float:
    """The sum over batches of the median over rounds."""
    return sum(statistics.median(batch) for batch in zip(*rounds, strict=True))

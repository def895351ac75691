"""``python -m benchmarks.speed language``: words a second of training a language model."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.harness.arguments import (
    LARGEST_WIDTH,
    OneLineParser,
    exit_status,
    integer,
    nonempty,
)
from benchmarks.harness.devices import torch_device
from benchmarks.harness.errors import as_input_error, say
from benchmarks.harness.language_model.config import LanguageModelConfig, TrainingSettings
from benchmarks.harness.language_model.models import (
    LanguageModel,
    build_language_model,
    count_parameters,
    fitted,
)
from benchmarks.harness.language_model.optimizer import build_optimizer
from benchmarks.harness.language_model.presets import PRESETS
from benchmarks.harness.sizes import num_parameters
from benchmarks.harness.table import Table
from benchmarks.speed.timing import Step, medians
from pyg_kernels.ops import backend

PROGRAM = "benchmarks.speed language"
MODELS = ("rcnn-5m", "lstm-5m")
WORDS = 10_000  # as the Penn Treebank has


def main(words: Sequence[str]) -> int:
    """Runs the command line and returns the exit status."""
    options = parser().parse_args(list(words))
    return exit_status(PROGRAM, lambda: _measure(options))


def parser() -> argparse.ArgumentParser:
    """The options."""
    parser = OneLineParser(
        PROGRAM,
        prog=f"python -m {PROGRAM}",
        description="Trains presets of benchmarks.language_model on batches of random words, and "
        "beside each its recurrent layers alone, and torch's LSTM of as many layers and as wide as "
        "the last preset.",
    )
    parser.add_argument(
        "--preset",
        nargs="+",
        choices=list(PRESETS),
        default=list(MODELS),
        metavar="NAME",
        help=f"presets of benchmarks.language_model ({' '.join(MODELS)})",
    )
    parser.add_argument("--vocabulary", type=integer(2), default=WORDS, metavar="N", help="words")
    parser.add_argument(
        "--hidden", type=integer(1, LARGEST_WIDTH), metavar="N", help="width (the presets')"
    )
    parser.add_argument("--rounds", type=integer(1), default=15, metavar="N", help="(%(default)s)")
    parser.add_argument(
        "--threads", type=integer(1), default=2, metavar="N", help="CPU threads (%(default)s)"
    )
    parser.add_argument("--device", default="cpu", metavar="NAME", help="cpu, cuda or cuda:N (cpu)")
    parser.add_argument("--out", type=nonempty, metavar="DIR", help="folder for metrics.json")
    return parser


def _measure(options: argparse.Namespace) -> int:
    device = torch_device(options.device)
    with as_input_error():
        if options.out:
            Path(options.out).mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(options.threads)
    names = list(dict.fromkeys(options.preset))
    setting = {
        "vocabulary": options.vocabulary,
        "dtype": "float32",
        "device": str(device),
        "threads": options.threads,
        "rounds": options.rounds,
        "torch": torch.__version__,
        "ops": backend(device),
    }
    say(", ".join(f"{key}: {value}" for key, value in setting.items()))
    rows = measure_language_models(
        names, options.vocabulary, options.rounds, device, options.hidden
    )
    say(table(rows).text())
    if options.out:
        with as_input_error():
            content = json.dumps({**setting, "models": rows}, indent=2)
            (Path(options.out) / "metrics.json").write_text(content)
    return 0


def measure_language_models(
    names: Sequence[str],
    num_words: int,
    rounds: int,
    device: torch.device,
    hidden: int | None = None,
) -> list[dict[str, Any]]:
    """Times a step of training of each preset and its layers alone, in interleaved rounds.

    Args:
        names: Presets; words a second are compared with the last one's.
        num_words (int): Size of the vocabulary.
        rounds (int): Rounds that count.
        device: Where to compute.
        hidden (int, optional): Width in place of the presets'.

    Returns:
        A row a preset, then one of torch's LSTM alone: words a batch, milliseconds of a step and of
        the layers alone, words a second, and times of a word over the last preset's and the LSTM's.
    """
    steps: list[Step] = []
    rows: list[dict[str, Any]] = []
    for name in names:
        with as_input_error():
            config = fitted(PRESETS[name], num_words, hidden)
        settings = PRESETS[name].training
        torch.manual_seed(0)
        model = build_language_model(config).to(device)
        steps += [training_step(model, settings), layers_step(model, settings)]
        rows.append(_sizes(name, config, count_parameters(config), settings))
    lstm = nn.LSTM(config.hidden, config.hidden, config.num_layers).to(device)
    steps.append(_recurrent_step(lstm, (settings.steps, settings.batch_size, config.hidden)))
    rows.append(_sizes("nn.LSTM alone", config, num_parameters(lstm), settings))
    seconds = medians(steps, rounds, device)
    for row, step, layers in zip(rows, seconds[::2], [*seconds[1::2], seconds[-1]], strict=True):
        row |= {"layers_milliseconds": 1e3 * layers, "layers_words_a_second": row["words"] / layers}
        if row is not rows[-1]:
            row |= {"milliseconds": 1e3 * step, "words_a_second": row["words"] / step}
    for row in rows:
        row["layers_over_lstm"] = rows[-1]["layers_words_a_second"] / row["layers_words_a_second"]
        if row is not rows[-1]:
            row["over_last"] = rows[-2]["words_a_second"] / row["words_a_second"]
    return rows


def _sizes(
    name: str, config: LanguageModelConfig, parameters: int, settings: TrainingSettings
) -> dict[str, Any]:
    return {
        "model": name,
        "hidden": config.hidden,
        "num_parameters": parameters,
        "words": settings.batch_size * settings.steps,
    }


def training_step(model: LanguageModel, settings: TrainingSettings) -> Step:
    """A step of training on a batch of random words: loss, gradient, clipping, optimiser.

    The state is carried from call to call, as from batch to batch.
    """
    optimizer = build_optimizer(settings, model.parameters())
    ids, targets = _random_words(model, settings)
    state: list[Any] = [None]

    def run() -> None:
        optimizer.zero_grad()
        hidden, after = model(ids, state[0])
        state[0] = model.detach(after)
        loss = F.cross_entropy(model.scores(hidden.flatten(0, 1)), targets.flatten())
        (loss * settings.steps if settings.sum_steps else loss).backward()
        if settings.clip:
            nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()

    return run


def layers_step(model: LanguageModel, settings: TrainingSettings) -> Step:
    """Forward and backward of the recurrent layers alone, on random vectors."""
    shape = (settings.steps, settings.batch_size, model.config.embedding_size)
    return _recurrent_step(model.encoder, shape)


def _recurrent_step(layers: nn.Module, shape: tuple[int, ...]) -> Step:
    """Forward and backward of layers, gradients of their input and parameters."""
    parameters = list(layers.parameters())
    x = torch.randn(shape, device=parameters[0].device, requires_grad=True)

    def run() -> None:
        output = layers(x)[0]
        torch.autograd.grad(output.sum(), [x, *parameters])

    return run


def _random_words(model: LanguageModel, settings: TrainingSettings) -> tuple[Tensor, Tensor]:
    shape = (settings.steps + 1, settings.batch_size)
    words = torch.randint(model.config.num_words, shape, device=model.bias.device)
    return words[:-1], words[1:]


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """The rows as text."""
    last = rows[-2]["model"]
    return Table(
        "training, medians of interleaved rounds; layers: the recurrent layers alone, forward and "
        "backward",
        (
            "model",
            "width",
            "parameters",
            "ms a step",
            "words a s",
            f"/ {last}",
            "layers, ms",
            "words a s",
            "/ nn.LSTM",
        ),
        [
            (
                row["model"],
                str(row["hidden"]),
                f"{row['num_parameters']:,}",
                *_figures(row),
                f"{row['layers_milliseconds']:.1f}",
                f"{row['layers_words_a_second']:,.0f}",
                f"{row['layers_over_lstm']:.2f}",
            )
            for row in rows
        ],
    )


def _figures(row: dict[str, Any]) -> tuple[str, str, str]:
    if "milliseconds" not in row:
        return ("-", "-", "-")
    return (
        f"{row['milliseconds']:.1f}",
        f"{row['words_a_second']:,.0f}",
        f"{row['over_last']:.2f}",
    )

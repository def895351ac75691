"""``python -m benchmarks.speed``: how much time the layers take, and beside what.

Without further words all tables are printed, of sizes fit for the device. ``epoch`` and ``scale``,
which train the networks of the molecule benchmark, and ``language``, which trains language models,
have options of their own. Every figure is a median over rounds; in each round all layers run once,
one after the other in a random order, so that a slow moment of the machine falls on all of them. A
layer stands beside its own bare matrix products: ``torch.mm`` of its weights with inputs of the
same shapes, weights that share an input in one product, and the two products of each one's
backward.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.harness.table import Table
from benchmarks.speed import activation, epoch, graph, kbrn, language, rkm, scale, sequence
from pyg_kernels.ops import backend

PROGRAM = "benchmarks.speed"
TEXT_LAYERS = {"sequence": sequence, "rkm": rkm, "kbrn": kbrn}
TABLES = ("scan", *TEXT_LAYERS, "graph", "activation")
TRAINING = {"epoch": epoch.main, "scale": scale.main, "language": language.main}


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {PROGRAM}",
        description="Forward and backward time of the layers beside their bare matrix products "
        "and the layers that they replace.",
        epilog=f"Training: python -m {PROGRAM} epoch --help, scale --help and language --help.",
    )
    parser.add_argument(
        "what",
        nargs="?",
        default="all",
        choices=["all", *TABLES],
        help="which tables (default: %(default)s)",
    )
    parser.add_argument(
        "--molecules",
        choices=["random", "cep", "chembl"],
        default="random",
        help=f"graph: {graph.MOLECULES['cpu']} molecules, on a GPU {graph.MOLECULES['cuda']}: "
        "random ones, of CEP (downloaded unless in ROOT/raw) or of the ChEMBL assay inside RDKit "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--root", default="data/cep", help="graph: CEP's folder (default: %(default)s)"
    )
    parser.add_argument(
        "--channels", type=int, default=175, help="graph: width (default: %(default)s)"
    )
    parser.add_argument(
        "--shapes",
        nargs="+",
        type=_shape,
        metavar="TxBxD",
        help="scan, sequence, rkm, kbrn: steps, texts and channels (default: by table and device)",
    )
    parser.add_argument(
        "--inputs",
        nargs=2,
        type=int,
        metavar=("N", "UNITS"),
        help="activation: inputs of a unit and units (default: by device)",
    )
    parser.add_argument(
        "--centers",
        nargs="+",
        type=int,
        metavar="N",
        help="activation: centres of a unit (default: by device)",
    )
    parser.add_argument("--rounds", type=int, default=15, help="at most (default: %(default)s)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=30,
        help="after which no further round of a table begins (default: %(default)s)",
    )
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (default: %(default)s)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: %(default)s)")
    parser.add_argument("--out", help="folder for metrics.json")
    options = parser.parse_args(words)
    for name in ("channels", "rounds", "threads"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} {getattr(options, name)}: expected at least 1")
    for name in ("inputs", "centers"):
        if min(getattr(options, name) or [1]) < 1:
            parser.error(f"--{name}: expected numbers of at least 1")
    return options


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    words = list(sys.argv[1:] if words is None else words)
    if words[:1] and words[0] in TRAINING:
        return TRAINING[words[0]](words[1:])
    options = parse(words)
    try:
        device = _device(options.device)
        with as_input_error():
            if options.out:
                Path(options.out).mkdir(parents=True, exist_ok=True)
        torch.set_num_threads(options.threads)
        torch.backends.cudnn.allow_tf32 = False  # as products outside of cuDNN by default
        content = _measured(options, device)
    except InputError as error:
        print(f"{PROGRAM}: error: {error}", file=sys.stderr)
        return 2
    if options.out:
        (Path(options.out) / "metrics.json").write_text(json.dumps(content, indent=2))
    return 0


def _measured(options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Measures and prints; returns what goes into the file."""
    on_cuda = device.type == "cuda"
    setting: dict[str, Any] = {
        "dtype": "float32",
        "device": torch.cuda.get_device_name(device) if on_cuda else str(device),
        "threads": options.threads,
        "rounds": options.rounds,
        "torch": torch.__version__,
        "ops": backend(device),
    }
    tables = []
    for name in TABLES if options.what == "all" else (options.what,):
        for size, rows, table in _tables(name, options, device):
            print(", ".join(f"{key}: {value}" for key, value in setting.items()))
            print(table.text(), end="\n\n", flush=True)
            tables.append({"table": name, "size": size, "rows": rows})
    return {**setting, "tables": tables}


def _tables(
    name: str, options: argparse.Namespace, device: torch.device
) -> Iterator[tuple[str, list[dict[str, Any]], Table]]:
    """The tables of a name: what was measured, the rows, and the rows as text."""
    rounds, limit, kind = options.rounds, options.seconds, device.type
    if name == "graph":
        graphs = graph.load_graphs(options.molecules, options.root, options.channels, device)
        rows = graph.measure_graph_layers(graphs, rounds, limit)
        size = f"{options.molecules} molecules: {graphs.shape}"
        yield size, rows, graph.table(rows, size)
    elif name == "activation":
        inputs = tuple(options.inputs or activation.SHAPES[kind])
        centers = options.centers or activation.CENTERS[kind]
        rows = activation.measure_activations(inputs, centers, rounds, device, limit)
        yield sequence.named(inputs), rows, activation.table(rows, inputs)
    elif name == "scan":
        for shape in options.shapes or sequence.SCAN_SHAPES[kind]:
            rows = sequence.measure_scan_bandwidth(rounds, device, shape, limit)
            yield sequence.named(shape), rows, sequence.bandwidth_table(rows)
    else:
        for shape in options.shapes or TEXT_LAYERS[name].SHAPES[kind]:
            layers = TEXT_LAYERS[name].contestants(shape[2])
            rows = sequence.measure_sequence_layers(layers, shape, rounds, device, limit)
            yield sequence.named(shape), rows, sequence.table(rows, shape)


def _shape(word: str) -> tuple[int, int, int]:
    try:
        steps, texts, channels = (int(number) for number in word.split("x"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{word!r}: expected TxBxD, such as 35x20x640") from None
    if min(steps, texts, channels) < 1:
        raise argparse.ArgumentTypeError(f"{word!r}: expected numbers of at least 1")
    return steps, texts, channels


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"--device {name}: expected cpu or cuda") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"--device {name}: no CUDA device is available")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(f"--device {name}: torch sees {torch.cuda.device_count()} CUDA devices")
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"--device {name}: expected cpu or cuda")
    return device


if __name__ == "__main__":
    sys.exit(main())

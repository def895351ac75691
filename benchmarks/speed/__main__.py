"""``python -m benchmarks.speed``: how much time the layers take, and beside what.

``epoch`` and ``scale``, which train the networks of the molecule benchmark, and ``language``, which
trains language models, have options of their own. Every figure is a median over rounds; in each
round all layers run once, one after the other in a random order, so that a slow moment of the
machine falls on all of them. A layer stands beside its own bare matrix products: ``torch.mm`` of
its weights with inputs of the same shapes, weights that share an input in one product, and the two
products of each one's backward.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.speed import activation, epoch, graph, kbrn, language, rkm, scale, sequence
from pyg_kernels.ops import backend

PROGRAM = "benchmarks.speed"
TEXT_LAYERS = {"sequence": sequence, "rkm": rkm, "kbrn": kbrn}
TRAINING = {"epoch": epoch.main, "scale": scale.main, "language": language.main}


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {PROGRAM}",
        description="Forward and backward time of the layers beside their bare matrix products "
        "and the layers that they replace.",
        epilog=f"Training: python -m {PROGRAM} epoch --help, scale --help and language --help.",
    )
    parser.add_argument("what", choices=["graph", *TEXT_LAYERS, "activation"], help="which layers")
    parser.add_argument(
        "--molecules",
        choices=["cep", "chembl"],
        default="cep",
        help=f"graph: {graph.MOLECULES} molecules of CEP (downloaded unless in ROOT/raw) or of the "
        "ChEMBL assay inside RDKit (default: %(default)s)",
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
        help="sequence, rkm, kbrn: steps, texts and channels (default: "
        f"{_named(sequence.SHAPES)}, for rkm the first {len(rkm.SHAPES)}, for kbrn "
        f"{_named(kbrn.SHAPES)})",
    )
    parser.add_argument(
        "--inputs",
        nargs=2,
        type=int,
        default=activation.SHAPE,
        metavar=("N", "UNITS"),
        help="activation: inputs of a unit and units (default: 10000 20)",
    )
    parser.add_argument(
        "--centers",
        nargs="+",
        type=int,
        default=activation.CENTERS,
        metavar="N",
        help="activation: centres of a unit (default: 10 100 300 1000)",
    )
    parser.add_argument("--rounds", type=int, default=15, help="default: %(default)s")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (default: %(default)s)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: %(default)s)")
    parser.add_argument("--out", help="folder for metrics.json")
    options = parser.parse_args(words)
    for name in ("channels", "rounds", "threads"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} {getattr(options, name)}: expected at least 1")
    for name in ("inputs", "centers"):
        if min(getattr(options, name)) < 1:
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
        content = _measured(options, device)
    except InputError as error:
        print(f"{PROGRAM}: error: {error}", file=sys.stderr)
        return 2
    if options.out:
        (Path(options.out) / "metrics.json").write_text(json.dumps(content, indent=2))
    return 0


def _measured(options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Measures and prints; returns what goes into the file."""
    setting: dict[str, Any] = {
        "dtype": "float32",
        "device": str(device),
        "threads": options.threads,
        "rounds": options.rounds,
        "torch": torch.__version__,
        "ops": backend(device),
    }
    if options.what == "graph":
        graphs = graph.load_graphs(options.molecules, options.root, options.channels, device)
        setting["molecules"] = f"{graph.MOLECULES} of {options.molecules}"
        setting["shape"] = graphs.shape
        _print(setting)
        rows = graph.measure_graph_layers(graphs, options.rounds)
        print(graph.table(rows, graphs.shape).text())
        return {**setting, "layers": rows}
    _print(setting)
    if options.what == "activation":
        size = options.inputs[0], options.inputs[1]
        rows = activation.measure_activations(size, options.centers, options.rounds, device)
        print(activation.table(rows, size).text())
        return {**setting, "inputs": size, "activations": rows}
    shapes = []
    layers = TEXT_LAYERS[options.what]
    for shape in options.shapes or layers.SHAPES:
        contestants = layers.contestants(shape[2])
        rows = sequence.measure_sequence_layers(contestants, shape, options.rounds, device)
        print(sequence.table(rows, shape).text(), end="\n\n", flush=True)
        shapes.append({"shape": sequence.named(shape), "layers": rows})
    content = {**setting, "shapes": shapes}
    if device.type == "cuda" and options.what == "sequence":
        content["scan"] = sequence.measure_scan_bandwidth(options.rounds, device)
        print(sequence.bandwidth_table(content["scan"]).text())
    return content


def _named(shapes: Sequence[sequence.Shape]) -> str:
    return " ".join(sequence.named(shape) for shape in shapes)


def _print(setting: dict[str, Any]) -> None:
    print(", ".join(f"{key}: {value}" for key, value in setting.items()), flush=True)


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
        raise InputError("--device cuda: no CUDA device is available")
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"--device {name}: expected cpu or cuda")
    return device


if __name__ == "__main__":
    sys.exit(main())

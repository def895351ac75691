"""``python -m benchmarks.speed``: times layers and training beside their matrix products."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from benchmarks.harness.errors import InputError, as_input_error, naming_extras, say
from benchmarks.harness.files import write_text
from benchmarks.harness.options import Command, Options, run_commands, setting
from benchmarks.harness.study import METRICS, machine
from benchmarks.harness.table import Table
from benchmarks.speed.scale import SCALE

PROGRAM = "benchmarks.speed"
PACKAGES = ("torch", "torch-geometric", "numpy", "numba", "triton", "pyg_kernels")
TableName = Literal["scan", "sequence", "rkm", "kbrn", "graph", "activation", "language", "epoch"]
TABLES: tuple[TableName, ...] = get_args(TableName)
OF_TEXTS = TABLES[:4]
DETAILS = f"""\
python -m {PROGRAM}                    the first six tables
python -m {PROGRAM} graph rkm          some of {", ".join(TABLES)}
python -m {PROGRAM} scale --help       featurising and training by number of molecules
python -m {PROGRAM} compare A B        ratios of the times in two metrics.json

Every figure is a median over rounds of the time of a forward and backward. In each round all layers
of a table run once, in a random order, so that a slow moment of the machine falls on all of them. A
layer stands beside its own bare matrix products: torch.mm of its weights with inputs of the same
shapes (one product for weights that share an input), and the two products of each one's backward.

scan: the bytes that must move, beside a copy. activation: MiB is the peak memory of a step, above
that before it. language: steps of training presets of benchmarks.language_model, and of their
recurrent layers alone. epoch: the first epoch of benchmarks.molecules through its own Trainer, and
its products alone, on random factors of the same shapes.

OUT/metrics.json has the rows, the machine and the versions.
"""


@dataclass(frozen=True, kw_only=True)
class Speed(Options):
    """What is timed.

    Args:
        tables: tables to measure
        device: device to time: cpu, cuda or cuda:N
        threads: number of CPU threads
        rounds: largest number of rounds
        seconds: seconds after which no further round of a table begins
        shapes: sizes TxBxD, such as 35x20x640, in scan, sequence, rkm and kbrn: T steps, B texts, D
            channels (by table and device)
        models: networks of benchmarks.molecules to train in epoch
        out: folder to write metrics.json to
    """

    tables: tuple[TableName, ...] = setting(TABLES[:6], positional=True)
    device: str = setting("cpu")
    threads: int = setting(2, least=1, most=1024)
    rounds: int = setting(15, least=1)
    seconds: float = setting(30.0, least=0)
    shapes: tuple[str, ...] = setting(())
    models: tuple[str, ...] = setting(("wl-gated", "wl", "gine"), "model")
    out: str | None = setting(None)

    def check(self) -> None:
        self.sizes()
        for name, those in (("shapes", OF_TEXTS), ("models", ("epoch",))):
            if getattr(self, name) != getattr(Speed, name) and {*self.tables}.isdisjoint(those):
                raise InputError(f"--{name} goes with {', '.join(those)}")

    def sizes(self) -> list[tuple[int, int, int]]:
        found = []
        for word in self.shapes:
            numbers = [int(part) if part.isdecimal() else 0 for part in word.split("x")]
            if len(numbers) != 3 or min(numbers) < 1:
                raise InputError(f"--shapes {word}: expected TxBxD, such as 35x20x640")
            found.append((numbers[0], numbers[1], numbers[2]))
        return found


@dataclass(frozen=True, kw_only=True)
class Compare(Options):
    """Two results.

    Args:
        before: metrics.json of one run, or its folder
        after: metrics.json of another run, or its folder
    """

    before: str = setting("", positional=True)
    after: str = setting("", positional=True)


def carry_out(options: Speed) -> None:
    """Times layers beside their bare matrix products and the layers that they replace."""
    with as_input_error():
        if options.out:
            Path(options.out).mkdir(parents=True, exist_ok=True)
            if (Path(options.out) / METRICS).exists():
                raise InputError(f"--out {options.out} holds a {METRICS}; give another --out")
    with naming_extras("mol,bench"):
        import torch

        from benchmarks.harness.devices import torch_device
        from pyg_kernels.ops import backend
    device = torch_device(options.device)
    if device.type == "mps":
        raise InputError("--device mps: expected cpu or cuda")
    torch.set_num_threads(options.threads)
    torch.backends.cudnn.allow_tf32 = False  # as is the default for products outside of cuDNN
    on_cuda = device.type == "cuda"
    content: dict[str, Any] = {
        "device": torch.cuda.get_device_name(device) if on_cuda else str(device),
        "ops": backend(device),
        **machine(PACKAGES),
        "options": options.values(),
    }
    tables: list[dict[str, Any]] = []
    for name in options.tables:
        for size, rows, table in _measured(name, options, device):
            if not tables:
                say(_described(content))
            say(f"\n{table.text()}")
            tables.append({"table": name, "size": size, "rows": rows})
            if options.out:
                with as_input_error():
                    text = json.dumps({**content, "tables": tables}, indent=1)
                    write_text(Path(options.out) / METRICS, text)


def compare(options: Compare) -> None:
    """Compares the times in two metrics.json."""
    before, after = _read(options.before), _read(options.after)
    times = _times(after)
    rows = [
        (*key, f"{mine:.2f}", f"{times[key]:.2f}", f"{times[key] / mine:.3f}")
        for key, mine in _times(before).items()
        if key in times
    ]
    if not rows:
        raise InputError(f"{options.before} and {options.after} have no row in common")
    caption = f"A: {_described(before)}\nB: {_described(after)}"
    if alone := len(_times(before).keys() ^ times.keys()):
        caption += f"\n{alone} rows that only one of them has are left out"
    header = ("table", "size", "name", "A, ms", "B, ms", "B / A")
    say(Table(caption, header, rows).text())


def _measured(
    name: str, options: Speed, device: Any
) -> Iterator[tuple[str, list[dict[str, Any]], Table]]:
    """The tables of this name: for each, what was measured, its rows, and the rows as text."""
    from benchmarks.speed.cases import cases
    from benchmarks.speed.timing import table

    if name == "epoch":
        with naming_extras("mol,bench"):
            from benchmarks.speed.epoch import measure_epochs
        size = "chembl, batches of 128"
        rows = measure_epochs(options.models, options.device, options.rounds, options.seconds)
        yield size, rows, table(f"epoch: {size}, times of a batch", rows)
        return
    for case in cases(name, options.sizes(), device):
        rows = case.measure(options.rounds, device, options.seconds)
        yield case.size, rows, table(f"{name}: {case.size}", rows)


def _described(content: dict[str, Any]) -> str:
    threads = content.get("options", content)["threads"]
    return (
        f"{content['processor']}, {content['cores']} cores, device: {content['device']}, "
        f"ops: {content['ops']}, torch {content['versions']['torch']}, "
        f"threads: {threads}"
    )


def _read(name: str) -> dict[str, Any]:
    path = Path(name) / METRICS if Path(name).is_dir() else Path(name)
    with as_input_error():
        text = path.read_text(encoding="utf-8")
    try:
        content = dict(json.loads(text))
        _described(content)
        if not all(time > 0 for time in _times(content).values()):
            raise ValueError("expected times above 0")
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged or no result of {PROGRAM}") from error
    return content


def _times(content: dict[str, Any]) -> dict[tuple[str, str, str], float]:
    return {
        (table["table"], table["size"], row["name"]): row["milliseconds"]
        for table in content["tables"]
        for row in table["rows"]
    }


COMMANDS = {
    "": Command(Speed, carry_out, DETAILS),
    "scale": SCALE,
    "compare": Command(Compare, compare),
}
main = partial(run_commands, PROGRAM, COMMANDS)

if __name__ == "__main__":
    sys.exit(main())

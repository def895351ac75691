"""What is timed and how; nothing here imports torch."""

from dataclasses import dataclass
from typing import Literal, get_args

from benchmarks.harness.errors import InputError
from benchmarks.harness.options import Options, setting

TableName = Literal["scan", "sequence", "rkm", "kbrn", "graph", "activation", "language", "epoch"]
TABLES: tuple[TableName, ...] = get_args(TableName)


@dataclass(frozen=True, kw_only=True)
class Speed(Options):
    """What is timed.

    Args:
        tables: which tables
        device: cpu, cuda or cuda:N
        threads: of the CPU
        rounds: at most
        seconds: after which no further round of a table begins
        shapes: TxBxD, such as 35x20x640, steps, texts and channels of scan, sequence, rkm and kbrn
            (by table and device)
        models: networks of benchmarks.molecules, of epoch
        out: folder for metrics.json
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

    def sizes(self) -> list[tuple[int, int, int]]:
        """The shapes as numbers."""
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
        after: that of another one
    """

    before: str = setting("", positional=True)
    after: str = setting("", positional=True)

"""``python -m benchmarks.speed scale``: featurising and training, by number of molecules."""

import csv
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from benchmarks.harness.errors import InputError, MeasurementError, naming_extras
from benchmarks.harness.options import Command, Results, setting
from benchmarks.harness.study import Record, Report, Study, in_own_process, rows_table

PROGRAM = "benchmarks.speed scale"
FULL = 2_300_000  # molecules of the Clean Energy Project
EPOCHS = 15  # of the benchmark on its sample
BATCH_SIZE = 128
WARM_BATCHES = 10  # at most so many of the first do not count
MIB = 2**20
UNIT = 1 if sys.platform == "darwin" else 1024  # of getrusage's memory
DETAILS = f"""\
Writes the molecules of a data set many times over, their atoms in other orders, featurises the file
into shards and trains on these through the molecule benchmark. Every stage runs in a process of its
own; its memory is the peak of its resident memory, and the largest of the processes that it starts.
Hours are those that {FULL:,} molecules would take here, featurised, in one epoch and in {EPOCHS}.
Exit status: 0 done, 1 a stage failed, 2 bad input, 130 interrupted.
"""


@dataclass(frozen=True, kw_only=True)
class Scale(Results):
    """What is measured.

    Args:
        dataset: molecules inside RDKit, or the Clean Energy Project's
        root: folder of the latter
        molecules: numbers of molecules
        model: a network of benchmarks.molecules, of its default size
        steps: batches to train
        workers: processes that featurise
        threads: of training
        keep: keep files and shards in OUT/runs
    """

    dataset: Literal["chembl", "cep"] = setting("chembl")
    root: str = setting("data/cep", free=True)
    molecules: tuple[int, ...] = setting((30_000, 300_000, FULL), least=20, free=True)
    model: str = setting("wl")
    steps: int = setting(200, least=1)
    workers: int = setting(os.cpu_count() or 1, least=1)
    threads: int = setting(2, least=1)
    keep: bool = setting(False, free=True)


@dataclass(frozen=True)
class Molecules:
    """A number of molecules."""

    number: int

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.number:09}"

    @property
    def title(self) -> str:
        """What is shown of it."""
        return f"{self.number:,} molecules"


def carry_out(options: Scale) -> None:
    """Measures the numbers of molecules that are not measured yet and prints the table."""
    with naming_extras("mol,bench"):
        import pyg_kernels.chem  # noqa: F401
        from benchmarks.speed.epoch import check_networks
    check_networks([options.model])
    study = Study(PROGRAM, options, Path(options.out or "runs/scale"), packages=("torch", "rdkit"))
    study.open()
    cells = [Molecules(number) for number in sorted(options.molecules)]
    study.run(cells, partial(measured, options), outcome=lambda r: f"{r['seconds']:,.0f} s")

    def mebibytes(stage: str, key: str) -> Callable[[Record], str]:
        return lambda r: f"{r[stage][key] / MIB:,.0f}"

    columns: dict[str, Callable[[Record], object]] = {
        "molecules": lambda r: f"{r['molecules']:,}",
        "featurised a s": lambda r: f"{r['featurise']['molecules_a_second']:,.0f}",
        "bytes each": lambda r: f"{r['featurise']['bytes'] / r['molecules']:,.0f}",
        "trained a s": lambda r: f"{r['train']['molecules_a_second']:,.0f}",
        "featurising, MiB": mebibytes("featurise", "peak"),
        "a worker": mebibytes("featurise", "worker_peak"),
        "training, MiB": mebibytes("train", "peak"),
        "featurising, h": lambda r: f"{hours(r)[0]:.2f}",
        "epoch, h": lambda r: f"{hours(r)[1]:.2f}",
        f"{EPOCHS} epochs, h": lambda r: f"{hours(r)[2]:.2f}",
    }
    caption = f"{options.dataset}, {options.model}; h: what {FULL:,} molecules would take here"
    study.finish(Report([rows_table(caption, study.records(), columns)]))


def hours(record: Record) -> tuple[float, float, float]:
    """Of featurising the full set, of an epoch on its training part, and of all epochs."""
    featurising = FULL / record["featurise"]["molecules_a_second"] / 3600
    train = record["train"]
    epoch = FULL * train["training_share"] / train["molecules_a_second"] / 3600
    return featurising, epoch, featurising + EPOCHS * epoch


def measured(options: Scale, cell: Molecules, folder: Path) -> Record:
    """The three stages of a number of molecules; half of one is begun anew."""
    path, shards = folder / "molecules.csv", folder / "shards"
    for old in (path, shards):
        shutil.rmtree(old, ignore_errors=True) if old.is_dir() else old.unlink(missing_ok=True)
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # of the processes
    root = str(Path(options.root).expanduser().resolve())
    began = time.perf_counter()
    _carried_out(replicate, path, options.dataset, root, cell.number)
    found = {
        "featurise": _carried_out(featurise, path, shards, cell.number, options.workers),
        "train": _carried_out(train, path, shards, options.model, options.steps),
    }
    if not options.keep:
        shutil.rmtree(shards)
        path.unlink()
    return {"molecules": cell.number, "seconds": time.perf_counter() - began, **found}


def _carried_out(stage: Callable[..., Record], *arguments: object) -> Record:
    """What a stage gives in a fresh process, with the peaks of its memory in bytes."""
    try:
        return in_own_process(_with_peaks, stage, *arguments)
    except (InputError, MeasurementError) as error:
        raise type(error)(f"{stage.__name__}: {error}") from error
    except (OSError, ValueError, RuntimeError) as error:
        raise MeasurementError(f"{stage.__name__}: {type(error).__name__}: {error}") from error


def _with_peaks(stage: Callable[..., Record], *arguments: object) -> Record:
    found = stage(*arguments)
    kinds = {"peak": resource.RUSAGE_SELF, "worker_peak": resource.RUSAGE_CHILDREN}
    peaks = {name: UNIT * resource.getrusage(kind).ru_maxrss for name, kind in kinds.items()}
    return {**found, **peaks}


def replicate(path: Path, dataset: str, root: str, number: int) -> Record:
    """Writes the molecules of a data set so many times that they are `number`."""
    from pyg_kernels.datasets import CEP, ChEMBLSulfonamides

    molecules = CEP(root) if dataset == "cep" else ChEMBLSulfonamides()
    targets = [
        ["" if value != value else repr(value) for value in row]
        for row in molecules.targets.tolist()
    ]
    write_replicas(path, molecules.smiles, targets, molecules.target_names, number)
    return {}


def write_replicas(
    path: Path,
    smiles: Sequence[str],
    targets: Sequence[Sequence[str]],
    names: Sequence[str],
    number: int,
) -> None:
    """Writes a CSV file of `number` molecules; the copies of a molecule follow each other."""
    import numpy as np

    times, rest = divmod(number, len(smiles))
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["smiles", *names])
        for position, (one, row) in enumerate(zip(smiles, targets, strict=True)):
            generator = np.random.default_rng([0, position])
            copies = orders(one, times + (position < rest), generator)
            writer.writerows([copy, *row] for copy in copies)


def orders(smiles: str, times: int, generator: Any) -> Iterator[str]:
    """A SMILES as it stands, then with its atoms in other orders, drawn at random.

    None of the others has the atoms in the order of the first; a single atom has but one order.
    """
    from rdkit import Chem

    if times:
        yield smiles
    molecule: Any = Chem.MolFromSmiles(smiles)
    for _ in range(times - 1):
        atoms = molecule.GetNumAtoms()
        order = generator.permutation(atoms).tolist()
        while atoms > 1 and order[0] == 0:  # the atom that comes first is written first
            order = generator.permutation(atoms).tolist()
        yield Chem.MolToSmiles(Chem.RenumberAtoms(molecule, order), canonical=False)


def featurise(path: Path, shards: Path, number: int, workers: int) -> Record:
    """Featurises the file into shards."""
    from pyg_kernels.datasets import MoleculeShards

    started = time.perf_counter()
    molecules = MoleculeShards.from_csv(path, shards, num_workers=workers)
    seconds = time.perf_counter() - started
    if len(molecules) != number:
        raise RuntimeError(f"{number} molecules were written, {len(molecules)} are in the shards")
    return {"molecules_a_second": number / seconds, "bytes": molecules.num_bytes}


def train(path: Path, shards: Path, model: str, steps: int) -> Record:
    """Trains some batches of the shards through the benchmark; the first few do not count."""
    from benchmarks.molecules.options import Options
    from benchmarks.speed.epoch import BatchClock, comparison, train_batches

    compared = Options(data=(str(path),), shards=str(shards), model=(model,), device="cpu")
    split, (network,) = comparison(compared)
    clock = BatchClock()
    train_batches(split, network, clock, steps, batch_size=BATCH_SIZE)
    warm = min(WARM_BATCHES, len(clock.seconds) // 2)
    molecules, seconds = sum(clock.molecules[warm:]), sum(clock.seconds[warm:])
    return {
        "molecules_a_second": molecules / seconds,
        "training_share": len(split.parts["train"]) / len(split.data.source),
    }


SCALE = Command(Scale, carry_out, "Rates, bytes and peak memory by number of molecules.", DETAILS)

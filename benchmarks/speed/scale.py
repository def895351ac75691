"""``python -m benchmarks.speed scale``: featurising and training, by number of molecules."""

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from benchmarks.harness.errors import InputError, RunError, as_input_error, naming_extras
from benchmarks.harness.options import Command, Results, setting
from benchmarks.harness.study import Record, Report, Study, in_own_process, rows_table

PROGRAM = "benchmarks.speed scale"
FULL = 2_300_000  # molecules of the Clean Energy Project
WARM_BATCHES = 10  # at most this many batches at the start do not count
MIB = 2**20
DETAILS = """\
Writes the molecules of a data set many times over, their atoms in other orders, featurises the file
into shards and trains on these through the molecule benchmark. Every stage runs in a process of its
own; its memory is the peak of its resident memory.
Exit status: 0 done, 1 a stage failed, 2 bad input, 130 interrupted.
"""


@dataclass(frozen=True, kw_only=True)
class Scale(Results):
    """What is measured.

    Args:
        dataset: molecules to copy: those inside RDKit, or the Clean Energy Project's
        root: folder of the Clean Energy Project
        molecules: how many molecules to write, one measurement for each number
        model: network of benchmarks.molecules to train, in its default size
        steps: number of batches to train
        workers: number of processes that featurise
        threads: number of CPU threads in training
    """

    dataset: Literal["chembl", "cep"] = setting("chembl")
    root: str = setting("data/cep", free=True)
    molecules: tuple[int, ...] = setting((30_000, 300_000, FULL), least=20, free=True)
    model: str = setting("wl")
    steps: int = setting(200, least=1)
    workers: int = setting(os.cpu_count() or 1, least=1)
    threads: int = setting(2, least=1)


class Molecules(NamedTuple):
    """A number of molecules to measure."""

    number: int
    name: str
    title: str


def carry_out(options: Scale) -> None:
    """Measures rates, bytes and peak memory by number of molecules."""
    with naming_extras("mol,bench"):
        from benchmarks.speed.epoch import check_networks
    check_networks([options.model])
    if not options.report:
        with as_input_error():
            _source(options.dataset, options.root)
    study = Study(PROGRAM, options, Path(options.out or "runs/scale"), packages=("torch", "rdkit"))
    study.open()
    numbers = sorted(options.molecules)
    cells = [Molecules(number, f"{number:09}", f"{number:,} molecules") for number in numbers]
    study.run(cells, partial(measured, options), outcome=lambda r: f"{r['seconds']:,.0f} s")

    columns: dict[str, Callable[[Record], object]] = {
        "molecules": lambda r: f"{r['molecules']:,}",
        "featurised a s": lambda r: f"{r['featurise']['molecules_a_second']:,.0f}",
        "bytes each": lambda r: f"{r['featurise']['bytes'] / r['molecules']:,.0f}",
        "trained a s": lambda r: f"{r['train']['molecules_a_second']:,.0f}",
        "featurising, MiB": lambda r: f"{r['featurise']['peak'] / MIB:,.0f}",
        "training, MiB": lambda r: f"{r['train']['peak'] / MIB:,.0f}",
    }
    caption = f"{options.dataset}, {options.model}"
    study.finish(Report([rows_table(caption, study.records(), columns)]))


def measured(options: Scale, cell: Molecules, folder: Path) -> Record:
    """Runs the three stages for a number of molecules; if interrupted, they start again."""
    path, shards = folder / "molecules.csv", folder / "shards"
    shutil.rmtree(shards, ignore_errors=True)  # of an interrupted call
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # read by the processes of the stages
    root = str(Path(options.root).expanduser().resolve())
    began = time.perf_counter()
    _carried_out(replicate, path, options.dataset, root, cell.number)
    found = {
        "featurise": _carried_out(featurise, path, shards, cell.number, options.workers),
        "train": _carried_out(train, path, shards, options.model, options.steps),
    }
    shutil.rmtree(shards)
    path.unlink()
    return {"molecules": cell.number, "seconds": time.perf_counter() - began, **found}


def _carried_out(stage: Callable[..., Record], *arguments: object) -> Record:
    """The result of a stage, run in a fresh process, with its peak memory in bytes."""
    try:
        return in_own_process(_with_peaks, stage, *arguments)
    except (InputError, RunError) as error:
        raise type(error)(f"{stage.__name__}: {error}") from error
    except (OSError, ValueError, RuntimeError) as error:
        raise RunError(f"{stage.__name__}: {type(error).__name__}: {error}") from error


def _with_peaks(stage: Callable[..., Record], *arguments: object) -> Record:
    from benchmarks.harness.memory import largest_resident

    return {**stage(*arguments), "peak": largest_resident()}


def replicate(path: Path, dataset: str, root: str, number: int) -> Record:
    """Writes `number` molecules: copies of a data set's, side by side, with shuffled atoms."""
    import pandas
    from rdkit import Chem

    molecules = _source(dataset, root)
    times, rest = divmod(number, len(molecules.smiles))
    counts = [times + (place < rest) for place in range(len(molecules.smiles))]
    table = pandas.DataFrame(molecules.targets.numpy(), columns=molecules.target_names)
    table.insert(0, "smiles", molecules.smiles)
    table = table.loc[table.index.repeat(counts)]
    copies: list[str] = []
    for smiles, count in zip(molecules.smiles, counts, strict=True):
        molecule: Any = Chem.MolFromSmiles(smiles)
        copies += Chem.MolToRandomSmilesVect(molecule, count, randomSeed=1)
    table.assign(smiles=copies).to_csv(path, index=False)
    return {}


def _source(dataset: str, root: str) -> Any:
    """The data set whose molecules are written many times over."""
    from pyg_kernels.datasets import CEP, ChEMBLSulfonamides

    return CEP(root) if dataset == "cep" else ChEMBLSulfonamides()


def featurise(path: Path, shards: Path, number: int, workers: int) -> Record:
    """Featurises the file into shards."""
    from pyg_kernels.datasets import MoleculeShards

    started = time.perf_counter()
    molecules = MoleculeShards.from_csv(path, shards, num_workers=workers)
    seconds = time.perf_counter() - started
    if len(molecules) != number:
        raise RuntimeError(f"{number} molecules were written, {len(molecules)} are in the shards")
    size = sum(file.stat().st_size for file in shards.iterdir())
    return {"molecules_a_second": number / seconds, "bytes": size}


def train(path: Path, shards: Path, model: str, steps: int) -> Record:
    """Trains on batches of the shards by the molecule benchmark; the first few do not count."""
    from benchmarks.molecules.options import Options
    from benchmarks.speed.epoch import BatchClock, comparison, train_batches

    compared = Options(data=(str(path),), shards=str(shards), model=(model,), device="cpu")
    split, (network,) = comparison(compared)
    clock = BatchClock()
    train_batches(split, network, clock, steps)
    warm = min(WARM_BATCHES, len(clock.seconds) // 2)
    molecules, seconds = sum(clock.molecules[warm:]), sum(clock.seconds[warm:])
    return {
        "molecules_a_second": molecules / seconds,
        "training_share": len(split.parts["train"]) / len(split.data.source),
    }


SCALE = Command(Scale, carry_out, DETAILS)

"""Tables of any length with new columns: predictions and vectors, chunk by chunk."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from pyg_kernels.chem import standardize_many
from pyg_kernels.chem.processes import stream_chunks, work_alone
from pyg_kernels.datasets.public_file import file_sha256
from pyg_kernels.kernels import MoleculeSimilarity
from pyg_kernels.molecules.command import say
from pyg_kernels.molecules.inputs import Molecules, read_valid
from pyg_kernels.molecules.methods import KernelMethod
from pyg_kernels.molecules.resuming import BEGUN, check_begun, output_folder, write_begun
from pyg_kernels.molecules.runs import Run, predictions, rounded, warn_of_intervals
from pyg_kernels.molecules.training_data import extra_numbers, read_rows
from pyg_kernels.tables import (
    LISTED,
    FileError,
    TableWriter,
    find_column,
    listed,
    stream_table,
    table_files,
)

CHUNK_SIZE = 2000  # rows that are read, predicted and written at a time
# Options that change what predict and embed write.
TOLD = ("command", "coverage", "far", "smiles_column", "encoding", "skip_invalid")

Part = tuple[str, pd.DataFrame]  # a file, and some of its rows
Columns = dict[str, Any]


class Annotator(ABC):
    """Adds columns to rows of a table; takes and returns a file's name and some of its rows."""

    limit = 0.0

    def __init__(self, runs: Sequence[Run], options: Namespace) -> None:
        self.runs, self.options = runs, options
        members = [member for run in runs for member in run.estimator.members_]
        kernels = any(isinstance(member, KernelMethod) for member in members)
        features = {run.estimator.featurizer for run in runs}
        # Reads molecules once for all networks; None, with kernels or other features: RDKit does.
        self.featurizer = None if kernels or len(features) > 1 else features.pop()
        self.on_cpu = kernels or members[0].options.torch_device().type == "cpu"
        # On CPU several processes may run this, and each reads alone; for CUDA several read.
        self.num_workers = 0 if self.on_cpu else None
        known = read_valid(["C"], self.featurizer)[0]
        nothing = {name: [0.0] for run in runs for name in run.extra_columns}
        self.new = list(self._columns(pd.DataFrame(nothing, index=[0]), known, ""))

    @abstractmethod
    def columns(self, molecules: Sequence[Molecules]) -> Columns:
        """The new columns of the molecules, which are given for each run with its extra columns."""

    def _columns(self, frame: pd.DataFrame, molecules: Molecules, path: str) -> Columns:
        names = [run.extra_columns for run in self.runs]
        return self.columns(
            [molecules.with_extra(own, extra_numbers(frame, own, path)) for own in names]
        )

    def __call__(self, part: Part) -> Part:
        """The rows with the new columns, which are empty where a molecule cannot be read."""
        path, frame = part
        column = find_column(frame.columns, self.options.smiles_column, path, "--smiles-column")
        there = [name for name in self.new if name in frame.columns]
        if there:
            raise FileError(
                f"{path}: it has {', '.join(there)} already, which this command adds: "
                "rename or remove the columns"
            )
        how = self.options.skip_invalid, self.featurizer, self.num_workers
        molecules, known = read_rows(frame, column, path, *how, tell=False)
        columns: Columns = {name: np.zeros(0) for name in self.new}
        if len(known):
            try:
                columns = self._columns(known, molecules, path)
            except FileError:
                raise
            except ValueError as error:
                where = f"{path}, lines {known.index[0]} to {known.index[-1]}"
                raise FileError(f"{where}: {error}") from error
        found = pd.DataFrame(rounded(np.stack(list(columns.values()), 1)), known.index)
        added = found.set_axis(list(columns), axis=1).reindex(frame.index)
        return path, pd.concat([frame, added], axis=1)


class Predictor(Annotator):
    """Adds the averaged predictions of runs, and the similarity to their training molecules.

    The variance of several runs is the mean of their variances plus the variance of their means.
    The ends of intervals, and probabilities, are averaged.
    """

    def __init__(self, runs: Sequence[Run], options: Namespace) -> None:
        self.nearest: MoleculeSimilarity | None = None
        seen = [text for run in runs for text in run.training_smiles()]
        if options.far != 0 and seen:
            self.nearest = MoleculeSimilarity().fit(seen)
            self.limit = self.nearest.threshold_ if options.far is None else options.far
        super().__init__(runs, options)

    def columns(self, molecules: Sequence[Molecules]) -> Columns:
        found = [
            predictions(run.estimator, run, own, self.options.coverage)
            for run, own in zip(self.runs, molecules, strict=True)
        ]
        columns = {name: np.mean([each[name] for each in found], axis=0) for name in found[0]}
        for name in [name for name in columns if name.startswith("std_")]:
            mean = "predicted_" + name.removeprefix("std_")
            within = np.mean([each[name] ** 2 for each in found], axis=0)
            columns[name] = np.sqrt(within + np.var([each[mean] for each in found], axis=0))
        smiles = molecules[0].smiles
        if self.nearest is not None:
            if any(run.estimator.standardize for run in self.runs):
                smiles = standardize_many(smiles, num_workers=self.num_workers)[0]
            columns["similarity"] = self.nearest.nearest(smiles, self.num_workers).similarity
        elif self.options.far != 0:  # of runs whose training molecules are not known
            columns["similarity"] = np.full(len(smiles), np.nan)
        return columns


class Embedder(Annotator):
    """Adds the vectors of molecules, in columns v0, v1, ..."""

    def columns(self, molecules: Sequence[Molecules]) -> Columns:
        found = self.runs[0].estimator.transform(molecules[0])
        vectors = found.toarray() if hasattr(found, "toarray") else np.asarray(found)
        if not vectors.shape[1]:
            raise FileError(f"{self.options.runs[0]}: its model has no vectors of molecules")
        return {f"v{place}": column for place, column in enumerate(vectors.T)}


def predict(options: Namespace) -> None:
    """Predicts a table, or all tables of a folder, chunk by chunk; several runs are averaged.

    The column ``similarity`` is the similarity to the nearest training molecule, by
    :class:`~pyg_kernels.kernels.MoleculeSimilarity`. It is left out with ``--far 0``.
    """
    outputs = _outputs(options)
    runs = [Run(folder, options.trust) for folder in options.runs]
    for run in runs[1:]:
        if (run.names, run.classes) != (runs[0].names, runs[0].classes):
            raise FileError(f"{run.folder} predicts other targets than {runs[0].folder}")
    _annotate(Predictor(runs, options), outputs, options)
    for run in runs:
        warn_of_intervals(run.estimator, run, options.coverage)


def embed(options: Namespace) -> None:
    """Writes the vectors of the molecules of a table, or of all tables of a folder."""
    outputs = _outputs(options)
    _annotate(Embedder([Run(options.runs[0], options.trust)], options), outputs, options)


def _outputs(options: Namespace) -> dict[str, Path]:
    """The output file for each input file; for a folder, files of the same names in another.

    Files appear under their names only when they are whole, and ``--resume`` keeps them.
    """
    data, out = Path(options.data), Path(options.out)
    outputs = {str(data): out}
    if data.is_dir():
        outputs = {str(path): out / path.name for path in table_files(data)}
        read = set(map(_identity, outputs))
        there = [file for file in outputs.values() if file.is_file()]
        if same := [file for file in there if _identity(file) in read]:
            raise FileError(f"{same[0]} is a file that is read: expected another for --out")
        output_folder(out, options.overwrite or options.resume).mkdir(parents=True, exist_ok=True)
    for file in outputs.values():
        if not (options.resume and file.is_file()):
            TableWriter(file, options.overwrite)  # raises early if something is in its way
    return outputs


def _identity(path: str | Path) -> tuple[int, int]:
    """What identifies a file, by whatever name."""
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _annotate(annotator: Annotator, outputs: dict[str, Path], options: Namespace) -> None:
    """Writes all files with new columns, and warns of molecules that are left out or far.

    A hidden file beside them records runs and options, and the table that each file was made of.
    ``--resume`` refuses other ones, and makes files anew that were there before the first call.
    """
    out, is_folder = Path(options.out), Path(options.data).is_dir()
    # For a single file it is written only with --resume, or if it is there already.
    begun = out / f".{BEGUN}" if is_folder else out.with_name(f".{out.name}.{BEGUN}")
    told = {name: getattr(options, name) for name in TOLD if hasattr(options, name)}
    told["content of RUN"] = [run.digest() for run in annotator.runs]
    compared, made, was_begun = False, dict[str, str](), begun.is_file()
    if options.resume and (any(out.glob("[!.]*")) if is_folder else out.is_file()):
        compared = was_begun
        if compared:
            made = check_begun(begun, told, out)
        else:
            say(f"warning: it is not known with which run and options {out} was begun")
    # Computed before anything is read; a pipe, which cannot be read again, has none.
    digests = {path: file_sha256(Path(path)) if Path(path).is_file() else "" for path in outputs}
    if options.resume:
        outputs = _unfinished(outputs, digests, made, compared)
    if not outputs:
        return
    # Files that are there already are not in the record until they are replaced.
    made |= {file.name: digests[path] for path, file in outputs.items() if not file.is_file()}
    done, is_first = 0, True
    distant = f"molecules are far from the training set (similarity below {annotator.limit:.2g})"
    parts = _annotated(annotator, options, list(outputs))
    for path, of_file in groupby(parts, key=lambda part: part[0]):
        numbers: Counter[str] = Counter()
        first: dict[str, list[int]] = {}
        with TableWriter(outputs[path], options.overwrite or options.resume, path) as writer:
            for _, frame in of_file:
                if not len(frame) and not is_folder:
                    raise FileError(f"{path}: there is no row below the header")
                writer.write(frame)
                told_of = {"invalid SMILES left out": frame[annotator.new].isna().all(axis=1)}
                if annotator.limit:
                    told_of[distant] = frame["similarity"] < annotator.limit
                for what, chosen in told_of.items():
                    lines = frame.index[chosen]
                    numbers[what] += len(lines)
                    first[what] = [*first.get(what, ()), *lines][: LISTED + 1]
                done += len(frame)
                say(f"{done:,} molecules done")
        name = outputs[path].name
        if (is_folder or options.resume or was_begun) and (is_first or name not in made):
            made[name], is_first = digests[path], False
            write_begun(begun, told, made)
        for what, number in numbers.items():
            if number:
                see = ": see the column similarity" if what == distant else ""
                say(f"warning: {path}: {number:,} {what}, lines {listed(first[what])}{see}")
    say(f"wrote {options.out}: {done:,} rows, {len(annotator.new):,} new columns")


def _unfinished(
    outputs: dict[str, Path], digests: dict[str, str], made: dict[str, str], compared: bool
) -> dict[str, Path]:
    """The files that are still to be made; raises if a file was made of another table.

    Files that are kept without a record are added to `made`.
    """
    there = {path: file for path, file in outputs.items() if file.is_file()}
    kept = {path: file for path, file in there.items() if not compared or file.name in made}
    for path, file in kept.items():
        known, now = made.setdefault(file.name, ""), digests[path]
        if known and now and known != now:
            raise ValueError(f"--resume: {file} was made of another table: remove it")
        if compared and not (known and now):
            say(f"warning: it is not known of which table {file} was made")
    if kept:
        say(f"{len(kept)} of {len(outputs)} files are finished and kept")
    return {path: file for path, file in outputs.items() if path not in kept}


def read_parts(files: Iterable[str], encoding: str) -> Iterator[Part]:
    """The rows of files, some at a time; a file without rows gives an empty frame."""
    for path in files:
        frames = stream_table(path, CHUNK_SIZE, encoding=encoding, keep_blank=True)
        first = next(frames)
        yield path, first
        yield from ((path, frame) for frame in frames if len(frame))


def _annotated(annotator: Annotator, options: Namespace, files: Sequence[str]) -> Iterator[Part]:
    """All parts with new columns, in order, from this process, several, or a cluster."""
    if options.ray:
        from pyg_kernels.molecules.on_ray import mapped

        return mapped(annotator, files, options.encoding, options.ray)
    parts = read_parts(files, options.encoding)
    some = list(islice(parts, 2))
    workers = torch.get_num_threads() if annotator.on_cpu and len(some) > 1 else 1
    function = annotator if workers == 1 else partial(on_one_thread, annotator)
    return stream_chunks(function, chain(some, parts), None, workers)


def on_one_thread(function: Callable[[Part], Part], part: Part) -> Part:
    """Calls a function on one thread, in one of several processes."""
    work_alone()
    if torch.get_num_threads() > 1:
        torch.set_num_threads(1)
    return function(part)

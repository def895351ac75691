"""Tables of any length with new columns: predictions and vectors, chunk by chunk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from pyg_kernels.chem import standardize_many
from pyg_kernels.chem.processes import stream_chunks, work_alone
from pyg_kernels.molecules.inputs import Molecules, read_valid
from pyg_kernels.molecules.methods import KernelMethod
from pyg_kernels.molecules.resuming import BEGUN, check_begun, output_folder, write_begun
from pyg_kernels.molecules.runs import Run, predictions, rounded
from pyg_kernels.molecules.training_data import LISTED, Say, extra_numbers, read_rows
from pyg_kernels.tables import FileError, TableWriter, find_column, stream_table, table_files

CHUNK_SIZE = 2000  # rows that are read, predicted and written at a time
# Options that change what predict and embed write.
TOLD = ("command", "coverage", "far", "smiles_column", "encoding", "skip_invalid")

Part = tuple[str, pd.DataFrame]  # a file, and some of its rows
Columns = dict[str, Any]


class Annotator(ABC):
    """Adds columns to rows of a table: takes and gives a file's name and some of its rows.

    Args:
        runs: What the columns come from.
        options: Of ``pyg-kernels predict`` or ``embed``.

    Attributes:
        new: The names of the columns.
    """

    def __init__(self, runs: Sequence[Run], options: Namespace) -> None:
        self.runs = runs
        self.smiles_column, self.skip_invalid = options.smiles_column, options.skip_invalid
        members = [member for run in runs for member in run.estimator.members_]
        kernels = any(isinstance(member, KernelMethod) for member in members)
        features = {run.estimator.featurizer for run in runs}
        # What reads the molecules: once for all networks, or RDKit for kernel methods.
        self.featurizer = None if kernels or len(features) > 1 else features.pop()
        self.on_cpu = kernels or members[0].options.torch_device().type == "cpu"
        # On CPU this may be one of several processes; for CUDA several can read.
        self.num_workers = 0 if self.on_cpu else None
        known = read_valid(["C"], self.featurizer)[0]
        nothing = {name: [0.0] for run in runs for name in run.extra_columns}
        self.new = list(self.columns(pd.DataFrame(nothing, index=[0]), known, ""))

    @abstractmethod
    def columns(self, frame: pd.DataFrame, molecules: Molecules, path: str) -> Columns:
        """The new columns of rows whose molecules were read."""

    def molecules_of(
        self, run: Run, frame: pd.DataFrame, molecules: Molecules, path: str
    ) -> Molecules:
        """The molecules with the extra columns of a run."""
        extra = extra_numbers(frame, run.extra_columns, path)
        return molecules.with_extra(run.extra_columns, extra)

    def __call__(self, part: Part) -> Part:
        """The rows with the new columns, which are empty where a molecule cannot be read.

        Raises:
            FileError: If one cannot be read and is not to be skipped, or columns do not fit.
        """
        path, frame = part
        column = find_column(frame.columns, self.smiles_column, path, "--smiles-column")
        there = [name for name in self.new if name in frame.columns]
        if there:
            raise FileError(
                f"{path}: it has {', '.join(there)} already, which this command adds: "
                "rename or remove the columns"
            )
        molecules, known = read_rows(
            frame, column, path, self.skip_invalid, self.featurizer, self.num_workers
        )
        columns: Columns = {name: np.zeros(0) for name in self.new}
        if len(known):
            columns = self.columns(known, molecules, path)
        found = pd.DataFrame(rounded(np.stack(list(columns.values()), 1)), known.index)
        added = found.set_axis(list(columns), axis=1).reindex(frame.index)
        return path, pd.concat([frame, added], axis=1)


class Predictor(Annotator):
    """Adds the predictions of runs, which are averaged, and the similarity to what they have seen.

    The variance of several runs is the mean of theirs and the variance of their means; the ends of
    intervals, and probabilities, are averaged.

    Args:
        runs: Runs with the same targets.
        options: Of ``pyg-kernels predict``.

    Attributes:
        limit: The similarity below which a molecule is far.
        warnings: What there is to say of all predictions.
    """

    def __init__(self, runs: Sequence[Run], options: Namespace) -> None:
        from pyg_kernels.kernels import MoleculeSimilarity

        self.coverage, self.nearest, self.limit = options.coverage, None, 0.0
        self.is_standardized = any(run.estimator.standardize for run in runs)
        seen = [text for run in runs for text in run.training_smiles()]
        self.is_wanted = options.far != 0
        if self.is_wanted and seen:
            self.nearest = MoleculeSimilarity().fit(seen)
            self.limit = self.nearest.threshold_ if options.far is None else options.far
        self.warnings: list[str] = []
        self.say: Say = self.warnings.append
        super().__init__(runs, options)
        self.say = _nothing  # others would be the same for each chunk

    def columns(self, frame: pd.DataFrame, molecules: Molecules, path: str) -> Columns:
        """The mean of the runs' predictions."""
        found = []
        for run in self.runs:
            own = self.molecules_of(run, frame, molecules, path)
            found.append(predictions(run.estimator, run, own, self.coverage, self.say))
        columns = {name: np.mean([each[name] for each in found], axis=0) for name in found[0]}
        for name in columns:
            if name.startswith("std_"):
                mean = "predicted_" + name.removeprefix("std_")
                within = np.mean([each[name] ** 2 for each in found], axis=0)
                columns[name] = np.sqrt(within + np.var([each[mean] for each in found], axis=0))
        if self.nearest is not None:
            smiles = molecules.smiles
            if self.is_standardized:
                smiles = standardize_many(smiles, num_workers=self.num_workers)[0]
            nearest = self.nearest.nearest(smiles, self.num_workers)
            columns["similarity"] = nearest.similarity
        elif self.is_wanted:  # of a run that does not know what it has learned from
            columns["similarity"] = np.full(len(frame), np.nan)
        return columns


class Embedder(Annotator):
    """Adds the vectors of molecules, in columns v0, v1, ..."""

    def columns(self, frame: pd.DataFrame, molecules: Molecules, path: str) -> Columns:
        """The columns of the vectors."""
        own = self.molecules_of(self.runs[0], frame, molecules, path)
        found = self.runs[0].estimator.transform(own)
        vectors = found.toarray() if hasattr(found, "toarray") else np.asarray(found)
        return {f"v{place}": column for place, column in enumerate(vectors.T)}


def _nothing(text: str) -> None:
    pass


def predict(options: Namespace, say: Say) -> None:
    """Predicts a table, or all tables of a folder, chunk by chunk; several runs are averaged.

    The column ``similarity`` is that to the nearest training molecule, of
    :class:`~pyg_kernels.kernels.MoleculeSimilarity`; it is left out with ``--far 0``.
    """
    outputs = _outputs(options, say)
    runs = [Run(folder, options.trust) for folder in options.runs]
    first = runs[0]
    for run in runs[1:]:
        if (run.names, run.classes) != (first.names, first.classes):
            raise FileError(f"{run.folder} predicts other targets than {first.folder}")
    predictor = Predictor(runs, options)
    _annotate(predictor, outputs, options, say, predictor.limit)
    for warning in predictor.warnings:
        say(warning)


def embed(options: Namespace, say: Say) -> None:
    """Writes the vectors of the molecules of a table, or of all tables of a folder."""
    outputs = _outputs(options, say)
    _annotate(Embedder([Run(options.runs[0], options.trust)], options), outputs, options, say)


def _outputs(options: Namespace, say: Say) -> dict[str, Path]:
    """What is to be written for each file that is to be read.

    Of a folder they are files of the same names in another one. With ``--resume`` those that are
    there are kept: files appear under their names only when they are whole. A hidden file beside
    them tells with which runs and options they were begun; others are refused.
    """
    data, out = Path(options.data), Path(options.out)
    if not data.is_dir():
        outputs = {str(data): out}
    else:
        if out.absolute() == data.absolute():
            raise FileError(f"{out} is the folder that is read: expected another for --out")
        output_folder(out, options.overwrite or options.resume).mkdir(parents=True, exist_ok=True)
        outputs = {str(path): out / path.name for path in table_files(data)}
    kept = [path for path, file in outputs.items() if options.resume and file.is_file()]
    if kept:
        say(f"{len(kept)} of {len(outputs)} files are finished and kept")
    outputs = {path: file for path, file in outputs.items() if path not in kept}
    for file in outputs.values():
        TableWriter(file, options.overwrite)  # refuses what is in its way before work begins
    return outputs


def _annotate(
    annotator: Annotator, outputs: dict[str, Path], options: Namespace, say: Say, limit: float = 0.0
) -> None:
    """Writes all files with new columns, and warns of molecules that are left out or far."""
    out, is_folder = Path(options.out), Path(options.data).is_dir()
    # For a single file it is written only with --resume, which alone reads it.
    begun = out / f".{BEGUN}" if is_folder else out.with_name(f".{out.name}.{BEGUN}")
    told = {name: getattr(options, name) for name in TOLD if hasattr(options, name)}
    told["content of RUN"] = [run.digest() for run in annotator.runs]
    compared = False
    if options.resume and (any(out.glob("[!.]*")) if is_folder else out.is_file()):
        compared = begun.is_file()
        if compared:
            check_begun(begun, told, out, say)
        else:
            say(f"warning: it is not known with which run and options {out} was begun")
    if not outputs:
        return
    size = CHUNK_SIZE
    if options.ray:
        from pyg_kernels.molecules.on_ray import mapped

        parts = mapped(annotator, list(outputs), options.encoding, size, options.ray)
    else:
        read = read_parts(list(outputs), options.encoding, size)
        some = list(islice(read, 2))
        workers = torch.get_num_threads() if annotator.on_cpu and len(some) > 1 else 1
        function = annotator if workers == 1 else partial(on_one_thread, annotator)
        parts = stream_chunks(function, chain(some, read), None, workers)
    done = 0
    for path, of_file in groupby(parts, key=lambda part: part[0]):
        invalid, far = _Lines(), _Lines()
        with TableWriter(outputs[path], options.overwrite) as writer:
            for _, frame in of_file:
                if not len(frame) and not is_folder:
                    raise FileError(f"{path}: there is no row below the header")
                writer.write(frame)
                unread = frame[annotator.new].isna().all(axis=1)
                invalid.add(frame.index[unread])
                if limit:
                    far.add(frame.index[frame["similarity"] < limit])
                done += len(frame)
                say(f"{done:,} molecules done")
            if not compared:  # before the first file is there, and not if it fails
                compared = True
                if not options.resume:  # else a later --resume would take them for its own
                    for file in outputs.values():
                        file.unlink(missing_ok=True)
                if is_folder or options.resume or begun.is_file():
                    write_begun(begun, told)
        if invalid.number:
            say(f"warning: {path}: {invalid.number:,} invalid SMILES left out, {invalid}")
        if far.number:
            say(
                f"warning: {path}: {far.number:,} molecules are far from the training set "
                f"(similarity below {limit:.2g}), {far}: see the column similarity"
            )
    say(f"wrote {options.out}: {done:,} rows, {len(annotator.new):,} new columns")


def read_parts(files: Sequence[str], encoding: str, chunk_size: int) -> Iterator[Part]:
    """The rows of files, some at a time; of a file without any, its columns.

    Raises:
        FileError: If a file cannot be read.
    """
    for path in files:
        is_empty, header = True, None
        for frame in stream_table(path, chunk_size, encoding=encoding, keep_blank=True):
            header = frame[:0]
            if len(frame):
                is_empty = False
                yield path, frame
        if is_empty and header is not None:
            yield path, header


def on_one_thread(function: Callable[[Part], Part], part: Part) -> Part:
    """What a function gives in one of several processes."""
    work_alone()
    if torch.get_num_threads() > 1:
        torch.set_num_threads(1)
    return function(part)


class _Lines:
    """How many lines there are, and the first of them."""

    def __init__(self) -> None:
        self.number = 0
        self.first: list[int] = []

    def add(self, lines: Any) -> None:
        self.number += len(lines)
        self.first += lines[: LISTED - len(self.first)].tolist()

    def __str__(self) -> str:
        more = ", ..." if self.number > len(self.first) else ""
        return "lines " + ", ".join(map(str, self.first)) + more

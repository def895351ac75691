"""The results folder: what is trained, explained and drawn, each once."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from benchmarks.harness.arguments import shown
from benchmarks.harness.devices import torch_device
from benchmarks.harness.errors import InputError, as_input_error, naming_files, say
from benchmarks.harness.explanations.measures import (
    Fidelity,
    NumberNet,
    precision,
    selected_atoms,
)
from benchmarks.harness.explanations.methods import explain, explainer_of
from benchmarks.harness.explanations.options import (
    BATCH_SIZE,
    EPOCHS,
    FREE,
    SMARTS,
    TEXT_DATASETS,
    TEXT_EPOCHS,
    Options,
)
from benchmarks.harness.explanations.report import FILES, SENTENCE_FILES, Results, write_report
from benchmarks.harness.explanations.sentences import (
    Sentence,
    TextAttributor,
    chosen_texts,
    trained_classifier,
)
from benchmarks.harness.files import write_text
from benchmarks.harness.flags import open_folder
from benchmarks.harness.study import CONFIGURATION, RECORD, RUNS
from benchmarks.harness.text.data import TextChoice, TextData, load_texts
from benchmarks.molecules.data import PARTS, MoleculeSet, Split, load_set
from benchmarks.molecules.models import models_of
from benchmarks.molecules.options import Options as Comparison
from benchmarks.molecules.report import FinishedCell
from benchmarks.molecules.runs import Cell
from pyg_kernels.molecules import load

PROGRAM = "benchmarks.explanations"
EXPLAINED = "explained"
MEASURES = ("precision", "fid+", "fid-", "change without", "change alone", "seconds")
Record = dict[str, Any]


@dataclass(frozen=True)
class Planted:
    """Molecules whose target is the number of a functional group.

    Args:
        split: The molecules, the target and the split.
        evidence: ``(N,)`` bool of each molecule, True for atoms of the group.
    """

    split: Split
    evidence: Sequence[Tensor]

    def explained(self, number: int, seed: int) -> list[int]:
        """Positions of test molecules that have the group, drawn at random if there are more.

        Raises:
            InputError: If the test part has none.
        """
        places = [int(i) for i in self.split.parts["test"] if self.evidence[i].any()]
        if not places:
            raise InputError("no molecule of the test part has the group of --smarts")
        order = torch.randperm(len(places), generator=torch.Generator().manual_seed(seed))
        return sorted(places[i] for i in order[:number].tolist())

    def chance(self, places: Sequence[int]) -> float:
        """The mean share of a molecule's atoms that belong to the group."""
        return float(np.mean([self.evidence[i].double().mean().item() for i in places]))


def planted(measured: Split, smarts: str) -> Planted:
    """The same molecules with the number of a group as their target, split at random.

    Raises:
        InputError: If there is no such group, or all molecules have equally many.
    """
    from benchmarks.corpora.planted_substructure import PlantedSubstructure

    with as_input_error():
        source: Any = PlantedSubstructure(measured.data.source, smarts)
    parts = {part: getattr(source.split, part).numpy() for part in PARTS}
    return Planted(Split(MoleculeSet("planted", source, "rmse"), "random", parts), source.evidence)


def spread_places(split: Split, number: int) -> list[int]:
    """Positions of test molecules from the smallest to the largest first target."""
    y = split.targets("test")[:, 0]
    known: NDArray[Any] = split.parts["test"][~np.isnan(y)]
    order = known[y[~np.isnan(y)].argsort()]
    chosen = np.linspace(0, len(order) - 1, min(number, len(order))).round().astype(int)
    return [int(place) for place in order[chosen]]


def given_run(path: str, target: str) -> Any:
    """The estimator of ``--run``.

    Raises:
        InputError: If it is none, or of another target than `target`.
    """
    try:
        settings = json.loads((Path(path) / "run.json").read_text(encoding="utf-8"))
        found, task = settings["targets"][0], settings["task"]
        estimator = load(Path(path) / "model")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"--run {path} is no finished run: {error}") from error
    if found != target:
        raise InputError(f"--run {path} was trained on the target {found!r}, not on {target!r}")
    if task != "regression":
        raise InputError(f"--run {path} classifies, but {target!r} is a number here")
    return estimator


def attributed(estimator: Any, split: Split, places: Sequence[int], best: int) -> Any:
    """The exact shares of atoms, bonds and walks of some molecules.

    Raises:
        InputError: If the estimator is no sum over walks; the message names it.
    """
    with as_input_error():
        return estimator.explain([split.data.source.smiles[i] for i in places], k=best)


class Study:
    """All that is read before anything is trained, and what is then done with it.

    Args:
        options: What to explain.

    Raises:
        InputError: If something cannot be read, or the run has no attribution.
    """

    def __init__(self, options: Options) -> None:
        self.options, self.out, self.show = options, Path(options.out), shown(options)
        self.device = torch_device(options.device)
        read = Comparison(
            data=(options.data,),
            root=options.root,
            smiles_column=options.smiles_column,
            target_columns=tuple(options.target_columns or ()),
        )
        self.measured = load_set(options.data, read).split("random", None)
        self.target: str = self.measured.data.source.target_names[0]
        self.given = None if options.run is None else given_run(options.run, self.target)
        if self.given is not None:
            attributed(self.given, self.measured, spread_places(self.measured, 1), 1)
        self.texts: TextData | None = None
        self.words: list[list[str]] = []
        if options.text_root is not None:
            dataset = options.text_dataset or TEXT_DATASETS[0]
            self.texts = load_texts(TextChoice(dataset=dataset, root=options.text_root))
            self.words = chosen_texts(options.sentences or [], self.texts, options.drawn)
        self.planted = planted(self.measured, options.smarts or SMARTS[options.data])
        self.places = self.planted.explained(options.molecules, options.seed)

    def open_folder(self, words: Sequence[str]) -> None:
        """Makes the results folder, or finds the interrupted study in it.

        Raises:
            InputError: If it holds something else, or was made with other options.
        """
        run = self.options.run
        weights = None if run is None else Path(run) / "model" / "manifest.json"
        digests = {
            "the measured target": self.measured.digest,
            "the planted target": self.planted.split.digest,
            "--text-root": "" if self.texts is None else self.texts.identity()["digest"],
            "--run": "" if weights is None else weights.read_text(encoding="utf-8"),
        }
        open_folder(self.out, PROGRAM, self.options, FREE, digests, words, _remove_results)
        with as_input_error():
            (self.out / EXPLAINED).mkdir(exist_ok=True)

    def carry_out(self) -> Results:
        """Trains, explains, writes the report; what is finished in the folder is taken from it.

        Raises:
            InputError: If results cannot be written.
            KeyboardInterrupt: If interrupted, with a hint how to continue.
        """
        try:
            results = self._results()
        except KeyboardInterrupt:
            raise KeyboardInterrupt("continue with the same command and --resume") from None
        with naming_files(self.out):
            write_report(self.out, results)
        return results

    def _results(self) -> Results:
        options = self.options
        estimator, run = self._trained(self.planted.split, "planted")
        with self._progress() as tell:
            records = self._compared(estimator, tell)
        drawn = self.places[: options.drawn]
        runs: dict[str, Record] = {"planted": run}
        if self.given is not None:
            measured, runs["measured"] = self.given, {"run": options.run}
        else:
            measured, runs["measured"] = self._trained(self.measured, "measured")
        chosen = spread_places(self.measured, options.drawn)
        sentences: list[Sentence] = []
        if self.texts is not None:
            epochs = options.text_epochs or TEXT_EPOCHS
            folder = self.out / RUNS / "texts"
            classifier, runs["texts"] = trained_classifier(
                self.texts, epochs, options.seed, folder, options.device, self.show
            )
            attributor = TextAttributor(classifier.cpu(), options.best)
            sentences = [attributor(words) for words in self.words]
        return Results(
            about=f"{options.data}: the number of {options.smarts or SMARTS[options.data]}",
            records=records,
            evidence=[self.planted.evidence[place] for place in drawn],
            chance=self.planted.chance(self.places),
            planted=attributed(estimator, self.planted.split, drawn, options.best),
            counts=[float(self.planted.split.data.targets[place, 0]) for place in drawn],
            measured=attributed(measured, self.measured, chosen, options.best),
            values=[float(self.measured.data.targets[place, 0]) for place in chosen],
            sentences=sentences,
            runs=runs,
            target=self.target,
        )

    def _trained(self, split: Split, name: str) -> tuple[Any, Record]:
        """The network of some molecules, trained in the folder unless it lies there."""
        options, folder = self.options, self.out / RUNS / name
        known = options.data if options.data in EPOCHS else "chembl"
        compared = Comparison(
            data=(options.data,),
            model=(options.model,),
            hidden=options.hidden,
            layers=options.layers,
            norm=options.norm,  # type: ignore[arg-type]
            epochs=options.epochs or EPOCHS[known],
            batch_size=options.batch_size or BATCH_SIZE[known],
            lr=options.lr,
            device=options.device,
        )
        (model,) = models_of(compared, split, options.data)
        if not (folder / RECORD).exists():
            if not options.quiet:
                say(f"training on the {name} target ...")
            Cell(split, model, options.seed).write(folder, self.show == "bar")
        return load(folder / "model"), FinishedCell.read(folder / RECORD).record

    def _compared(
        self, estimator: Any, tell: Callable[[str, int], None]
    ) -> dict[str, list[Record]]:
        """The records of each method, one a molecule; those in the folder are taken from it."""
        return {name: self._records(estimator, name, tell) for name in self.options.methods}

    def _records(self, estimator: Any, name: str, tell: Callable[[str, int], None]) -> list[Record]:
        path, options, source = self._file(name), self.options, self.planted.split.data.source
        done = {record["molecule"]: record for record in read_records(path)}
        todo = [place for place in self.places if place not in done]
        (member,) = estimator.members_
        net = member.net.net.to(self.device)
        number = NumberNet(net, float(member.mean[0]), float(member.std[0]))
        fidelity = Fidelity(number, int(self.planted.split.data.targets.max()))
        explainer = explainer_of(name, net, options.gnn_epochs, options.ig_steps)
        if todo:  # what is done once must not be counted as the time of the first molecule
            explain(explainer, source[todo[0]].to(self.device), options.seed)
        for place in todo:
            molecule, evidence = source[place].to(self.device), self.planted.evidence[place]
            found = explain(explainer, molecule, options.seed + place)
            selected = selected_atoms(found.nodes, int(evidence.sum()))
            done[place] = {
                "molecule": place,
                "smiles": molecule.smiles,
                "precision": precision(selected, evidence),
                **fidelity(molecule, selected),
                "seconds": found.seconds,
                "nodes": found.nodes.tolist(),
                "edges": found.edges.tolist(),
            }
            with naming_files(path):
                write_text(path, json.dumps(list(done.values())))
            tell(name, len(done))
        return [done[place] for place in self.places]

    def _file(self, name: str) -> Path:
        return self.out / EXPLAINED / f"{name}.json"

    @contextmanager
    def _progress(self) -> Iterator[Callable[[str, int], None]]:
        """What to call after each explained molecule."""
        number = len(self.places)
        total = number * len(self.options.methods)
        with tqdm(total=total, desc="explaining", disable=self.show != "bar", leave=False) as bar:

            def tell(name: str, done: int) -> None:
                bar.set_postfix_str(name, refresh=False)
                bar.update()
                if self.show == "lines" and done == number:
                    say(f"{name}: {number} molecules explained")

            yield tell


def read_records(path: Path) -> list[Record]:
    """The records of a method that lie in a file, none where there is no file.

    Raises:
        InputError: If the file is damaged.
    """
    if not path.exists():
        return []
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
        if all({"molecule", "nodes", "edges", *MEASURES} <= set(record) for record in records):
            return list(records)
    except (OSError, ValueError, TypeError):
        pass
    raise InputError(f"{path} is damaged; remove it to explain its molecules again")


def _remove_results(out: Path) -> None:
    """Removes what a study wrote and nothing else."""
    for folder in (RUNS, EXPLAINED):
        shutil.rmtree(out / folder, ignore_errors=True)
    for path in out.glob(SENTENCE_FILES):
        path.unlink()
    for name in (*FILES, CONFIGURATION):
        (out / name).unlink(missing_ok=True)

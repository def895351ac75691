"""The results folder: what is trained, explained and drawn, each once."""

import json
import platform
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from benchmarks.harness.devices import torch_device
from benchmarks.harness.errors import InputError, as_input_error, naming_files, say
from benchmarks.harness.explanations.attributions import Attribution, Attributor, scale_of
from benchmarks.harness.explanations.comparison import Comparison
from benchmarks.harness.explanations.measured import Given, given_network, measured_attributions
from benchmarks.harness.explanations.networks import (
    graph_network,
    trained_on_molecules,
    trained_on_texts,
)
from benchmarks.harness.explanations.planted import PlantedData, measured_data, planted_data
from benchmarks.harness.explanations.report import (
    FILES,
    SENTENCE_FILES,
    Results,
    table,
    write_report,
)
from benchmarks.harness.explanations.sentences import Sentence, TextAttributor, chosen_texts
from benchmarks.harness.explanations.setting import PROGRAM, Setting, Shown
from benchmarks.harness.files import write_text
from benchmarks.harness.folder import holds_results
from benchmarks.harness.molecules.data import MoleculeData
from benchmarks.harness.text.data import TextChoice, TextData, load_texts

CONFIGURATION = "configuration.json"
RUNS = "runs"
EXPLAINED = "explained"
PACKAGES = ("torch", "torch-geometric", "captum", "rdkit", "numpy")
FREE = ("root", "csv", "checkpoint")  # where files lie: Data.identity() has what is in them
IDENTITIES = {  # what a folder was made from, by the key of Data.identity()
    "measured": "from other molecules",
    "planted": "from other molecules",
    "texts": "from other texts",
    "checkpoint": "with another network of --checkpoint, or without one",
}
Record = dict[str, Any]


@dataclass(frozen=True)
class Data:
    """What is learned from.

    Args:
        measured: Molecules with their own targets.
        planted: The same with the number of a group.
        texts: ``None`` for molecules alone.
        given: A trained network of the measured target, ``None``: one is trained.
        sentences: The words of the texts that are explained.
    """

    measured: MoleculeData
    planted: PlantedData
    texts: TextData | None
    given: Given | None
    sentences: Sequence[Sequence[str]]

    def identity(self) -> Record:
        """Fingerprints of what decides the numbers: all but the sentences."""
        return {
            "measured": self.measured.digest(),
            "planted": self.planted.data.digest(),
            "texts": None if self.texts is None else self.texts.identity(),
            "checkpoint": None if self.given is None else self.given.digest,
        }


def load(setting: Setting, shown: Shown, progress: bool) -> Data:
    """Reads all that a study takes from files and from the command line, and tries the network.

    Raises:
        InputError: If something cannot be read, or the network has no attribution.
    """
    given = None if setting.checkpoint is None else given_network(setting.checkpoint)
    texts, sentences = None, list[list[str]]()
    if setting.texts is not None:
        texts = load_texts(TextChoice(dataset=setting.texts.dataset, root=setting.texts.root))
        sentences = chosen_texts(shown.sentences, texts, shown.drawn)
    measured = measured_data(setting.molecules, progress)
    if given is not None:
        given.check(measured)
    return Data(measured, planted_data(setting.molecules, measured), texts, given, sentences)


@dataclass(frozen=True)
class Study:
    """A setting in a folder.

    Args:
        setting: What decides the numbers.
        shown: What is drawn.
        methods: Those of the table.
        data: Of the setting.
        out (Path): The results folder.
        device (str): As on the command line.
        show (str): ``'bar'``, ``'lines'`` or ``'nothing'``.
        arguments: The words of the command line, to be written down.
    """

    setting: Setting
    shown: Shown
    methods: Sequence[str]
    data: Data
    out: Path
    device: str
    show: str
    arguments: Sequence[str] = ()

    def open_folder(self, resume: bool, overwrite: bool) -> None:
        """Makes the results folder, or finds the interrupted study in it.

        Raises:
            InputError: If the folder is not empty and neither is asked for, holds something else,
                or was made with another setting.
        """
        path = self.out / CONFIGURATION
        with as_input_error():
            if holds_results(self.out, CONFIGURATION, resume, overwrite):
                found = self._read(path)
                if resume:
                    self._compare(found)
                else:
                    self._remove_results()
            self.out.mkdir(parents=True, exist_ok=True)
            (self.out / EXPLAINED).mkdir(exist_ok=True)
            content = {
                "program": PROGRAM,
                "setting": asdict(self.setting),
                "data": self.data.identity(),
                "versions": {
                    "python": platform.python_version(),
                    **{name: version(name) for name in PACKAGES},
                },
                "threads": torch.get_num_threads(),
                "arguments": list(self.arguments),
            }
            write_text(path, json.dumps(content, indent=1))

    def carry_out(self) -> Results:
        """Trains, explains, writes the report; what is finished in the folder is taken from it.

        Raises:
            InputError: If results cannot be written, or a checkpoint has no attribution.
            DivergenceError: If a training error is no finite number.
            KeyboardInterrupt: If interrupted, with a hint how to continue.
        """
        try:
            results = self._results()
        except KeyboardInterrupt:
            raise KeyboardInterrupt("continue with the same command and --resume") from None
        with naming_files(self.out):
            write_text(self.out / "metrics.json", json.dumps(results.metrics(), indent=1))
            write_text(self.out / "table.md", f"{table(results).markdown()}\n")
            write_report(self.out, results)
        return results

    def _results(self) -> Results:
        setting, planted = self.setting, self.data.planted
        learner, run = trained_on_molecules(
            planted.data,
            setting.network,
            setting.seed,
            self._run("planted"),
            self.device,
            self.show,
        )
        device = torch_device(self.device)
        places = planted.explained(setting.compared.molecules, setting.seed)
        comparison = Comparison(
            planted=planted,
            places=places,
            net=graph_network(learner).to(device),
            scale=scale_of(learner),
            compared=setting.compared,
            seed=setting.seed,
            device=device,
            folder=self.out / EXPLAINED,
        )
        with self._progress(len(places)) as tell:
            records = comparison.run(self.methods, tell)
        drawn = places[: self.shown.drawn]
        attributor = Attributor(learner.cpu(), self.shown.best)
        attributions = [attributor(planted.data.molecules[place]) for place in drawn]
        measured, measured_run = self._measured_attributions()
        sentences, text_run = self._sentences()
        return Results(
            setting=setting,
            records=records,
            evidence=[planted.evidence[place] for place in drawn],
            chance=_chance(planted, places),
            planted=attributions,
            measured=measured,
            sentences=sentences,
            runs={"planted": run, "measured": measured_run, "texts": text_run},
            target=self.data.measured.molecules.target_names[0],
        )

    def _measured_attributions(self) -> tuple[list[Attribution], Record]:
        data, setting, given = self.data.measured, self.setting, self.data.given
        if given is not None:
            learner, run = given.learner, {"checkpoint": given.path}
        else:
            learner, run = trained_on_molecules(
                data, setting.network, setting.seed, self._run("measured"), self.device, self.show
            )
        return measured_attributions(learner.cpu(), data, self.shown.drawn, self.shown.best), run

    def _sentences(self) -> tuple[list[Sentence], Record | None]:
        setting, data = self.setting, self.data.texts
        if setting.texts is None or data is None:
            return [], None
        classifier, run = trained_on_texts(
            data, setting.texts, setting.seed, self._run("texts"), self.device, self.show
        )
        attributor = TextAttributor(classifier.cpu(), self.shown.best)
        return [attributor(words) for words in self.data.sentences], run

    def _run(self, name: str) -> Path:
        return self.out / RUNS / name

    @contextmanager
    def _progress(self, number: int) -> Iterator[Callable[[str, int], None]]:
        """What to call after each explained molecule."""
        total = number * len(self.methods)
        with tqdm(total=total, desc="explaining", disable=self.show != "bar", leave=False) as bar:

            def tell(name: str, done: int) -> None:
                bar.set_postfix_str(name, refresh=False)
                bar.update()
                if self.show == "lines" and done == number:
                    say(f"{name}: {number} molecules explained")

            yield tell

    def _read(self, path: Path) -> Record:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            if found["program"] == PROGRAM and isinstance(found["setting"], dict):
                return dict(found)
        except (ValueError, KeyError, TypeError):
            pass
        raise InputError(f"{path} is damaged or not of this module; remove its folder yourself")

    def _compare(self, found: Record) -> None:
        before, now = _flat(found["setting"]), _flat(json.loads(json.dumps(asdict(self.setting))))
        for name in sorted({*before, *now}):
            if name.rpartition(".")[2] not in FREE and before.get(name) != now.get(name):
                raise InputError(
                    f"--resume: {self.out} was made with {name} {before.get(name)!r}, "
                    f"not {now.get(name)!r}"
                )
        read, reads = found.get("data"), json.loads(json.dumps(self.data.identity()))
        for name, what in IDENTITIES.items():
            if not isinstance(read, dict) or name not in read or read[name] != reads[name]:
                raise InputError(f"--resume: {self.out} was made {what}")

    def _remove_results(self) -> None:
        """Removes what a study wrote and nothing else."""
        for folder in (RUNS, EXPLAINED):
            shutil.rmtree(self.out / folder, ignore_errors=True)
        for path in self.out.glob(SENTENCE_FILES):
            path.unlink()
        for name in (*FILES, CONFIGURATION):
            (self.out / name).unlink(missing_ok=True)


def _chance(planted: PlantedData, places: Sequence[int]) -> float:
    """The mean share of a molecule's atoms that belong to the group."""
    return float(torch.stack([planted.evidence[i].double().mean() for i in places]).mean())


def _flat(settings: Record, prefix: str = "") -> Record:
    """Nested settings as one dictionary with dotted names."""
    flat: Record = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat

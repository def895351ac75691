"""What a run was made with, and in what runs of one model differ."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

from benchmarks.harness.experiment import FREE_SETTINGS
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.molecules.baselines import BASELINES, BaselineConfig
from benchmarks.harness.molecules.data import DataChoice
from benchmarks.harness.molecules.gathering.folders import ResultsFolder
from benchmarks.harness.molecules.models import MODELS, ModelConfig
from benchmarks.harness.molecules.task import MoleculeTask
from benchmarks.harness.table import one_line
from benchmarks.harness.training import TrainingConfig

# Where molecules and split come from, and what is predicted: that they are the same is what the
# digest and the measure say.
SOURCES = (
    "dataset",
    "split",
    "split_seed",
    "root",
    "shards",
    "task",
    "csv",
    "smiles_column",
    "target_columns",
    "split_column",
    "skip_invalid",
)
IDENTITY = ("number", "digest")
COMMIT_LENGTH = 10
NOT_RECORDED = "not recorded"

Settings = dict[str, str]


def run_settings(folder: ResultsFolder, model: str) -> Settings:
    """What can change the results of a model, by name, as text.

    For what is fitted at once that is not how networks are trained, and for a network that is not
    trained neither its sizes nor the versions. An option that did not exist yet has its default,
    as in checkpoints.

    Args:
        folder: Where its runs lie.
        model (str): Its name.
    """
    configuration = folder.configuration
    found = _defaults(DataChoice) | data_settings(folder)
    if model in MODELS and not MODELS[model].trained:
        return found
    own = next(each for each in configuration["models"] if each["name"] == model)
    fitted_at_once = model in BASELINES
    found |= _defaults(BaselineConfig if fitted_at_once else ModelConfig)
    found |= dict(flat(without(own, ("name",))))
    if not fitted_at_once:
        found |= _defaults(TrainingConfig) | _defaults(OptimizerConfig) | training_settings(folder)
    return found | dict(flat(configuration["versions"])) | commits(configuration)


def data_settings(folder: ResultsFolder) -> Settings:
    """What was done to the molecules and the split besides choosing them."""
    data, identity = folder.configuration["data"], folder.configuration[MoleculeTask.items]
    return dict([*flat(without(data, SOURCES)), *flat(without(identity, IDENTITY))])


def training_settings(folder: ResultsFolder) -> Settings:
    """How networks were trained."""
    return dict(flat(without(folder.configuration["training"], FREE_SETTINGS)))


def commits(configuration: Mapping[str, Any]) -> Settings:
    """The version control's names of the code, where they were recorded."""
    found = {name: text for name, text in flat(configuration) if "commit" in name}
    changed = {name: "+" * text.endswith("+") for name, text in found.items()}
    return {
        name: f"{text.rstrip('+')[:COMMIT_LENGTH]}{changed[name]}"
        for name, text in found.items()
        if text != words(None)
    }


def differences(each: Sequence[Settings]) -> list[str]:
    """A note for each of several settings: the values of the names in which they differ.

    Args:
        each: Settings of one model.
    """
    names = dict.fromkeys(name for settings in each for name in settings)
    values = {name: [settings.get(name, NOT_RECORDED) for settings in each] for name in names}
    unequal = [name for name, found in values.items() if len(set(found)) > 1]
    return [", ".join(f"{name} {values[name][k]}" for name in unequal) for k in range(len(each))]


def flat(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and values as words; of groups within groups the innermost names."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value)
        else:
            yield one_line(str(name).replace("_", " ")), words(value)


def without(settings: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """All settings but some."""
    return {name: value for name, value in settings.items() if name not in names}


def words(value: Any) -> str:
    """A value of a configuration as one line of text."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, list):
        return ", ".join(map(words, value)) or "none"
    return one_line(str(value))


def _defaults(kind: type) -> Settings:
    """The settings of a dataclass that need not be given."""
    given = {field.name: field.default for field in fields(kind) if field.default is not MISSING}
    return dict(flat(without(given, (*FREE_SETTINGS, *SOURCES))))

"""The models of the comparison as estimators of the package; networks have one size."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from sklearn.feature_extraction import DictVectorizer
from torch_geometric.data import Data

from benchmarks.harness import sizes
from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.molecules.data import Split
from benchmarks.molecules.options import GP_MOLECULES, PARAMETERS, Options, is_process
from benchmarks.papers.chemprop import ChempropMethod
from pyg_kernels.kernels.count_kernel import CountKernel, LabelCounts
from pyg_kernels.molecules import KERNEL_METHODS, NETWORKS, MoleculeClassifier, MoleculeRegressor
from pyg_kernels.molecules.methods import ProcessMethod
from pyg_kernels.molecules.networks import build_network
from pyg_kernels.molecules.recipe import AUTO

OWN = "benchmarks.molecules.networks:"
GENERATORS: Mapping[str, Callable[[], Any]] = {
    **{
        f"Morgan {radius}": partial(rdFingerprintGenerator.GetMorganGenerator, radius=radius)
        for radius in range(4)
    },
    "atom pairs": rdFingerprintGenerator.GetAtomPairGenerator,
    "torsions": rdFingerprintGenerator.GetTopologicalTorsionGenerator,
}


class FingerprintKernel(CountKernel):
    """The min-max kernel of one kind of RDKit's fingerprint counts, of items with ``smiles``."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.compare, self.output, self.normalize = "minmax", "gram", False
        self.dtype, self.max_memory, self.verbose = None, 2**28, False

    def _count(self, items: Any, dtype: Any) -> LabelCounts:
        generator = GENERATORS[self.kind]()
        molecules: list[Any] = [Chem.MolFromSmiles(item.smiles) for item in items]
        found = map(generator.GetSparseCountFingerprint, molecules)
        vectorizer = DictVectorizer(dtype=dtype)
        matrix = vectorizer.fit_transform([counts.GetNonzeroElements() for counts in found])
        return LabelCounts([np.array(vectorizer.feature_names_, np.int64)], matrix, "cpu")


class FingerprintMethod(ProcessMethod):
    """``fingerprint-gp``: a Gaussian process on six of RDKit's fingerprint counts, a baseline."""

    def kernels(self) -> list[Any]:
        return [FingerprintKernel(kind) for kind in GENERATORS]

    def graphs(self, molecules: Any) -> list[Any]:
        return [Data(smiles=smiles) for smiles in molecules.smiles]


KERNEL_METHODS |= {"fingerprint-gp": FingerprintMethod, "chemprop": ChempropMethod}


# Names in the comparison alone: the model of the estimator, and its `num_layers` if that is fixed.
NAMES: Mapping[str, tuple[str, int | None]] = {
    "wl-subtree-3": ("wl-ridge", 3),
    "wl-subtree-6": ("wl-ridge", 6),
    "gin-relu": ("gin", None),
    "gin-prelu": (f"{OWN}SlopedGIN", None),
    "gin-kernel": (f"{OWN}LearnedGIN", None),
}
WITHOUT_BONDS = ("gin", "gin-relu", "gin-prelu", "gin-kernel", "neural-fingerprint", "mean")
SEEDLESS = ("mean", "wl-ridge")  # models that do not depend on the seed


@dataclass(frozen=True)
class Model:
    """A model to fit."""

    name: str  # on the command line
    kind: str  # its name in the estimator
    arguments: dict[str, Any] = field(default_factory=dict)  # of the estimator
    most: int | None = None  # the largest number of training molecules that it sees
    num_parameters: int | None = None  # of a network

    @property
    def is_network(self) -> bool:
        return self.kind not in (*KERNEL_METHODS, AUTO)

    @property
    def reads_bonds(self) -> bool:
        return self.name not in WITHOUT_BONDS

    def seeds(self, seeds: Sequence[int]) -> list[int]:
        """The seeds with which it is fitted: only one if it does not depend on them."""
        return list(dict.fromkeys(seeds))[: 1 if self.kind in SEEDLESS else None]

    def estimator(self, split: Split, seed: int, progress: bool) -> Any:
        made = MoleculeRegressor if split.data.is_regression else MoleculeClassifier
        usual = {"hurdle": False, "refit": False, "random_state": seed, "progress": progress}
        return made(model=self.kind, **usual | self.arguments)


def models_of(options: Options, split: Split, data: str) -> list[Model]:
    """The command line's models for some molecules; networks have their widths."""
    return [_model(name, options, split, data) for name in dict.fromkeys(options.model)]


def named_model(name: str) -> tuple[str, int | None]:
    """The model that a word of ``--model`` names, and its fixed `num_layers`."""
    known = (AUTO, *NETWORKS, *KERNEL_METHODS, *NAMES)
    if name not in known and ":" not in name:
        expected = f"one of {', '.join(known)}, or package.module:Net"
        raise InputError(f"--model {name}: expected {expected}")
    return NAMES.get(name, (name, None))


def _model(name: str, options: Options, split: Split, data: str) -> Model:
    kind, fixed = named_model(name)
    layers = fixed or options.layers
    arguments: dict[str, Any] = {
        "ensemble_size": options.ensemble_size,
        "featurizer": options.chosen("featurizer", data),
        "num_layers": layers,
        "device": None if options.device == "auto" else options.device,
        **({"hurdle": True} if options.hurdle else {}),
    }
    validates = not issubclass(KERNEL_METHODS.get(kind, object), ProcessMethod)
    if validates and not len(split.parts["valid"]):
        raise InputError(f"--model {name} needs molecules to validate on; {split.key} has none")
    norm = None if options.norm == "none" else options.norm
    network_options = {} if norm == "batch" else {"norm": norm}
    of_networks = {
        "distill": options.distill,
        "dropout": options.dropout,
        "patience": options.patience,
        "network_options": network_options,
        "training_options": {"schedule": options.schedule, "resample": options.resample},
    }
    if kind == AUTO:  # has its own features and sizes unless some are given
        if options.parameters:
            raise InputError("--model auto has no --parameters")
        arguments |= of_networks | {
            "featurizer": options.featurizer or "default",
            "epochs": options.epochs,
            "batch_size": options.batch_size,
            "learning_rate": options.lr,
            "hidden_channels": options.hidden,
            "hurdle": True,
        }
        return Model(name, kind, arguments)
    if kind in KERNEL_METHODS:
        usual = GP_MOLECULES if kind == "random-walk-gp" else None
        most = options.gp_molecules or usual if is_process(kind) else None
        return Model(name, kind, arguments, most)
    wanted: dict[str, Any] = {
        "in_channels": split.data.source.featurizer.atom_dim,
        "out_channels": len(split.learned),
        "edge_dim": split.data.source.featurizer.bond_dim,
        "hidden_channels": options.hidden,
        "num_layers": layers,
        "dropout": options.dropout,
        "options": network_options,
    }
    try:
        with as_input_error():
            like = "gin" if kind.startswith(OWN) else kind  # own networks are as wide as gin
            if not options.hidden and ":" not in like:
                wanted = sizes.fit_hidden_size(
                    kind,
                    lambda width: {**wanted, "hidden_channels": width},
                    options.parameters or PARAMETERS,
                    partial(_parameters, like),
                )
            number, width = _parameters(kind, wanted), wanted["hidden_channels"]
            sizes.check_parameters(name, width or 0, number, "--hidden, --parameters")
    except TypeError as error:  # an option that it does not take
        raise InputError(f"--model {name}: {error}") from error
    arguments |= of_networks | {
        "hidden_channels": width,
        "epochs": options.chosen("epochs", data),
        "batch_size": options.chosen("batch_size", data),
        "learning_rate": options.chosen("lr", data),
    }
    return Model(name, kind, arguments, num_parameters=number)


def _parameters(kind: str, wanted: Mapping[str, Any]) -> int:
    return sizes.count_parameters(lambda: build_network(kind, **wanted))


def number_of_parameters(estimator: Any) -> int | None:
    """The number of learned parameters of a fitted estimator; None for processes and forests."""
    found = 0
    for member in estimator.members_:
        learned = getattr(member, "estimators", [])
        if hasattr(member, "net"):
            found += sizes.num_parameters(member.net)
        elif member.model == "mean":
            found += len(learned)
        elif learned and hasattr(learned[0], "coef_"):
            found += sum(int(np.size(each.coef_)) + 1 for each in learned)
        else:
            return None
    return found

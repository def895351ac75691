"""What is trained and explained, in plain values: nothing here imports torch."""

from dataclasses import dataclass, field

PROGRAM = "benchmarks.explanations"
DATASETS = ("chembl", "cep", "csv")
NORMS = ("batch", "head", "none")
MODELS = ("wl-gated", "wl")  # keys of molecules.models.MODELS whose layers are sums over walks
METHODS = ("walks", "gnn-explainer", "integrated-gradients", "random")
TEXT_DATASETS = ("sst-binary", "sst-fine", "trec", "trec-fine", "mr")
SMARTS = {"chembl": "cF", "cep": "c1ccsc1"}
EPOCHS = {"chembl": 30, "cep": 8, "csv": 30}
BATCH_SIZE = {"chembl": 64, "cep": 128, "csv": 64}
LEARNING_RATE = {"chembl": 0.005, "cep": 0.005, "csv": 0.005}
CEP_ROOT = "data/cep"


@dataclass(frozen=True)
class Network:
    """The networks on molecules, and how they are trained.

    Args:
        model (str): One of :data:`MODELS`.
        hidden (int): Width.
        layers (int): Iterations.
        order (int): Nodes in a walk.
        norm (str): Normalisation over the batch of the labels and of the head's input, of the
            latter alone, or none: one of :data:`NORMS`.
        epochs (int): At most.
        batch_size (int): Molecules a batch.
        learning_rate (float): The highest.
    """

    model: str = "wl-gated"
    hidden: int = 32
    layers: int = 3
    order: int = 2
    norm: str = "none"
    epochs: int = 30
    batch_size: int = 64
    learning_rate: float = 0.005


@dataclass(frozen=True)
class Molecules:
    """The molecules and what is planted in them.

    Args:
        dataset (str): One of :data:`DATASETS`.
        smarts (str): The group whose number is the planted target.
        root (str): Folder of ``'cep'``.
        csv (str, optional): The file of ``'csv'``.
        smiles_column (str): Its SMILES column.
        target_columns (list of str, optional): Its targets, the first of which is explained;
            ``None``: every other numeric column.
    """

    dataset: str = "chembl"
    smarts: str = SMARTS["chembl"]
    root: str = CEP_ROOT
    csv: str | None = None
    smiles_column: str = "smiles"
    target_columns: list[str] | None = None


@dataclass(frozen=True)
class Compared:
    """Which molecules are explained, and how hard two of the methods try.

    Args:
        molecules (int): Explained ones of the test part, at most.
        gnn_epochs (int): Steps of GNNExplainer.
        steps (int): Of integrated gradients.
    """

    molecules: int = 30
    gnn_epochs: int = 100
    steps: int = 50


@dataclass(frozen=True)
class Texts:
    """The texts, and the classifier that is trained on them.

    Args:
        dataset (str): One of :data:`TEXT_DATASETS`.
        root (str): Folder of its files.
        hidden (int): Width.
        epochs (int): At most.
    """

    dataset: str
    root: str
    hidden: int = 100
    epochs: int = 12


@dataclass(frozen=True)
class Setting:
    """All that decides the numbers of a results folder.

    Args:
        molecules: The molecules.
        network: What is trained on them.
        compared: What is explained.
        texts: ``None`` for molecules alone.
        checkpoint (str, optional): A network of ``benchmarks.molecules`` in place of the one
            trained on measured targets.
        seed (int): Of the networks, the molecules that are explained and the methods that draw.
    """

    molecules: Molecules = field(default_factory=Molecules)
    network: Network = field(default_factory=Network)
    compared: Compared = field(default_factory=Compared)
    texts: Texts | None = None
    checkpoint: str | None = None
    seed: int = 0


@dataclass(frozen=True)
class Shown:
    """What is drawn; it changes no number.

    Args:
        drawn (int): Molecules of each kind.
        best (int): Walks or n-grams that are listed.
        sentences (list of str): Texts to explain; none: some of the test part.
    """

    drawn: int = 6
    best: int = 8
    sentences: list[str] = field(default_factory=list)

"""What is trained and explained; nothing here imports torch."""

from dataclasses import dataclass
from typing import Literal, get_args

from benchmarks.harness.errors import InputError
from benchmarks.harness.options import LARGEST_WIDTH, MOST_LAYERS, Device, Results, setting

MethodName = Literal["walks", "gnn-explainer", "integrated-gradients", "random"]
METHODS: tuple[MethodName, ...] = get_args(MethodName)
SMARTS = {"chembl": "cF", "cep": "c1ccsc1"}


@dataclass(frozen=True, kw_only=True)
class Explanations(Device, Results):
    """Networks and what is explained of them.

    Args:
        data: chembl, cep, or a CSV with a header
        root: folder of cep (data/cep)
        smiles_column: of a CSV
        target_columns: of a CSV; the first is explained (every other column of numbers)
        skip_invalid: leave out SMILES of a CSV that do not parse, instead of stopping
        smarts: the group whose number is the planted target (chembl cF, cep c1ccsc1)
        run: folder of a run of benchmarks.molecules, or of pyg-kernels train, on the measured
            target, in place of the network that would be trained on it
        model: whose layers are sums over walks
        hidden: width
        layers: iterations
        norm: over the batch, of the labels and of the head's input, or of the latter alone
        epochs: at most (30; cep 8)
        seed: of networks and of methods that draw
        methods: that explain the planted target
        molecules: explained ones of the test part, at most
        drawn: molecules of each kind, and sentences
        text_root: folder of the Stanford Sentiment Treebank, with word vectors as in
            benchmarks.text_classification; without it molecules alone are explained
        sentences: texts to explain (some of the test part)
    """

    data: str = setting("chembl", free=True)
    root: str | None = setting(None, free=True)
    smiles_column: str = setting("smiles")
    target_columns: tuple[str, ...] = setting(())
    skip_invalid: bool = setting(False)
    smarts: str | None = setting(None)
    run: str | None = setting(None, free=True)
    model: Literal["wl-gated", "wl"] = setting("wl-gated")
    hidden: int = setting(32, least=1, most=LARGEST_WIDTH)
    layers: int = setting(3, least=1, most=MOST_LAYERS)
    norm: Literal["batch", "head", "none"] = setting("none")
    epochs: int | None = setting(None, least=1)
    seed: int = setting(0, least=0)
    methods: tuple[MethodName, ...] = setting(METHODS, free=True)
    molecules: int = setting(30, least=1)
    drawn: int = setting(6, least=1, free=True)
    text_root: str | None = setting(None, free=True)
    sentences: tuple[str, ...] = setting((), free=True, repeats=True)

    def check(self) -> None:
        if self.data not in SMARTS and not self.smarts:
            raise InputError(f"--data {self.data} needs --smarts PATTERN")
        if self.sentences and not self.text_root:
            raise InputError("--sentences goes with --text-root DIR")

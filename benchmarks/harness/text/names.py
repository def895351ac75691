"""What the command line names, its defaults and its presets.

Nothing here imports torch: ``--help`` and a misspelt option answer at once.
"""

from typing import Any

from benchmarks.harness.text.model_config import LAYERED

PROGRAM = "benchmarks.text_classification"
# The keys of data.CORPORA and models.MODELS, repeated.
OWN = "csv"  # texts of one's own
DATASETS = ("trec", "trec-fine", "sst-fine", "sst-binary", "mr", "ag_news", OWN)
MODELS = ("rcnn", "lstm", "cnn", "bi-lstm", "bag-of-vectors")
COMPARED = MODELS[:3]  # where none is named
# Options and the models that heed them.
HEEDED = {
    "layers": LAYERED,
    "readout": LAYERED,
    **dict.fromkeys(("decays", "order", "activation", "rcnn_readout"), ("rcnn",)),
}
ROOTS = {
    "trec": "data/trec",
    "trec-fine": "data/trec",
    "sst-fine": "data/sst",
    "sst-binary": "data/sst",
    "mr": "data/mr",
    "ag_news": "data/ag_news",
}
ALIASES = {"sst": "sst-fine"}
EPOCHS = dict.fromkeys(DATASETS, 20)
BATCH_SIZE = dict.fromkeys(DATASETS, 50)
LEARNING_RATE = dict.fromkeys(DATASETS, 0.003)
WHERE_THERE = "where there"
DROPOUT = 0.2
PARAMETERS = 300_000
LAYERS = 2
ORDER = 2
DECAY = "input"
DECAYS = ("learned", "input", "recurrent")  # besides numbers
ACTIVATIONS = ("relu", "tanh", "none")
RCNN_READOUTS = ("sum", "c", "z")
CELL_WIDTH = 300  # Liang et al. 2019
EMBEDDING = 100
EXPLAINED, PREDICTED = 20, 256  # texts: explained at most, and predicted together
# What a preset sets where it is not given: Lei 2017 (the thesis), section 2.5.2 and appendix B.2.
PRESETS: dict[str, dict[str, Any]] = {
    "lei2017-sst": {
        "data": ["sst-fine"],
        "models": [["rcnn", "lstm", "bi-lstm", "cnn", "bag-of-vectors"]],
        "layers": [[3]],
        "decays": [["0.5", "input", "recurrent"]],
        "order": 2,
        "activation": "relu",
        "rcnn_readout": "sum",
        "readout": "mean",
        "rcnn_hidden": 200,
        "unit_norm": True,
        "phrases": WHERE_THERE,
        "dropout": 0.35,
        "weight_decay": 1e-6,
        "lr": 0.001,
        "schedule": "exponential",
        "lr_factor": 0.95,
        "epochs": 50,
        "seeds": [0, 1, 2, 3, 4],
    }
}

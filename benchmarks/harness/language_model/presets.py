"""The set-ups of the papers by name; nothing here imports torch.

Lei et al. 2017 (section 6.1, table 1), Lei's thesis (2017, section 2.5.1, tables 2.4 and 2.5,
appendix B.1), the README of the authors' code for the settings that the papers leave open (streams
side by side, variational dropout), Liang et al. 2019 (table 3) with the settings of Merity et al.
2018.
"""

from dataclasses import replace

from benchmarks.harness.language_model.config import (
    LanguageModelConfig,
    Preset,
    TrainingSettings,
)

SMALL, LARGE = 5_000_000, 20_000_000

_GATED = LanguageModelConfig(
    name="",
    encoder="rcnn",
    num_words=0,
    hidden=0,
    highway=True,
    input_dropout=0.5,
    output_dropout=0.5,
)
_SUMMED = replace(_GATED, order=2, readout="sum")
_LARGE = replace(_GATED, input_dropout=0.75, output_dropout=0.75)
_VARIATIONAL = replace(_GATED, act="tanh", state_dropout=0.25)
_LSTM = replace(_GATED, encoder="lstm", num_layers=2, highway=False)

_SGD = TrainingSettings("sgd", 1.0, clip=5.0, decay=0.9, decay_after=10)
_LARGE_SGD = replace(_SGD, decay_after=20)


def _sgd_presets() -> list[Preset]:
    """Table 1 of the paper, table 2.5 of the thesis: gradient descent, tied vectors."""
    rows = [
        (
            "rcnn-5m",
            "gate on x and h, 3 layers, 5 M parameters: 73.6",
            73.6,
            _GATED,
            _SGD,
            SMALL,
        ),
        (
            "rcnn-5m-tanh",
            "the same with tanh: 69.3 in the README of the authors' code",
            69.3,
            replace(_GATED, act="tanh"),
            _SGD,
            SMALL,
        ),
        ("rcnn-5m-x", "gate on x alone: 74.2", 74.2, replace(_GATED, decay="input"), _SGD, SMALL),
        (
            "rcnn-5m-constant",
            "decay 0.8, order 2, sum of states: 84.3",
            84.3,
            replace(_SUMMED, decay=0.8),
            _SGD,
            SMALL,
        ),
        (
            "rcnn-5m-learned",
            "a learned decay a channel, order 2, sum of states: 76.8",
            76.8,
            replace(_SUMMED, decay="learned"),
            _SGD,
            SMALL,
        ),
        (
            "rcnn-20m",
            "gate on x and h, 20 M parameters: 69.2",
            69.2,
            _LARGE,
            _LARGE_SGD,
            LARGE,
        ),
        (
            "rcnn-20m-variational",
            "with variational dropout in the cells: 65.5",
            65.5,
            _VARIATIONAL,
            replace(_SGD, decay=0.95, decay_after=30),
            LARGE,
        ),
        (
            "rcnn-20m-variational-4",
            "the same with 4 layers and 200 epochs: 63.8",
            63.8,
            replace(_VARIATIONAL, num_layers=4),
            replace(_SGD, decay=0.98, epochs=200),
            LARGE,
        ),
        (
            "lstm-5m",
            "torch's LSTM, 2 layers, the same training, 5 M parameters",
            None,
            _LSTM,
            _SGD,
            SMALL,
        ),
        (
            "cnn",
            "decay 0: windows of 3 words, additive, tanh, 3 layers with highway, 5 M parameters",
            None,
            replace(_GATED, order=3, combine="add", decay=0.0, act="tanh"),
            _SGD,
            SMALL,
        ),
        (
            "cnn-mul",
            "decay 0: windows of 2 words, multiplicative, sum of states",
            None,
            replace(_SUMMED, decay=0.0),
            _SGD,
            SMALL,
        ),
    ]
    return [_preset(*row) for row in rows]


_ADAM = TrainingSettings("adam", 0.001, epochs=30)
_LARGE_ADAM = replace(_ADAM, revert=True)
_TANH = replace(_GATED, tied=False, highway=False, num_layers=2, order=2, act="tanh")
_LARGE_TANH = replace(_TANH, hidden=650, input_dropout=0.75, output_dropout=0.75)


def _adam_presets() -> list[Preset]:
    """Table 2.4 of the thesis: Adam, vectors that are not tied, widths as given there.

    Its figure 2-1 has the networks of one to three layers and, of additive n-grams, two more.
    """
    cnn = replace(_TANH, hidden=250, decay=0.0)
    lstm = replace(_TANH, encoder="lstm", num_layers=1)
    both = replace(_LARGE_TANH, readout="sum")
    rows = [
        (
            "adam-cnn",
            "Adam, CNN of 3-grams, linear, d = 250: 141.7",
            141.7,
            replace(cnn, order=3, combine="add"),
            _ADAM,
        ),
        (
            "adam-cnn-mul",
            "Adam, CNN of 2-grams, multiplicative, d = 250: 132.8",
            132.8,
            replace(cnn, num_layers=3),  # which have the thesis's 5.4 M parameters
            _ADAM,
        ),
        ("adam-lstm", "Adam, LSTM, d = 225: 107.6", 107.6, replace(lstm, hidden=225), _ADAM),
        (
            "adam-rcnn-constant",
            "Adam, 2-grams, decay 0.8, d = 240: 115.2",
            115.2,
            replace(_TANH, hidden=240, decay=0.8),
            _ADAM,
        ),
        (
            "adam-rcnn",
            "Adam, 2-grams, gate on x and h, d = 230: 103.9",
            103.9,
            replace(_TANH, hidden=230),
            _ADAM,
        ),
        (
            "adam-rcnn-constant-add",
            "thesis, figure 2-1: as adam-rcnn-constant, additive",
            None,
            replace(_TANH, hidden=240, combine="add", decay=0.8),
            _ADAM,
        ),
        (
            "adam-rcnn-add",
            "thesis, figure 2-1: as adam-rcnn, additive",
            None,
            replace(_TANH, hidden=230, combine="add"),
            _ADAM,
        ),
        (
            "adam-lstm-16m",
            "Adam, LSTM, d = 650: 92.3",
            92.3,
            replace(_LARGE_TANH, encoder="lstm", num_layers=1),
            _LARGE_ADAM,
        ),
        (
            "adam-rcnn-constant-16m",
            "Adam, 2-grams, decay 0.8, d = 650: 106.2",
            106.2,
            replace(_LARGE_TANH, decay=0.8),
            _LARGE_ADAM,
        ),
        (
            "adam-rcnn-16m",
            "Adam, 2-grams, gate on x and h, d = 650: 91.8",
            91.8,
            _LARGE_TANH,
            _LARGE_ADAM,
        ),
        ("adam-rcnn-16m-sum", "the same with the sum of states: 89.6", 89.6, both, _LARGE_ADAM),
        (
            "adam-rcnn-18m-gate",
            "the same with an output gate as well: 85.9",
            85.9,
            replace(both, output_gate=True),
            _LARGE_ADAM,
        ),
    ]
    return [_preset(*row) for row in rows]


_AWD = LanguageModelConfig(
    name="",
    encoder="awd",
    num_words=0,
    hidden=1150,
    embedding=400,
    input_dropout=0.4,
    hidden_dropout=0.25,
    output_dropout=0.4,
    word_dropout=0.1,
    weight_dropout=0.5,
    locked=True,
)
_NT_ASGD = TrainingSettings(
    "nt-asgd",
    30.0,
    clip=0.25,
    weight_decay=1.2e-6,
    epochs=500,
    batch_size=20,
    steps=70,
    variable_steps=True,
    sum_steps=False,
    alpha=2.0,
    beta=1.0,
)
# Test perplexities on the Penn Treebank and on WikiText-2.
_TABLE_3 = {
    "lstm": (58.9, 65.68),
    "rkm-lstm": (58.2, 65.22),
    "rkm-cifg": (59.5, 66.03),
    "linear-gated": (69.7, 80.21),
}


def _awd_presets() -> list[Preset]:
    """Table 3 of Liang et al.: the model of Merity et al. with four cells, on two corpora."""
    presets = []
    for cell, (ptb, wikitext) in _TABLE_3.items():
        model = replace(_AWD, cell=cell)
        name = "awd-lstm" if cell == "lstm" else f"awd-{cell}"
        words = f"weight-dropped {cell}, 3 layers, averaged SGD"
        presets.append(_preset(name, f"{words}: {ptb}", ptb, model, _NT_ASGD))
        larger = replace(model, input_dropout=0.65, hidden_dropout=0.2)
        training = replace(_NT_ASGD, epochs=750, batch_size=80)
        help = f"the same with the settings for WikiText-2: {wikitext} there"
        presets.append(_preset(f"{name}-wt2", help, None, larger, training))
    return presets


def _preset(
    name: str,
    help: str,
    ptb: float | None,
    model: LanguageModelConfig,
    training: TrainingSettings,
    parameters: int | None = None,
) -> Preset:
    return Preset(name, help, ptb, replace(model, name=name), training, parameters)


PRESETS: dict[str, Preset] = {
    preset.name: preset for preset in (*_sgd_presets(), *_adam_presets(), *_awd_presets())
}

"""Language models, their training, and running text to words as a vocabulary writes them."""

import dataclasses
import math
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn import Parameter
from torch.nn.utils import parameters_to_vector, parametrize
from torch.optim import SGD, Adam, Optimizer

from benchmarks.corpora.language import LanguageVocabulary, TextStreams
from benchmarks.harness.checkpoint import load_learner
from benchmarks.harness.language_model import models
from benchmarks.harness.language_model.learner import (
    NTASGD,
    LanguageLearner,
    RevertingAdam,
    build_optimizer,
    perplexity,
)
from benchmarks.harness.language_model.models import count_parameters, fitted
from benchmarks.harness.language_model.options import PRESETS, LanguageModel, Preset
from benchmarks.harness.language_model.splitting import WordSplitter
from benchmarks.harness.language_model.task import LanguageTask, language_setups, load_corpus
from benchmarks.harness.training import Run, TrainingConfig, train
from pyg_kernels.datasets.text.lines import read_lines
from pyg_kernels.sequence import RKM, RKMCell
from tests.benchmarks.small_data import write_corpus
from tests.datasets.conftest import present

WORDS = 400
# The others are networks of these with more dropout.
NETWORKS = [name for name in PRESETS if not name.endswith(("-wt2", "-20m", "-16m"))]


def small(name: str) -> Any:
    """A preset with little width."""
    config = models.fitted(PRESETS[name], WORDS, hidden=48)
    return dataclasses.replace(config, embedding=32 if config.embedding else 0)


def built(name: str, **changes: Any) -> models.LanguageModel:
    torch.manual_seed(0)
    return models.LanguageModel(dataclasses.replace(small(name), **changes))


def cells(model: models.LanguageModel) -> list[Any]:
    """The layers of a string-kernel network."""
    assert isinstance(model.encoder, models.RCNNEncoder)
    return list(model.encoder.rcnn.cells)


@pytest.mark.parametrize("name", NETWORKS)
def test_starts_at_chance_learns_everywhere_and_reads_in_pieces(name: str) -> None:
    # The sum of three projections, twice, has less variance at the width of the preset.
    model = built(name, hidden=250) if name == "adam-cnn" else built(name)
    ids = torch.randint(WORDS, (36, 20))
    for training in (False, True):
        reading = model.train(training).read(ids[:-1])
        loss = F.cross_entropy(model.scores(reading.hidden).flatten(0, 1), ids[1:].flatten())
        assert abs(loss.item() - math.log(WORDS)) < 0.1
    torch.as_tensor(loss + models.penalty(reading, 2.0, 1.0)).backward()
    for key, weight in model.named_parameters():
        assert weight.grad is not None, key
        assert weight.grad.isfinite().all() and weight.grad.any(), key
    # A stream that is read in pieces is the same stream.
    model.double().eval()
    ids = ids[:11, :3]
    with torch.no_grad():
        whole, _ = model(ids)
        again, _ = model(ids[4:])
        state, outputs = None, []
        for segment in ids.split((4, 1, 6)):
            hidden, state = model(segment, state)
            state = model.detach(state)
            outputs.append(hidden)
    torch.testing.assert_close(torch.cat(outputs), whole, rtol=1e-9, atol=0)
    # Had the state been forgotten. Relative, as products of small states are tiny at the start.
    assert (again - whole[4:]).abs().max() > 1e-2 * whole.abs().max()


IDS = torch.tensor([[1, 4], [0, 6], [3, 3], [5, 2]])


@pytest.mark.parametrize("name", ["rcnn-5m", "rcnn-5m-constant", "rcnn-5m-learned"])
def test_the_equations_of_appendix_b1(name: str) -> None:
    model = built(name, hidden=5, num_words=7).double().eval()
    x = model.embedding.weight[IDS]
    for cell in cells(model):
        if name == "rcnn-5m-learned":
            nn.init.normal_(cell.decay_logit)
        c1 = c2 = h = torch.zeros(2, 5, dtype=torch.float64)
        outs = []
        for token in x:
            if name == "rcnn-5m":
                logits = cell.decay_lin(token) + cell.decay_recurrent(h) + cell.decay_bias
                decay = torch.sigmoid(logits)
            else:
                decay = 0.8 if name == "rcnn-5m-constant" else torch.sigmoid(cell.decay_logit)
            before = c1
            c1 = decay * c1 + (1 - decay) * cell.lins[0](token)
            if name != "rcnn-5m":  # the others are of order 2
                c2 = decay * c2 + (1 - decay) * before * cell.lins[1](token)
            f = torch.sigmoid(cell.highway_lin(token) + cell.highway_bias)
            h = f * (c1 + c2) + (1 - f) * token
            outs.append(h)
        x = torch.stack(outs)
    hidden, _ = model(IDS)
    torch.testing.assert_close(hidden, x)
    torch.testing.assert_close(model.scores(hidden), x @ model.embedding.weight.t() + model.bias)


@pytest.mark.parametrize("name", ["rcnn-5m", "rcnn-5m-constant", "lstm-5m", "adam-rcnn"])
def test_matrices_start_with_unit_rows_and_biases_at_zero(name: str) -> None:
    for key, weight in built(name).named_parameters():
        if weight.dim() == 1:
            assert not weight.any(), key
        else:
            bound = math.sqrt(3 / weight.size(1))
            assert 0.98 * bound < weight.abs().max() <= bound, key
            assert abs(weight.square().sum(1).mean().item() - 1) < 0.1, key


def test_tied_vectors_are_one_parameter() -> None:
    tied, free = built("rcnn-5m"), built("adam-rcnn")
    of_words = {key for key, p in tied.named_parameters() if p.size(0) == WORDS}
    assert of_words == {"bias", "embedding.weight"}
    assert tied.output is None and free.output.shape == (WORDS, 48)
    with pytest.raises(ValueError, match="outputs of 48 features and word vectors of 32"):
        built("lstm-5m", embedding=32)


def test_penalties() -> None:
    hidden, output = torch.randn(4, 2, 3), torch.randn(4, 2, 3)
    reading = models.Reading(hidden, None, output)
    size = sum(value**2 for value in hidden.flatten().tolist()) / 24
    changes = [(output[t + 1] - output[t]).flatten().tolist() for t in range(3)]
    change = sum(value**2 for step in changes for value in step) / 18
    assert float(models.penalty(reading, 2.0, 3.0)) == pytest.approx(2 * size + 3 * change)
    assert models.penalty(reading, 0.0, 0.0) == 0.0
    one = models.Reading(hidden[:1], None, output[:1])
    torch.testing.assert_close(models.penalty(one, 2.0, 3.0), 2 * hidden[:1].square().mean())


def test_a_locked_mask_holds_for_all_steps_and_words_are_dropped_whole() -> None:
    dropped = models.drop(torch.ones(7, 40, 50), 0.25, training=True, locked=True)
    assert torch.equal(dropped, dropped[:1].expand_as(dropped))
    free = models.drop(torch.ones(7, 40, 50), 0.25, training=True, locked=False)
    assert not torch.equal(free[0], free[1])
    values, counts = dropped[0].unique(return_counts=True)
    torch.testing.assert_close(values, torch.tensor([0.0, 1 / 0.75]))
    assert abs(counts[0].item() / 2000 - 0.25) < 0.03
    vectors = torch.rand(1000, 3) + 1
    dropped = models.drop_words(vectors, 0.1, training=True)
    gone = (dropped == 0).all(1)
    assert abs(gone.float().mean().item() - 0.1) < 0.03
    torch.testing.assert_close(dropped[~gone], vectors[~gone] / 0.9)


def test_the_lstm_is_torch_s_and_one_mask_of_its_weights_holds_for_all_steps() -> None:
    layer = models.DroppedLSTM(4, 6, 0.5).double().eval()
    lstm = nn.LSTM(4, 6).double()
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    lstm.load_state_dict({f"{name}_l0": getattr(layer.cell, name).detach() for name in names})
    x = torch.randn(5, 3, 4, dtype=torch.float64)
    output, state = layer(x)
    expected, expected_state = lstm(x)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(layer(x, state)[0], lstm(x, expected_state)[0])

    layer.train()
    with parametrize.cached():
        weight = layer.cell.weight_hh.detach()
        output, _ = layer(x)
    original = cast(Any, layer.cell.parametrizations)["weight_hh"].original
    dropped = weight == 0
    assert 0.2 < dropped.double().mean() < 0.8
    torch.testing.assert_close(weight[~dropped], 2 * original[~dropped])
    with torch.no_grad():
        lstm.weight_hh_l0.copy_(weight)
    torch.testing.assert_close(output, lstm(x)[0])
    output.sum().backward()
    assert not original.grad[dropped].any()
    assert not torch.equal(layer(x)[0], output)


@pytest.mark.parametrize("kind", ["rkm-lstm", "rkm-cifg", "linear-gated"])
def test_a_recurrent_kernel_machine_reads_its_dropped_weights_once(kind, monkeypatch) -> None:
    layer, plain = models.dropped_rkm(4, 6, kind, 0.5).double(), RKM(4, 6, cell=kind).double()
    masked: list[Tensor] = []

    def record(module: models.WeightDrop, weight: Tensor) -> Tensor:
        mask = torch.bernoulli(torch.full_like(weight, 0.5)) * 2
        masked.append((weight * mask).detach())
        return weight * mask

    cell, bare = (cast(RKMCell, rkm.cells[0]) for rkm in (layer, plain))
    masks, weights = "parametrizations.weight.original", layer.state_dict()
    plain.load_state_dict({key.replace(masks, "weight"): weights[key] for key in weights})
    x = torch.randn(5, 3, 4, dtype=torch.float64)
    torch.testing.assert_close(layer.eval()(x)[0], plain(x)[0])
    layer.train()
    monkeypatch.setattr(models.WeightDrop, "forward", record)
    output, _ = layer(x)
    assert len(masked) == len(cell.recurrent) > 0
    read = [gate for gate in cell.filters if gate in cell.recurrent]  # the order of reading
    with torch.no_grad():
        for gate, weight in zip(read, masked, strict=True):
            cast(nn.Linear, bare.recurrent[gate]).weight.copy_(weight)
    torch.testing.assert_close(output, plain(x)[0])


PENN = 10_000  # of the Penn Treebank
# Thesis, table 2.4: width and millions of parameters. Its 5.2 and 16.4 of the constant decay have
# more matrices than its formulas; they are not among these.
TABLE_2_4 = {
    "adam-cnn": (250, 5.4),
    "adam-cnn-mul": (250, 5.4),
    "adam-lstm": (225, 4.9),
    "adam-rcnn": (230, 5.0),
    "adam-lstm-16m": (650, 16.4),
    "adam-rcnn-16m": (650, 16.4),
    "adam-rcnn-16m-sum": (650, 16.4),
    "adam-rcnn-18m-gate": (650, 18.1),
}


def test_sizes_of_table_2_4_and_budgets_that_are_used() -> None:
    for name, (width, millions) in TABLE_2_4.items():
        config = fitted(PRESETS[name], PENN)
        assert (config.hidden, round(count_parameters(config) / 1e6, 1)) == (width, millions), name
    for name in ("rcnn-5m", "rcnn-20m-variational-4", "lstm-5m", "cnn"):
        most, config = PRESETS[name].parameters or 0, fitted(PRESETS[name], PENN)
        wider = dataclasses.replace(config, hidden=config.hidden + 1)
        assert 0.99 * most < count_parameters(config) <= most < count_parameters(wider)


def test_the_numbers_of_parameters_are_those_of_the_formulas() -> None:
    def gated(d: int, layers: int) -> int:
        # Tied vectors, biases of the scores; W, U, V, U' and two biases a layer.
        return PENN * (d + 1) + layers * (4 * d * d + 2 * d)

    # The widths in the README of the authors' code, which calls these 5 and 20 millions.
    for name, width, layers, number in (
        ("rcnn-5m-tanh", 355, 3, 5_074_430),
        ("rcnn-20m-variational", 950, 3, 20_345_700),
        ("rcnn-20m-variational-4", 860, 4, 20_450_480),
    ):
        config = fitted(PRESETS[name], PENN, hidden=width)
        assert count_parameters(config) == gated(width, layers) == number
        millions = (PRESETS[name].parameters or 0) / 1e6
        assert round(number / 1e6) == millions
        assert abs(fitted(PRESETS[name], PENN).hidden - width) < 0.02 * width
    lstm = count_parameters(fitted(PRESETS["lstm-5m"], PENN, hidden=123))
    assert lstm == PENN * 124 + 2 * (8 * 123 * 123 + 8 * 123)
    # Merity et al. (2018) call it 24 M on the Penn Treebank and 33 M on WikiText-2.
    assert round(count_parameters(fitted(PRESETS["awd-lstm"], PENN)) / 1e6) == 24
    assert round(count_parameters(fitted(PRESETS["awd-lstm-wt2"], 33_278)) / 1e6) == 34


def test_a_width_or_a_budget_of_ones_own() -> None:
    assert fitted(PRESETS["rcnn-5m"], 100, hidden=12).hidden == 12
    awd = fitted(PRESETS["awd-lstm"], PENN, parameters=1_000_000)
    assert 900_000 < count_parameters(awd) <= 1_000_000
    assert abs(awd.hidden * 400 - awd.embedding * 1150) < 1150  # as in the preset
    own = fitted(PRESETS["awd-lstm"], PENN, hidden=115)
    assert (own.hidden, own.embedding) == (115, 40)
    whole = fitted(PRESETS["awd-lstm"], PENN)
    assert fitted(PRESETS["awd-lstm"], PENN, parameters=count_parameters(whole)) == whole
    with pytest.raises(ValueError, match="of 'rcnn-5m with 100 words' has at most 10 parameters"):
        fitted(PRESETS["rcnn-5m"], 100, parameters=10)


@pytest.fixture
def data(tmp_path: Path) -> TextStreams:
    return load_corpus(LanguageModel(data=str(write_corpus(tmp_path / "corpus", train=90))))


def setup(data: TextStreams, name: str = "rcnn-5m", **changes: Any) -> Preset:
    """A narrow network of a preset in a few streams."""
    small = {"batch_size": 4, "steps": 7, "epochs": 1, **changes}
    (found,) = language_setups(LanguageModel(models=(name,), hidden=12), data)
    model = replace(found.model, embedding=12 if found.model.embedding else 0)
    return replace(found, model=model, training=replace(found.training, **small))


def trained(data: TextStreams, found: Preset, folder: Path) -> Run:
    shared = TrainingConfig(device="cpu", precision="32-true")
    run = train(LanguageTask(data), found, 0, shared, folder)
    assert run is not None
    return run


@pytest.mark.parametrize("name", ["rcnn-5m", "lstm-5m", "awd-lstm", "awd-rkm-lstm"])
def test_state_is_carried_through_an_epoch(data: TextStreams, tmp_path: Path, name: str) -> None:
    """Without dropout and at no rate, the training loss is that of streams read at once."""
    changes = {"learning_rate": 1e-30, "alpha": 0.0, "beta": 0.0, "variable_steps": False}
    found = setup(data, name, **changes)
    dropouts = [name for name in vars(found.model) if name.endswith("dropout")]
    found = replace(found, model=replace(found.model, **dict.fromkeys(dropouts, 0.0)))
    run = trained(data, found, tmp_path / "run")
    net = load_learner(tmp_path / "run", LanguageLearner).net.double()
    stream = data.streams["train"]
    length = (len(stream) - 1) // 4
    ids, targets = (stream[k : k + 4 * length].view(4, length).t() for k in (0, 1))
    with torch.no_grad():
        assert len(ids) > 100, "many batches"
        whole = F.cross_entropy(net.scores(net(ids)[0]).flatten(0, 1), targets.flatten())
        reset = [
            F.cross_entropy(net.scores(net(x)[0]).flatten(0, 1), y.flatten(), reduction="sum")
            for x, y in zip(ids.split(7), targets.split(7), strict=True)
        ]
    loss = math.log(run.history[0]["train_perplexity"])
    assert loss == pytest.approx(whole.item(), abs=5e-6)
    assert loss != pytest.approx(torch.stack(reset).sum().item() / ids.numel(), abs=2e-5)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("rcnn-5m", {}),
        ("adam-rcnn-16m", {"learning_rate": 0.1}),  # goes back to the best epoch
        ("rcnn-5m", {"learning_rate": 0.2, "optimizer": "nt-asgd"}),  # averages from the second on
    ],
)
def test_best_epoch_is_kept_as_it_was_measured(data, tmp_path, monkeypatch, name, changes) -> None:
    average, averages = NTASGD.averaged, []

    def averaged(self: NTASGD) -> AbstractContextManager[None]:
        averages.append(self)
        return average(self)

    monkeypatch.setattr(NTASGD, "averaged", averaged)
    triggered = lambda self, error: self.param_groups[0].update(triggered=True)  # noqa: E731
    monkeypatch.setattr(NTASGD, "note", triggered)
    run = trained(data, setup(data, name, epochs=4, **changes), tmp_path / "run")
    valid = [epoch["valid_perplexity"] for epoch in run.history]
    best = valid.index(min(valid))
    if "optimizer" in changes:
        assert averages and best > 0, "the best epoch must be an averaged one"
    assert run.record["valid"] == pytest.approx(valid[best], rel=1e-5)
    assert run.record["test"] == pytest.approx(run.history[best]["test_perplexity"], rel=1e-5)
    # Once more, from the checkpoint alone: the streams of the validation part word by word.
    net, stream = load_learner(tmp_path / "run", LanguageLearner).net, data.streams["valid"]
    size = -(-len(stream) // max(1, min(10, len(stream) // 7)))
    follows = torch.cat([torch.tensor([LanguageVocabulary.end]), stream[:-1]])
    total = 0.0
    with torch.no_grad():
        for ids, targets in zip(follows.split(size), stream.split(size), strict=True):
            scores = net.scores(net(ids.unsqueeze(1))[0][:, 0])
            total += F.cross_entropy(scores, targets, reduction="sum").item()
    assert run.record["valid"] == pytest.approx(math.exp(total / len(stream)), rel=1e-4)


def test_learning_rate_follows_the_epoch_and_the_number_of_steps(
    data, tmp_path, monkeypatch
) -> None:
    found = setup(data, learning_rate=0.5, decay=0.8, decay_after=2, epochs=4, batch_size=20)
    run = trained(data, found, tmp_path / "epochs")
    rates = [epoch["learning_rate"] for epoch in run.history]
    assert rates == pytest.approx([0.5, 0.5, 0.4, 0.32])
    seen = []
    training_step = LanguageLearner.training_step

    def recorded(self: LanguageLearner, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = training_step(self, batch, batch_idx)
        seen.append((batch.ids.size(0), self.trainer.optimizers[0].param_groups[0]["lr"]))
        return loss

    monkeypatch.setattr(LanguageLearner, "training_step", recorded)
    found = setup(data, "awd-lstm", learning_rate=2.0, steps=12)
    trained(data, found, tmp_path / "run")
    assert len({steps for steps, _ in seen}) > 3
    assert [rate for _, rate in seen] == pytest.approx([2.0 * steps / 12 for steps, _ in seen])


def test_loss_is_summed_over_steps_or_not_and_its_exponential_is_shown(data: TextStreams) -> None:
    task, losses = LanguageTask(data), []
    for sum_steps in (True, False):
        torch.manual_seed(0)
        learner = task.learner(setup(data, sum_steps=sum_steps), None).eval()  # type: ignore[arg-type]
        batch = next(iter(task.batches(learner, 4, 0).train_dataloader()))
        losses.append(learner.training_step(batch, 0).item())
    assert losses[0] == pytest.approx(7 * losses[1])
    assert perplexity(math.log(73.6)) == pytest.approx(73.6)
    assert perplexity(1e5) == math.inf
    assert math.isnan(perplexity(math.nan))


def parameters() -> list[Parameter]:
    torch.manual_seed(0)
    return [Parameter(torch.randn(3)), Parameter(torch.randn(2, 2))]


def step(optimizer: Optimizer, held: list[Parameter], number: int) -> None:
    """A step with gradients that depend on its number."""
    generator = torch.Generator().manual_seed(number)
    for parameter in held:
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    optimizer.step()


def values(held: list[Parameter]) -> Tensor:
    return parameters_to_vector(held).detach().clone()


def test_averaging_begins_once_the_error_is_above_one_long_before() -> None:
    """Steps are those of SGD, and the average is over all since."""
    optimizer = NTASGD(parameters(), lr=0.1, non_monotone=2)
    for error in (9.0, 7.0, 8.0, 6.0, 6.5):  # the lowest but for the last two: 9, then 7
        assert not optimizer.note(error)
    assert not optimizer.note(6.9)  # below the 7 of four evaluations before
    assert optimizer.note(6.8)  # above the 6 of three before
    assert optimizer.param_groups[0]["triggered"] and not optimizer.note(7.1)
    assert optimizer.param_groups[0]["triggered"]
    held, plain = parameters(), parameters()
    optimizer = NTASGD(held, lr=0.1, weight_decay=0.01, non_monotone=1)
    sgd = SGD(plain, lr=0.1, weight_decay=0.01)
    trace = []
    for number in range(7):
        if number == 3:
            optimizer.note(1.0)
            optimizer.note(0.9)
            assert optimizer.note(2.0)
        step(optimizer, held, number)
        step(sgd, plain, number)
        trace.append(values(held))
        assert torch.equal(trace[-1], values(plain))
    with optimizer.averaged():
        torch.testing.assert_close(values(held), torch.stack(trace[3:]).mean(0))
    assert torch.equal(values(held), trace[-1])


def test_an_undone_epoch_and_half_the_learning_rate() -> None:
    held = parameters()
    optimizer = RevertingAdam(held, lr=0.1)
    step(optimizer, held, 0)
    assert not optimizer.note(5.0)
    kept = values(held)
    for number in (1, 2):
        step(optimizer, held, number)
    assert optimizer.note(5.0)  # not lower
    assert torch.equal(values(held), kept)
    assert optimizer.param_groups[0]["lr"] == 0.05
    step(optimizer, held, 3)
    assert not optimizer.note(4.0) and optimizer.param_groups[0]["lr"] == 0.05
    assert not torch.equal(values(held), kept)
    assert optimizer.note(float("nan"))


def test_settings_choose_the_optimizer() -> None:
    kinds = {"rcnn-5m": SGD, "adam-rcnn": Adam, "adam-rcnn-16m": RevertingAdam, "awd-lstm": NTASGD}
    for name, kind in kinds.items():
        settings = PRESETS[name].training
        optimizer = build_optimizer(settings, parameters())
        assert type(optimizer) is kind
        (group,) = optimizer.param_groups
        assert group["lr"] == settings.learning_rate
        assert group["weight_decay"] == settings.weight_decay


PENN_WORDS = (
    "mr. smith corp. third-quarter long-term so-called s&p at&t u.s. no. ill n't 's ' the of said "
    "profit rose to million cents share do it you a N $ & # 30-year"
)
WIKITEXT = "The species weighs H. St. kg N 12 well @-@ @,@ @.@ , . ( ) - 's n't"
PLAIN = "the ( ) , . - 3 long term do n't it 's"


@pytest.mark.parametrize(
    ("vocabulary", "text", "expected"),
    [
        (PENN_WORDS, "Mr. Smith of Smith Corp. said", "mr. smith of smith corp. said"),
        (PENN_WORDS, "third-quarter profit, rose", "third-quarter profit rose"),
        (PENN_WORDS, "(long-term) S&P's U.S.", "long-term s&p 's u.s."),
        (PENN_WORDS, "up 3.2% to $12,345 million.", "up N N to $ N million"),
        (PENN_WORDS, "it\u2019s ill-timed, don't", "it 's ill-timed do n't"),
        (PENN_WORDS, "the 30-year -- no. 45-year", "the 30-year no. 45-year"),
        (PENN_WORDS, "The N of <unk>", "the N of <unk>"),
        (PENN_WORDS, "smith-don't", "smith-do n't"),
        (PENN_WORDS, "x-y-u.s. x-u.s.", "x-y u.s. x u.s."),
        (WIKITEXT, "The well-known H. St.", "The well @-@ known H. St."),
        (WIKITEXT, "12,345.5 kg (N - 12).", "12 @,@ 345 @.@ 5 kg ( N - 12 ) ."),
        (WIKITEXT, "the species-", "the species -"),
        (PLAIN, "The long-term (3.5), it's.", "the long - term ( 3.5 ) , it 's ."),
        (f"{PLAIN} @-@", "long-term 12,345.5", "long @-@ term 12,345.5"),
        (f"{PLAIN} @,@", "long-term 12,345.5", "long - term 12 @,@ 345.5"),
        ("", "Hello, world", "hello world"),
        (PENN_WORDS, " \n ", ""),
        (PENN_WORDS, "-" * 20_000, ""),
        (PENN_WORDS, "b-" * 10_000, "b-" * 9_999 + "b"),
        (PENN_WORDS, "b-" * 10_000 + "don't", "b-" * 10_000 + "do n't"),
        (PENN_WORDS, "x" * 20_000, "x" * 20_000),
        (PENN_WORDS, "1," * 10_000, "N"),
    ],
    ids=lambda value: value[:20],
)
def test_words_are_written_as_the_vocabulary_writes_them(vocabulary, text, expected) -> None:
    assert WordSplitter(LanguageVocabulary(vocabulary.split()))(text) == expected.split()


def test_a_part_of_the_penn_treebank_is_split_into_its_words(real_data: Path) -> None:
    folder = present(real_data / "text" / "ptb")
    train, valid = (
        [line.split() for line in read_lines(folder / f"ptb.{part}.txt.gz")]
        for part in ("train", "valid")
    )
    split = WordSplitter(LanguageVocabulary.build(train))
    for line in valid:
        assert split(" ".join(line)) == line
        sentence = " ".join(word for word in line if word != "<unk>") + "."
        assert all(word in split.vocabulary for word in split(sentence))

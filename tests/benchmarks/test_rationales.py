"""``python -m benchmarks.rationales`` on texts made here, its networks and its measures."""

import re
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from torch import Tensor

from benchmarks.harness.checkpoint import load_learner
from benchmarks.harness.retrieval.data import question_batch
from benchmarks.harness.training import Run
from benchmarks.rationales import report, selections
from benchmarks.rationales.learner import ClassGoal, RankingGoal, RationaleLearner, SelectionCost
from benchmarks.rationales.networks import SELECTED, ModelConfig, RationaleNet, Reading, network
from benchmarks.rationales.selections import precision, read_spans, spans_text, top_share
from benchmarks.rationales.svm import SVMEstimator, best_words
from pyg_kernels import datasets
from pyg_kernels.datasets.text import EncodedTexts, TextBatch
from tests.benchmarks.conftest import assert_refused, done, metrics_of, printed, runs_of, table_of
from tests.benchmarks.small_data import write_askubuntu, write_beer, write_own

PROGRAM = "benchmarks.rationales"
COLUMNS = ("--text-column", "body", "--target-column", "kind", "--evidence-column", "why")
SMALL = ("--vectors", "none", "--embedding", 8, "--samples", 2, "--quiet", "--hidden", 4)
SMALL += ("--epochs", 1)


@pytest.fixture
def own(compare, tmp_path: Path):
    """Calls the command on the texts of ``own.csv``."""
    return partial(compare, "--data", write_own(tmp_path), *COLUMNS, "--batch-size", 16)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Own texts, and in ``out`` the results of all models with two seeds."""
    folder = tmp_path_factory.mktemp("whole")
    words = (*SMALL, "--data", write_own(folder, 80), *COLUMNS, "--batch-size", 16, "--rate", 0.3)
    done(PROGRAM, *words, "--device", "cpu", "--seeds", 0, 1, "--out", folder / "out")
    return folder


def test_compares_all_models_over_seeds(whole: Path) -> None:
    out, rows = whole / "out", pandas.read_csv(whole / "own.csv", keep_default_na=False)
    records, table = metrics_of(out), table_of(out, keep_default_na=False)
    kinds = ("dependent", "independent", "attention", "svm", "full")
    names = [(kind, seed) for kind in kinds for seed in (0, 1) if (kind, seed) != ("svm", 1)]
    assert [(r["model"], r["seed"]) for r in records] == names
    for record, run in runs_of(out, table):
        assert sorted(run["row"]) == list(range(len(rows)))
        assert (run["text"] == rows["body"].iloc[run["row"]].to_numpy()).all()
        for part in ("train", "valid", "test"):
            some = run[run["part"] == part]
            for key, column in ((part, "predicted"), (f"{part}_full", "full")):
                assert record[key] == pytest.approx(100 * (some["label"] != some[column]).mean())
        words, selected, known = [], [], []
        tested = run[run["part"] == "test"]
        for place, spans in tested[["row", "selection"]].itertuples(index=False):
            tokens = rows["body"][place].split()
            chosen = [tokens[k] for k in read_spans(spans, len(tokens)).nonzero().flatten()]
            words, selected = words + tokens, selected + chosen
            if rows["why"][place]:  # precision counts only texts whose evidence is known
                known += [word in ("awful", "superb", "film") for word in chosen]
        assert record["test_share"] == pytest.approx(100 * len(selected) / len(words))
        precision = pytest.approx(100 * sum(known) / len(known)) if known else None
        assert record.get("test_precision") == precision
        of_items = report.minus_errors(Run(record, [], run))
        assert -of_items.mean() == pytest.approx(record["test"])
    text = (out / "table.md").read_text()
    less = r" \| (?:best|[+-][\d.]+ to [+-][\d.]+(?: \*)?) \|\n"
    assert len(re.findall(less, text)) == len(kinds)
    for kind in kinds:
        assert re.search(rf"^\| {kind} \| [\d,]+ ", text, re.MULTILINE)
    assert re.search(r"of the words selected of the 1\d texts with evidence", text)
    assert text.count("\n| independent ") == 2  # its own table, and as read by the full network
    html = (out / "rationales.html").read_text()
    assert {"<mark>", "<u>"} <= set(re.findall(r"<\w+>", html))
    assert "attention (seed 0): " in html and "full (seed" not in html
    svm = next(record for record in records if record["model"] == "svm")
    assert svm["test"] == svm["test_full"] == 0 < svm["test_rest"]  # one word tells the class
    assert {"precision@0.02", "precision@0.4"} <= set(svm)


def test_learns_which_word_says_it(own, tmp_path: Path) -> None:
    words = ("--models", "independent", "--rate", 0.2, "--epochs", 14, "--lr", 0.03)
    assert own(*words, "--dropout", 0, "--samples", 4, "--hidden", 8)[0] == 0
    (record,) = metrics_of(tmp_path / "out")
    assert record["test"] <= 10 and record["test_precision"] > 80 and record["test_share"] < 30
    assert (record["estimator"], record["rate"]) == ("reinforce", 0.2)


def test_models_and_shares_are_added_to_a_folder(own, tmp_path: Path) -> None:
    assert own("--models", "full", "--estimator", "gumbel")[0] == 2  # "full" selects nothing
    assert own("--models", "full")[0] == 0
    more = ("--models", "independent", "svm", "full", "--resume", "--seeds", 3)
    text = printed(own(*more, "--rates", 0.1, 0.3, "--estimator", "hardkuma"))
    assert "which has learned from whole texts" in text
    names = [record["model"] for record in metrics_of(tmp_path / "out")]
    assert names == ["full", "full", "independent-rate-0.1", "independent-rate-0.3", "svm"]
    other = own(*more, "--rates", 0.1, 0.3)
    assert_refused(other, "holds independent-rate-0.1 of another size or with other options")
    assert "({'estimator': 'hardkuma'})" in other[2]


def test_ratings_of_beer(compare, tmp_path: Path) -> None:
    words = ("--data", "beer", "--root", write_beer(tmp_path / "beer"), "--batch-size", 8)
    text = printed(compare(*words, "--models", "dependent", "attention", "svm"))
    for record, run in runs_of(tmp_path / "out"):
        rows = run[run["part"] == "test"]
        assert record["metric"] == "MSE"
        error = ((rows["y"] - rows["prediction"]) ** 2).mean()
        assert record["test"] == pytest.approx(error, rel=1e-5)
    assert "16.7% of the words of the test part say it" in text
    y = table_of(tmp_path / "out").query("model == 'dependent' and part == 'train'")["y"]
    goal = load_learner(tmp_path / "out" / "runs" / "dependent-seed0", RationaleLearner).goal
    assert vars(goal) == pytest.approx({"mean": y.mean(), "std": y.std(ddof=0)})


@pytest.mark.parametrize("dataset", ["molecules", "chembl"])
def test_molecules(call, tmp_path: Path, dataset: str, assay, monkeypatch, drawn) -> None:
    monkeypatch.setattr(datasets, "ChEMBLSulfonamides", lambda: assay[:200])
    monkeypatch.setattr(report, "EXAMPLES", 3)
    monkeypatch.setattr(report, "DRAWN", 2)
    words = ("--data", dataset, "--layers", 1, "--batch-size", 512, "--samples", 1, "--rate", 0.6)
    small = ("--device", "cpu", "--hidden", 4, "--epochs", 1, "--quiet", "--out", tmp_path / "out")
    text = printed(call(*words, *small, "--models", "independent"))
    (record,) = metrics_of(tmp_path / "out")
    assert (record["kind"], record["metric"]) == ("independent", "MSE")
    html = (tmp_path / "out" / "rationales.html").read_text()
    assert html.count("<svg") == 3
    assert (tmp_path / "out" / "rationales.png").exists()
    assert ("Atoms that say it" in html) == (dataset == "molecules")
    assert ("is not known" in text) == (dataset == "chembl")
    new = ("--data", tmp_path / "out" / "predictions.csv", "--out", tmp_path / "new")
    refused = call("explain", "--checkpoint", tmp_path / "out", *new)
    assert_refused(refused, "reads molecules, not texts")


def test_questions_by_words_of_their_bodies(compare, tmp_path: Path) -> None:
    root = write_askubuntu(tmp_path / "forum")
    printed(compare("--data", "askubuntu", "--root", root, "--rate", 0.4))
    records = metrics_of(tmp_path / "out")
    names = [(record["model"], record["fields"]) for record in records]
    assert names == [*product(("dependent", "independent", "full"), ["body"]), ("title", "title")]
    *_, full, title = (record["test_share"] for record in records)
    assert full + title == pytest.approx(100)
    table = table_of(tmp_path / "out", dtype={"query": str})
    rows = table[(table["model"] == "title") & (table["part"] == "test")]
    assert len(rows) == 6 * 8
    lines = (root / "text_tokenized.txt").read_text().splitlines()
    lengths = {line.split("\t")[0]: len(line.split("\t")[1].split()) for line in lines}
    for query, spans in rows[["query", "query_selection"]].itertuples(index=False):
        assert spans == f"0:{lengths[query]}"
    assert (tmp_path / "out" / "rationales.html").read_text().count("<section>") == 6


def test_new_texts_are_explained(whole: Path, call, tmp_path: Path) -> None:
    texts = ["a superb film", "", "w1 awful film w2", "qqqq zzzz"]

    def explain(out: str, *words: object, **columns: Any) -> tuple[int, str, str]:
        pandas.DataFrame(columns).to_parquet(tmp_path / "new.parquet")
        files = ("--data", tmp_path / "new.parquet", "--out", tmp_path / out)
        run = ("--checkpoint", whole / "out" / "runs" / "independent-seed0")
        return call("explain", *run, "--text-column", "body", *files, *words)

    for name, size in (("explained", 256), ("again", 1)):
        status, _, err = explain(name, "--batch-size", size, body=texts, n=range(4))
        assert (status, err.count("\n")) == (0, 2)
        assert "1 of 4 texts has no words and no rationale: lines 2" in err
        assert "1 of 4 texts has no known word: lines 4" in err
    written = [(tmp_path / name / "rationales.csv").read_text() for name in ("explained", "again")]
    assert written[0] == written[1]
    table = pandas.read_csv(tmp_path / "again" / "rationales.csv", keep_default_na=False)
    assert list(table) == ["body", "n", "predicted", "full", "rest", "selection", "words"]
    assert table["n"].tolist() == [0, 1, 2, 3]
    assert table.loc[1, "predicted"] == table.loc[1, "words"] == ""
    for row in (0, 2):
        words = texts[row].split()
        chosen = read_spans(table["selection"][row], len(words)).nonzero().flatten()
        assert table["words"][row] == " ".join(words[k] for k in chosen)
        assert {table["predicted"][row], table["full"][row]} <= {"n", "c"}
    page = (tmp_path / "again" / "rationales.html").read_text()
    assert re.sub("</?mark>", "", page).count("awful film") == 1
    assert_refused(explain("again", body=texts), "--overwrite replaces it")
    assert_refused(explain("no", body=texts, words=texts), "'words'")
    assert_refused(explain("no", body=["", "  "]), "new.parquet has words")


KINDS = ("dependent", "independent", "attention", "full")
IDS = torch.tensor([2, 3, 4, 5, 6, 7, 8, 2])
PTR = torch.tensor([0, 3, 3, 4, 8])  # the second text is empty
BATCH = TextBatch(IDS, PTR, torch.tensor([0, 1, 1, 0]))
EVERY = torch.ones(8, dtype=torch.bool)


def net_of(kind: str, **fields: Any) -> RationaleNet:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"num_words": 9, "rate": 0.4, "samples": 3, "dropout": 0.0}
    return network(ModelConfig(kind, kind, "texts", 4, 2, 5, **sizes | fields)).double().eval()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_chosen_leaves_no_trace_and_every_weight_learns(kind: str) -> None:
    net, goal = net_of(kind), ClassGoal()
    chosen = torch.tensor([1, 0, 1, 0, 0, 1, 1, 0]).bool()
    part = net.inputs(TextBatch(IDS[chosen], torch.tensor([0, 2, 2, 2, 4]), BATCH.y))
    whole, lengths = net.inputs(BATCH), PTR.diff().tolist()
    torch.testing.assert_close(net.answer(whole, chosen), net.answer(part, EVERY[:4]))
    reading = net.read(whole)
    selected = reading.scores >= SELECTED
    reads = EVERY if kind == "attention" else selected
    torch.testing.assert_close(reading.output, net.answer(whole, reads))
    if kind in KINDS[:2]:
        changes = [int((some.int().diff() != 0).sum()) for some in selected.split(lengths)]
        assert reading.transitions.tolist() == changes
    objective, cost = net.train().learn(whole, lambda output: goal.losses(output, BATCH).double())
    torch.testing.assert_close(objective.detach(), cost)
    objective.backward()
    weights = [p for name, p in net.named_parameters() if not name.startswith("embedding")]
    assert all(weight.grad is not None for weight in weights)


def test_in_the_warm_up_the_encoder_learns_from_everything() -> None:
    net, goal = net_of("independent", warm_up=0.1), ClassGoal()
    assert not net.embedding.weight.requires_grad
    for passed, whole, rate in ((0.05, True, 0.5), (0.3, False, 0.2**0.5), (0.5, False, 0.4)):
        net.set_stage(passed)
        assert (net.whole, net.rationalizer.control.rate) == (whole, pytest.approx(rate))
    net.set_stage(0.0)
    inputs = net.inputs(BATCH)
    objective, _ = net.train().learn(inputs, lambda output: goal.losses(output, BATCH))
    torch.testing.assert_close(objective, goal.losses(net.answer(inputs, EVERY), BATCH).mean())
    objective.backward()
    assert all(p.grad is None for p in net.rationalizer.generator.parameters())


def test_attention_is_the_average_of_states_and_selects_its_largest_weights() -> None:
    net = net_of("attention")
    x, scores = net.inputs(BATCH)["x"], net.read(net.inputs(BATCH)).scores
    output, weights = net.attend(x, PTR)
    for text, (a, b) in enumerate(zip(PTR[:-1].tolist(), PTR[1:].tolist(), strict=True)):
        if a == b:
            torch.testing.assert_close(output[text], net.lin.bias)
            continue
        states, hidden = (
            each(x[a:b], ptr=torch.tensor([0, b - a]))[0] for each in (net.network, net.encoder)
        )
        expected = torch.softmax(states @ net.score.weight[0], dim=0)
        torch.testing.assert_close(weights[a:b], expected)
        torch.testing.assert_close(output[text], net.lin(expected @ hidden))
        largest = expected.topk(max(1, int(0.4 * (b - a) + 0.5))).indices
        assert set((scores[a:b] >= SELECTED).nonzero().flatten().tolist()) == set(largest.tolist())


def test_questions_learn_from_the_groups_that_they_stand_in() -> None:
    lengths, groups = [2, 3, 1, 0, 4, 2], torch.tensor([[1, 0, 3, 2], [4, 1, 5, 0]])
    ptr = torch.tensor([0, *lengths, *[0] * 6]).cumsum(0)
    texts = EncodedTexts(torch.arange(2, 14), ptr, torch.zeros(12).long())
    batch = question_batch(texts, groups, bodies=False)
    vectors = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
    losses = RankingGoal().losses(vectors.view(15, 4), batch)
    for found, words in zip(losses, vectors, strict=True):
        own = dict(zip(batch.question.tolist(), words, strict=True)) | {3: torch.zeros(4)}
        expected = dict.fromkeys(own, 0.0)
        for query, *others in groups.tolist():
            row = [torch.cosine_similarity(own[query], own[other], dim=0) for other in others]
            cost = max(0.0, float(max(row[1:]) - row[0]) + 1)
            for question in {query, *others}:
                expected[question] += cost
        wanted = [expected[question] for question in batch.question.tolist()]
        assert found.tolist() == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("coherence", [0.0, 0.5])
def test_an_epoch_that_selects_more_than_the_rate_pays(coherence: float) -> None:
    relevance = [torch.tensor([True, False]), torch.tensor([False, True, False])]
    config = ModelConfig("", "dependent", "questions", 1, 1, 1, rate=0.25, coherence=coherence)
    cost = SelectionCost(RankingGoal(), config, relevance)
    for scores, chosen in (([0.9, 0.1, 0.8], [1.0, 1, 0, 0]), ([0.5, 0.3], [1.0, 0])):
        reading = Reading(torch.zeros(1), torch.tensor(chosen), torch.tensor([2.0]))
        cost.update(torch.tensor(scores), reading)
    assert (cost.error(), cost.share()) == (pytest.approx(75), pytest.approx(0.5))
    assert float(cost.compute()) == pytest.approx(0.25 + 0.5 * (0.5 / 0.25 - 1) + 2 * coherence)


def test_selections_as_text_and_html() -> None:
    for marks, text in (("", ""), ("000", ""), ("0110", "1:3"), ("1011", "0:1 2:4")):
        chosen = torch.tensor([mark == "1" for mark in marks], dtype=torch.bool)
        assert spans_text(chosen) == text
        assert torch.equal(read_spans(text, len(marks)), chosen)
    chosen, evidence = (torch.tensor(m).bool() for m in ([0, 1, 1, 0, 0], [0, 0, 1, 1, 0]))
    text = selections.marked_words(["a", "<b>", "c", "d", "e"], chosen, evidence)
    assert text == "a <mark>&lt;b&gt;</mark> <mark><u>c</u></mark> <u>d</u> e"
    assert precision(chosen, evidence, ~chosen) is None
    assert precision(chosen, evidence, torch.ones(5).bool()) == 50
    lengths = torch.tensor([0, 1, 3, 10, 30])
    assert selections.num_selected(lengths, 0.15).tolist() == [0, 1, 1, 2, 5]
    scores = torch.tensor([0.1, 0.3, 0.3, 0.2, 0.9, 0.5])
    assert top_share(scores, 0.5, torch.tensor([0, 4, 4, 6])).int().tolist() == [0, 1, 1, 0, 1, 0]


def by_definition(text: list[str], number: int, weights: dict[str, float]) -> list[bool]:
    """Takes the best remaining feature at every step; in ties, words come before pairs."""
    spans = [(t, t + 1) for t in range(len(text))] + [(t, t + 2) for t in range(len(text) - 1)]
    chosen: set[int] = set()
    while spans and len(chosen) < number:
        best = max(spans, key=lambda s: weights.get(" ".join(text[slice(*s)]), 0.0))
        spans.remove(best)
        if len(chosen | set(range(*best))) <= number:
            chosen |= set(range(*best))
    return [t in chosen for t in range(len(text))]


def test_the_svm_takes_the_largest_features_one_after_the_other() -> None:
    names = ["good", "film", "not good", "good film", "a"]
    weights = dict(zip(names, (0.9, 0.1, 2.0, 0.9, 0.1), strict=True))
    places, values = {name: k for k, name in enumerate(names)}, np.array(list(weights.values()))
    for text in map(list, product(["not", "good", "film", "a"], repeat=4)):
        for number in range(5):
            found: Tensor = best_words(text, number, places, values)
            assert found.tolist() == by_definition(text, number, weights)


def test_of_several_classes_the_weights_are_those_of_the_predicted_one() -> None:
    texts = [["red", "x"], ["green", "leaf"], ["blue", "x"]] * 5
    classes = torch.tensor([0, 1, 2] * 5)
    data: Any = SimpleNamespace(classes="rgb", goal=ClassGoal())
    data.texts, data.right = (lambda part: texts), (lambda part: classes)
    svm = SVMEstimator(data, rate=0.3)
    svm.fit()
    (chosen,) = svm.select([["red", "green", "leaf"]], share=0.3)
    assert chosen.tolist() == [False, True, False]

"""Selections in tables and on pages."""

import pytest
import torch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")

from benchmarks.harness.rationale.model_config import is_model_name, model_name
from benchmarks.harness.rationale.page import marked_words, page
from benchmarks.harness.rationale.spans import read_spans, spans_text


@pytest.mark.parametrize(
    ("marks", "text"),
    [("", ""), ("000", ""), ("111", "0:3"), ("0110", "1:3"), ("1011", "0:1 2:4"), ("1", "0:1")],
)
def test_runs_of_positions_and_back(marks: str, text: str) -> None:
    chosen = torch.tensor([mark == "1" for mark in marks], dtype=torch.bool)
    assert spans_text(chosen) == text
    assert torch.equal(read_spans(text, len(marks)), chosen)


def test_runs_of_words_are_marked() -> None:
    words = ["a", "<b>", "c", "d", "e"]
    chosen, evidence = (torch.tensor(m).bool() for m in ([0, 1, 1, 0, 0], [0, 0, 1, 1, 0]))
    text = marked_words(words, chosen, evidence)
    assert text == "a <mark>&lt;b&gt;</mark> <mark><u>c</u></mark> <u>d</u> e"
    assert marked_words(words, chosen) == "a <mark>&lt;b&gt; c</mark> d e"
    assert marked_words([], torch.zeros(0).bool()) == ""
    assert marked_words(["x"], torch.ones(1).bool()) == "<mark>x</mark>"


def test_a_page_stands_alone() -> None:
    text = page("A & B", ["one\ntwo"], ["<p>three</p>"])
    assert text.startswith("<!doctype html>")
    assert "<title>A &amp; B</title>" in text
    assert "<p>one</p>\n<p>two</p>" in text
    assert "http" not in text


@pytest.mark.parametrize("kind", ["dependent", "independent"])
def test_names_of_models(kind: str) -> None:
    for name in (kind, model_name(kind, rate=0.05), model_name(kind, sparsity=3e-4)):
        assert is_model_name(name)


@pytest.mark.parametrize("name", ["other", "full-rate-0.1", "dependent-", "dependent-rate-x", ""])
def test_other_names(name: str) -> None:
    assert not is_model_name(name)

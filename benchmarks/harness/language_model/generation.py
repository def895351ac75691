"""Words drawn one after the other from a trained language model."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from benchmarks.harness.errors import InputError
from benchmarks.harness.language_model.trained import TrainedModel


@torch.no_grad()
def generate(
    model: TrainedModel,
    prompt: Sequence[str],
    length: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    seed: int = 0,
) -> Iterator[str]:
    r"""Draws words after a prompt, each from :math:`p(v) \propto \exp(s_v / \tau)`.

    The prompt follows an end of sentence, as texts in training do. The unknown word is never drawn.
    """
    generator = torch.Generator().manual_seed(seed)
    vocabulary = model.vocabulary
    ids = torch.cat([torch.tensor([vocabulary.end]), model.numbers(prompt)])
    state = None
    for _ in range(length):
        hidden, state = model.net(ids.to(model.device).unsqueeze(1), state)
        scores = model.net.scores(hidden[-1, 0]).double().cpu()
        scores[vocabulary.unknown] = -torch.inf
        ids = drawn(scores, temperature, top_k, generator)
        yield vocabulary.words[int(ids)]


def drawn(
    scores: Tensor, temperature: float, top_k: int | None, generator: torch.Generator
) -> Tensor:
    """A word's number, ``(1,)``, drawn by its score ``(V,)``; the first of equal ones is higher."""
    order = scores.argsort(descending=True, stable=True)
    if temperature == 0:
        return order[:1]
    kept = order[:top_k]
    weights = ((scores[kept] - scores[order[0]]) / temperature).exp()
    return kept[torch.multinomial(weights, 1, generator=generator)]


def checked_prompt(model: TrainedModel, words: Sequence[str]) -> list[str]:
    """The prompt, if at least one of its words is known."""
    if words and model.unknown(words).total() == len(words):
        raise InputError(
            f"--prompt: the model's vocabulary of {len(model.vocabulary):,} words ({model.corpus}) "
            "has none of these"
        )
    return list(words)

"""
Your text classifier and what it reads
======================================

A recurrent convolution takes the place of ``nn.LSTM`` in a classifier of short reviews. Its score
is a sum over n-grams with gaps, so it can be divided exactly among the words.
"""

# %%
# Reviews, made up
# ----------------
#
# A pair of words with a gap decides the class: "not ... good" is bad, "not ... bad" is good. Single
# words decide nothing.

import random
from io import BytesIO

import matplotlib.pyplot as plt
import torch
from torch import nn

from pyg_kernels.explain import TextNet, draw_text, ngram_contributions
from pyg_kernels.sequence import RCNN

rng = random.Random(0)
torch.manual_seed(0)
FILLERS = ["the", "a", "film", "plot", "is", "was", "really", "quite", "so", "at", "all", "any"]


def make_review() -> tuple[list[str], int]:
    """Some words, of which two or one say what it is; 1 is good."""
    negated, good = rng.random() < 0.5, rng.random() < 0.5
    said = ["not"] * negated + ["good" if good else "bad"]
    gap = rng.choices(FILLERS, k=rng.randint(0, 2))
    words = rng.choices(FILLERS, k=rng.randint(1, 3)) + said[:-1] + gap + said[-1:]
    return words, int(good != negated)


reviews = [make_review() for _ in range(600)]
vocabulary = {w: i for i, w in enumerate(sorted({w for words, _ in reviews for w in words}))}
vectors = torch.eye(len(vocabulary))

# %%
# The network
# -----------
#
# :class:`~pyg_kernels.sequence.RCNN` is called like ``nn.LSTM``. Its features are all pairs of
# words (``order=2``), decayed by the words between; ``readout="sum"`` adds the single words.
# Without an activation and with a linear head, the whole score is a sum over n-grams.
# :class:`~pyg_kernels.explain.TextNet` reads texts of different lengths one after the other and
# takes the state at the last word of each.

rcnn = RCNN(len(vocabulary), 24, order=2, decay=0.8, readout="sum", act=None, bias=False)
net = TextNet(rcnn, nn.Linear(24, 1))


def encode(texts: list[list[str]]) -> tuple[torch.Tensor, torch.Tensor]:
    """The words of all texts, one after the other, and the text of each word."""
    words = vectors[[vocabulary[w] for text in texts for w in text]]
    lengths = torch.tensor([len(text) for text in texts])
    return words, torch.arange(len(texts)).repeat_interleave(lengths)


optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
train, test = reviews[:500], reviews[500:]
losses = []
for _ in range(15):
    rng.shuffle(train)
    for start in range(0, len(train), 50):
        texts, labels = zip(*train[start : start + 50], strict=True)
        x, batch = encode(list(texts))
        score = net(x, batch=batch).squeeze(1)
        target = torch.tensor(labels, dtype=torch.float32)
        loss = nn.functional.binary_cross_entropy_with_logits(score, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
axes.semilogy(losses)
axes.set_xlabel("batch")
axes.set_ylabel("training loss")

# %%
# New texts:

texts, labels = zip(*test, strict=True)
x, batch = encode(list(texts))
with torch.no_grad():
    right = (net(x, batch=batch).squeeze(1) > 0) == torch.tensor(labels, dtype=torch.bool)
print(f"accuracy on new reviews: {right.float().mean():.2f}")

# %%
# What it reads
# -------------
#
# We compute the :term:`contribution` of each word, and the best n-grams. The words and the bias of
# the head add up to the score. Red speaks for a good review, blue against it.

sentence = ["the", "plot", "is", "not", "really", "so", "bad"]
x, _ = encode([sentence])
found = ngram_contributions(rcnn, x, head=net.head.weight[0], k=6)
score, bias = net(x).item(), net.head.bias.item()
print(f"{found.tokens.sum():+.4f} {bias:+.4f} = {score:+.4f}")

picture = BytesIO()
draw_text(sentence, found.tokens, found.ngrams).savefig(picture, dpi=120, bbox_inches="tight")
image = plt.imread(BytesIO(picture.getvalue()))
figure = plt.figure(figsize=(image.shape[1] / 120, image.shape[0] / 120))
axes = figure.add_axes((0, 0, 1, 1))
axes.imshow(image)
axes.set_axis_off()

# %%
# :doc:`/text` trains on tables of your own, beside ``nn.LSTM`` and a convolution. :doc:`/from_lstm`
# covers gates that decide which words to skip, packed and masked batches, and more layers.

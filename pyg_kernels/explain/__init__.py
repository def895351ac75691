"""Exact attributions: shares of nodes, edges and tokens in outputs of kernel layers and models."""

from pyg_kernels.explain.explainer import NgramExplainer, WalkExplainer
from pyg_kernels.explain.models import ModelContributions, model_contributions
from pyg_kernels.explain.ngrams import NgramContributions, ngram_contributions
from pyg_kernels.explain.pictures import draw_molecule, draw_text, text_html
from pyg_kernels.explain.text_net import TextNet
from pyg_kernels.explain.walks import WalkContributions, walk_contributions

__all__ = [
    "ModelContributions",
    "NgramContributions",
    "NgramExplainer",
    "TextNet",
    "WalkContributions",
    "WalkExplainer",
    "draw_molecule",
    "draw_text",
    "model_contributions",
    "ngram_contributions",
    "text_html",
    "walk_contributions",
]

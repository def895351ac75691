"""Sphinx configuration."""

import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parent / "extensions"))

project = "pyg_kernels"
author = "The pyg_kernels developers"
copyright = "2026, The pyg_kernels developers"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "results",
]
exclude_patterns = ["_build", "tutorials"]
sphinx_gallery_conf = {
    "examples_dirs": "tutorials",
    "gallery_dirs": "generated/tutorials",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "abort_on_example_error": True,
    "min_reported_time": 1,
    "write_computation_times": False,
}
# one thread: the tutorials are small, and the build may share its machine
torch.set_num_threads(1)
html_theme = "furo"
html_title = "pyg_kernels"
html_static_path = ["_static"]
html_css_files = ["formulas.css"]
# Methods that scikit-learn's metadata routing adds; their docstrings refer to its own glossary.
_ROUTED = ("fit", "predict", "score", "transform")
autodoc_default_options = {"exclude-members": ", ".join(f"set_{name}_request" for name in _ROUTED)}
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_custom_sections = [("Shapes", "params_style")]
napoleon_use_ivar = True

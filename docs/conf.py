"""Sphinx configuration."""

project = "pyg_kernels"
author = "The pyg_kernels developers"
copyright = "2026, The pyg_kernels developers"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "pyg_kernels"
# of scikit-learn's metadata routing, whose docstrings refer to its own glossary
_ROUTED = ("fit", "predict", "score", "transform")
autodoc_default_options = {"exclude-members": ", ".join(f"set_{name}_request" for name in _ROUTED)}
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_custom_sections = [("Shapes", "params_style")]
napoleon_use_ivar = True

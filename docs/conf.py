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
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_custom_sections = [("Shapes", "params_style")]
napoleon_use_ivar = True

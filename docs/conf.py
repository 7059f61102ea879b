"""How Sphinx builds these pages: `sphinx-build -W -b html docs docs/_build`."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ["PYTHONPATH"] = str(ROOT)  # for the kernels that execute notebooks
os.environ.setdefault("MPLCONFIGDIR", tempfile.mkdtemp())

import scanjit  # noqa: E402

project = "scanjit"
author = copyright = "The scanjit authors"
version = release = scanjit.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
default_role = "py:obj"
exclude_patterns = [
    "_build",
    "jupyter_execute",
    "gallery",
    "scan_from_scratch.py",
    *(f"auto_gallery/*.{kind}" for kind in ("py", "ipynb", "zip", "md5", "json")),
]

# ---- pages ----
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_execution_timeout = 300
nb_merge_streams = True
nb_output_stderr = "remove"  # how far compiling was

# ---- reference ----
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's sections say them
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# ---- gallery ----
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": r".*\.py",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "abort_on_example_error": True,
}

# ---- the look ----
html_theme = "pydata_sphinx_theme"
html_title = "scanjit"
html_static_path = ["_static"]
html_css_files = ["scanjit.css"]
html_show_sourcelink = False
html_theme_options = {
    "github_url": "https://github.com/scanjit/scanjit",
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}


def _skipped(app, what, name, member, skip, options):
    """scikit-learn gives each estimator methods for its routing of metadata. Their texts link to its own manual."""
    return True if name.endswith("_request") or name == "get_metadata_routing" else None


def setup(app):
    """Sphinx calls this."""
    app.connect("autodoc-skip-member", _skipped)

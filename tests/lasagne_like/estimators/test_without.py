"""Without scikit-learn, only the estimators are missing, and they say what to install."""

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["sklearn"] = None
import lasagne_like
try:
    import lasagne_like.estimators
except ImportError as error:
    print(error)
"""


def test_the_error_names_the_extra() -> None:
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "lasagne_like.estimators needs scikit-learn: pip install 'scanjit[sklearn]'"


def test_the_package_itself_does_not_import_it() -> None:
    program = "import lasagne_like, sys; print('sklearn' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"

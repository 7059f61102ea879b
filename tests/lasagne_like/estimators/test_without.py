"""Without scikit-learn, only the estimators are missing, and they say what to install."""

from tests.scripts import python

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
    assert python(PROGRAM).strip() == "lasagne_like.estimators needs scikit-learn: pip install 'scanjit[sklearn]'"


def test_the_package_itself_does_not_import_it() -> None:
    assert python("import lasagne_like, sys; print('sklearn' in sys.modules)").strip() == "False"

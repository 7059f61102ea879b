"""Without scikit-learn there is nothing to test but the error that says so."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("sklearn") else ["test_checks.py", "test_estimators.py"]

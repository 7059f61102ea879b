"""The scripts are no tests: `test_editors` gives them to type checkers."""

collect_ignore = ["right.py", "wrong.py"]

"""Most of these tests compare with ONNX Runtime."""

from importlib.util import find_spec
from pathlib import Path

ALONE = {"test_hostile.py", "test_node_cases.py"}
if not find_spec("onnxruntime"):
    collect_ignore = [path.name for path in Path(__file__).parent.glob("*.py") if path.name not in ALONE]

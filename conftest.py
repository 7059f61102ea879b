"""What is not collected where an optional dependency is missing."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("onnx") else ["scanjit/onnx/*"]

"""From expressions to ONNX graphs."""

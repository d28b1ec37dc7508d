"""Foreign models in: ``frontend.torch`` and ``frontend.onnx`` import them into an IRModule."""

"""Models in plain torch, one a file: ``build() -> (nn.Module, example_inputs)``. No compiler
import."""

"""Models in plain torch, one a file: ``build() -> (nn.Module, example_inputs)``.

The compiler is not imported here. ``fashion_mnist`` and ``garments`` give them data.
"""

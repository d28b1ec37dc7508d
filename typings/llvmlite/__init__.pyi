"""Types of the part of llvmlite that burnish uses; llvmlite itself has none."""

__version__: str

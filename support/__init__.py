"""The cellar: node kit, errors, text, passes, target, dtypes. Knows nothing of tensor compilers."""

from .case import Case

CASES: list[Case] = []

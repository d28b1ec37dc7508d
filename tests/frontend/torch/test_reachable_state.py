"""State outside of parameters, buffers and attributes: results are those of eager at every call, or
the compilation says which place they depend on, and nothing of the module has changed by then."""

from __future__ import annotations

import copy
import functools
import types
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

import burnish
from burnish.frontend.torch import import_module
from burnish.frontend.torch.reachable_state import holders_of
from burnish.support.errors import FrontendError

step = 0
seen: dict[Any, Any] = {}
log: list[Any] = []
total = torch.zeros(3)
Pair = namedtuple("Pair", "a b")


class Plain:
    def __init__(self) -> None:
        self.n = 0
        self.x = torch.zeros(3)
        self.maybe: Any = None
        self.items: list[Any] = []
        self.inner = types.SimpleNamespace(x=torch.zeros(3), n=0)


class Slotted:
    __slots__ = ("n", "x")

    def __init__(self) -> None:
        self.n = 0
        self.x = torch.zeros(3)


@dataclass
class Data:
    n: int = 0
    x: Tensor = field(default_factory=lambda: torch.zeros(3))


class Held(nn.Module):
    calls = 0
    table: ClassVar[dict[Any, Any]] = {}

    def __init__(self, body: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.body = body
        self.n = 0
        self.o: Any = Plain()
        self.s: Any = Slotted()
        self.data: Any = Data()
        self.space = types.SimpleNamespace(n=0, x=torch.zeros(3))
        self.deque: Any = deque([0], maxlen=4)
        self.tensors: Any = deque([torch.zeros(3), torch.ones(3)])
        self.default: Any = defaultdict(int)
        self.ordered: Any = OrderedDict(a=0, x=torch.zeros(3))
        self.set: Any = set()
        self.pair: Any = Pair(0, torch.zeros(3))
        self.deep: Any = {"a": [(Plain(),)]}
        self.part = nn.Sequential(nn.Sequential(nn.Identity()))
        self.part[0].o = Plain()
        self.alias = self.o
        self.same = self.o.x

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self, x)


def adds(m: Any, key: str, by: Any) -> None:
    setattr(m, key, getattr(m, key) + by)


def plain_number(m: Any, x: Tensor) -> Tensor:
    m.o.n += 1
    return x * m.o.n


def plain_third(m: Any, x: Tensor) -> Tensor:
    m.o.n += 1
    return x * 2 if m.o.n > 2 else x


def own_third(m: Any, x: Tensor) -> Tensor:
    m.n += 1
    return x * 2 if m.n > 2 else x


def own_hundredth(m: Any, x: Tensor) -> Tensor:
    m.n += 1
    if m.n == 100:
        x = x * 2
    return x


def plain_flag(m: Any, x: Tensor) -> Tensor:
    y = x if m.o.maybe is None else x + 1
    m.o.maybe = 1
    return y


def plain_grows(m: Any, x: Tensor) -> Tensor:
    m.o.items.append(x[0])
    return torch.stack(m.o.items).sum(0)


def plain_cat(m: Any, x: Tensor) -> Tensor:
    m.o.x = torch.cat([m.o.x, x[0]])
    return m.o.x.sum() + x


def plain_new(m: Any, x: Tensor) -> Tensor:
    old = m.o.n
    m.o = Plain()
    m.o.n = old + 1
    return x * m.o.n


def plain_attribute(m: Any, x: Tensor) -> Tensor:
    y = x + getattr(m.o, "late", 0)
    m.o.late = 3
    return y


def inner_number(m: Any, x: Tensor) -> Tensor:
    m.o.inner.n += 1
    return x * m.o.inner.n


def slotted(m: Any, x: Tensor) -> Tensor:
    m.s.n += 1
    return x * m.s.n


def data_class(m: Any, x: Tensor) -> Tensor:
    m.data.n += 1
    return x * m.data.n


def name_space(m: Any, x: Tensor) -> Tensor:
    m.space.n += 1
    return x * m.space.n


def queue(m: Any, x: Tensor) -> Tensor:
    m.deque.append(len(m.deque))
    return x * m.deque[-1]


def queue_left(m: Any, x: Tensor) -> Tensor:
    m.deque.appendleft(m.deque[0] + 1)
    return x * m.deque[0]


def default(m: Any, x: Tensor) -> Tensor:
    m.default["a"] += 1
    return x * m.default["a"]


def ordered(m: Any, x: Tensor) -> Tensor:
    m.ordered["a"] += 1
    return x * m.ordered["a"]


def members(m: Any, x: Tensor) -> Tensor:
    m.set.add(len(m.set))
    return x * len(m.set)


def named(m: Any, x: Tensor) -> Tensor:
    m.pair = m.pair._replace(a=m.pair.a + 1)
    return x * m.pair.a


def deep(m: Any, x: Tensor) -> Tensor:
    m.deep["a"][0][0].n += 1
    return x * m.deep["a"][0][0].n


def sub_module(m: Any, x: Tensor) -> Tensor:
    m.part[0].o.n += 1
    return x * m.part[0].o.n


def by_alias(m: Any, x: Tensor) -> Tensor:
    m.alias.n += 1
    return x * m.o.n


def of_class(m: Any, x: Tensor) -> Tensor:
    type(m).calls += 1
    return x * Held.calls


def of_class_named(m: Any, x: Tensor) -> Tensor:
    Held.calls += 1
    return x * 2 if Held.calls > 2 else x


def table_of_class(m: Any, x: Tensor) -> Tensor:
    m.table["a"] = m.table.get("a", 0) + 1
    return x * m.table["a"]


def of_plain_class(m: Any, x: Tensor) -> Tensor:
    Plain.count = getattr(Plain, "count", 0) + 1  # type: ignore[attr-defined]
    return x * Plain.count  # type: ignore[attr-defined]


def global_number(m: Any, x: Tensor) -> Tensor:
    global step
    step += 1
    return x * step


def global_third(m: Any, x: Tensor) -> Tensor:
    global step
    step += 1
    return x * 2 if step > 2 else x


def global_list(m: Any, x: Tensor) -> Tensor:
    log.append(1)
    return x * len(log)


def global_dict(m: Any, x: Tensor) -> Tensor:
    y = x + seen.get("last", 0)
    seen["last"] = x.sum()
    return y


def of_function(m: Any, x: Tensor) -> Tensor:
    of_function.n = getattr(of_function, "n", 0) + 1  # type: ignore[attr-defined]
    return x * of_function.n  # type: ignore[attr-defined]


def through_helper(m: Any, x: Tensor) -> Tensor:
    return _helper(x)


def _helper(x: Tensor) -> Tensor:
    global step
    step += 1
    return x * step


def closes_over() -> Callable[[Any, Tensor], Tensor]:
    n = 0

    def body(m: Any, x: Tensor) -> Tensor:
        nonlocal n
        n += 1
        return x * n

    return body


def closes_over_list() -> Callable[[Any, Tensor], Tensor]:
    held: list[Any] = []

    def body(m: Any, x: Tensor) -> Tensor:
        held.append(1)
        return x * len(held)

    return body


def by_default(m: Any, x: Tensor, held: list[Any] = []) -> Tensor:  # noqa: B006
    held.append(1)
    return x * len(held)


class Method:
    def __init__(self) -> None:
        self.n = 0

    def __call__(self, m: Any, x: Tensor) -> Tensor:
        self.n += 1
        return x * self.n

    def body(self, m: Any, x: Tensor) -> Tensor:
        return self(m, x)


def partial_of(held: list[Any], m: Any, x: Tensor) -> Tensor:
    held.append(1)
    return x * len(held)


REFUSED: dict[str, tuple[Any, str]] = {
    "plain_number": (plain_number, "self.o.n"),
    "plain_third": (plain_third, "self.o.n"),
    "own_third": (own_third, "self.n"),
    "own_hundredth": (own_hundredth, "self.n"),
    "plain_flag": (plain_flag, "self.o.maybe"),
    "plain_grows": (plain_grows, r"self.o.items\[0\]"),
    "plain_cat": (plain_cat, "self.o.x"),
    "plain_new": (plain_new, "self.o"),
    "plain_attribute": (plain_attribute, "self.o.late"),
    "inner_number": (inner_number, "self.o.inner.n"),
    "slotted": (slotted, "self.s.n"),
    "data_class": (data_class, "self.data.n"),
    "name_space": (name_space, "self.space.n"),
    "queue": (queue, r"self.deque\[1\]"),
    "queue_left": (queue_left, r"self.deque\[0\]"),
    "default": (default, r"self.default\['a'\]"),
    "ordered": (ordered, r"self.ordered\['a'\]"),
    "members": (members, "self.set"),
    "named": (named, "self.pair"),
    "deep": (deep, r"self.deep\['a'\]\[0\]\[0\].n"),
    "sub_module": (sub_module, "self.part.0.o.n"),
    "by_alias": (by_alias, "self.o.n"),
    "of_class": (of_class, "class Held.calls"),
    "of_class_named": (of_class_named, "class Held.calls"),
    "table_of_class": (table_of_class, "class Held.table"),
    "of_plain_class": (of_plain_class, "class Plain.count"),
    "global_number": (global_number, "global step"),
    "global_third": (global_third, "global step"),
    "global_list": (global_list, "global log"),
    "global_dict": (global_dict, "global seen"),
    "of_function": (of_function, "function of_function.n"),
    "through_helper": (through_helper, "global step"),
    "closes_over": (closes_over(), "n of closes_over"),
    "closes_over_list": (closes_over_list(), "held of closes_over_list"),
    "by_default": (by_default, "the defaults of by_default"),
    "callable": (Method(), "self.body.n"),
    "method": (Method().body, "self.body.n"),
    "partial": (functools.partial(partial_of, []), r"self.body\[0\]"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_results_that_depend_on_it(case: str) -> None:
    body, name = REFUSED[case]
    module = Held(body).eval()
    before = _state(module)
    with pytest.raises(FrontendError, match=rf"Held sets .*{name}"):
        burnish.compile(module, (torch.ones(2, 3),))
    assert _state(module) == before


def _state(module: nn.Module) -> dict[str, Any]:
    """What is reachable: objects by their identity, tensors by their values too."""
    return {
        h.name_of(key): (value.tolist() if isinstance(value, Tensor) else None, id(value))
        if not isinstance(value, frozenset)
        else value
        for h in holders_of(module)
        for key, value in h.values.items()
    }


# -- what is followed, and what is no loss ----------------------------------------------------


def replaces_plain(m: Any, x: Tensor) -> Tensor:
    m.o.x = m.o.x + x[0]
    return x + m.o.x


def writes_plain(m: Any, x: Tensor) -> Tensor:
    m.o.x.add_(x[0])
    return x + m.o.x


def replaces_inner(m: Any, x: Tensor) -> Tensor:
    m.o.inner.x = m.o.inner.x * 0.5 + x[0]
    return x + m.o.inner.x


def replaces_slot(m: Any, x: Tensor) -> Tensor:
    m.s.x = m.s.x + x[0]
    return x + m.s.x


def replaces_data(m: Any, x: Tensor) -> Tensor:
    m.data.x = m.data.x + x[0]
    return x + m.data.x


def rotates(m: Any, x: Tensor) -> Tensor:
    m.tensors[0], m.tensors[1] = m.tensors[1], m.tensors[0] + x[0]
    return x + m.tensors[1]


def replaces_ordered(m: Any, x: Tensor) -> Tensor:
    m.ordered["x"] = m.ordered["x"] + x[0]
    return x + m.ordered["x"]


def writes_pair(m: Any, x: Tensor) -> Tensor:
    m.pair.b.add_(x[0])
    return x + m.pair.b


def replaces_deep(m: Any, x: Tensor) -> Tensor:
    held = m.deep["a"][0][0]
    held.x = held.x + x[0]
    return x + held.x


def replaces_sub(m: Any, x: Tensor) -> Tensor:
    m.part[0].o.x = m.part[0].o.x + x[0]
    return x + m.part[0].o.x


def counts_beside(m: Any, x: Tensor) -> Tensor:
    m.n += 1
    m.o.x = m.o.x + x[0]
    return x + m.o.x


def memoised(m: Any, x: Tensor) -> Tensor:
    key = x.shape[1], x.dtype
    if key not in m.default:
        m.default[key] = torch.arange(3.0)
    return x + m.default[key]


def memoised_plain(m: Any, x: Tensor) -> Tensor:
    if m.o.maybe is None:
        m.o.maybe = torch.arange(3.0)
    return x + m.o.maybe


def memoised_global(m: Any, x: Tensor) -> Tensor:
    if "table" not in seen:
        seen["table"] = torch.arange(3.0)
    return x + seen["table"]


def memoised_class(m: Any, x: Tensor) -> Tensor:
    if "table" not in m.table:
        Held.table["table"] = torch.arange(3.0)
    return x + m.table["table"]


@functools.lru_cache
def _table(n: int) -> Tensor:
    return torch.arange(float(n))


def memoised_function(m: Any, x: Tensor) -> Tensor:
    return x + _table(x.shape[1])


def counts(m: Any, x: Tensor) -> Tensor:
    m.o.n += 1
    m.deque.append(0)
    return x + 1


def logs(m: Any, x: Tensor) -> Tensor:
    m.o.items.append(x.sum())
    log.append(1)
    m.set.add(len(x.shape))
    return x + 1


def counts_globally(m: Any, x: Tensor) -> Tensor:
    global step
    step += 1
    Held.calls += 1
    return x + 1


def averages(m: Any, x: Tensor) -> Tensor:
    m.o.n += 1
    m.o.mean = m.o.n / 2
    return x + 1


def scratch(m: Any, x: Tensor) -> Tensor:
    m.o.maybe = x + 1
    return m.o.maybe * 2


FOLLOWED = (
    replaces_plain, writes_plain, replaces_inner, replaces_slot, replaces_data, rotates,
    replaces_ordered, writes_pair, replaces_deep, replaces_sub, counts_beside,
)  # fmt: skip
NO_LOSS = (
    memoised, memoised_plain, memoised_global, memoised_class, memoised_function, counts, logs,
    counts_globally, averages, scratch,
)  # fmt: skip


@pytest.mark.parametrize("body", [*FOLLOWED, *NO_LOSS])
def test_results_of_every_call(body: Any) -> None:
    module = Held(body).eval()
    eager = copy.deepcopy(module)
    before = _state(module)
    model = burnish.compile(module, (torch.ones(2, 3),))
    assert _state(module) == before
    for i in range(4):
        x = torch.full((2, 3), 1.0 + i)
        torch.testing.assert_close(model(x), eager(x))
    seen.clear()
    log.clear()
    Held.table.clear()
    _table.cache_clear()


class Rebound(nn.Module):
    """A list of the same length takes the place of one in every call."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = [0, 0, 0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * (1 + self.weights[0])
        self.weights = [*self.weights[1:], 1]
        return y


class Collected(nn.Module):
    """A list that each call begins anew, and reads."""

    def __init__(self) -> None:
        super().__init__()
        self.features: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.features = []
        for _ in range(3):
            x = x * 2
            self.features.append(x)
        return torch.stack(self.features)


def test_lists_that_take_the_place_of_others() -> None:
    x = torch.ones(3)
    with pytest.raises(FrontendError, match=r"self\.weights"):
        import_module(Rebound().eval(), (x,))
    module = Collected().eval()
    import_module(module, (x,))
    assert module.features == []

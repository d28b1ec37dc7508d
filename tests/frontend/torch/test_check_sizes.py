"""Programs and modules are compared at sizes that torch does not answer for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import burnish
from burnish.frontend.torch import check_sizes
from burnish.frontend.torch.check_sizes import DiffersError, ProgramRun
from burnish.support.errors import UnsupportedOpError


class Of(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x) + (1 if type(self.weight) is nn.Parameter else 0)


def is_a_tensor(x: Tensor) -> Tensor:
    return x * 2 if type(x) is Tensor else x


def has_a_whole_size(x: Tensor) -> Tensor:
    return x * 2 if isinstance(x.shape[0], int) else x


def has_a_size_of_a_type(x: Tensor) -> Tensor:
    return x * 2 if type(x.shape[0]) in (float, int) else x


def has_half_a_size(x: Tensor) -> Tensor:
    half = x.shape[0] / 2
    return x * half if isinstance(half, float) and not isinstance(half, int) else x


def has_a_sum(x: Tensor) -> Tensor:
    total = x.sum().item()
    return x * 2 if type(total) is float and isinstance(total, float) else x


class Kind(type):
    def __call__(cls, *args: Any) -> Any:
        return type.__call__(cls, *args)


class Three(metaclass=Kind):
    value = 3


def makes_classes(x: Tensor) -> Tensor:
    class Meta(type):
        pass

    class Two(metaclass=Meta):
        value: type[Any] | int = 2

    assert isinstance(Two, type)
    return x * Three().value * 2 if type(x) is Tensor else x


def asserts_a_type(x: Tensor) -> Tensor:
    if type(x) is not Tensor:
        raise AssertionError("a tensor")
    return x * 2


@pytest.mark.parametrize(
    "function",
    [
        is_a_tensor,
        makes_classes,
        asserts_a_type,
        has_a_whole_size,
        has_a_size_of_a_type,
        has_half_a_size,
        has_a_sum,
    ],
)
@pytest.mark.parametrize("is_named", [False, True])
def test_tensors_sizes_and_numbers_are_of_the_types_they_have_in_eager(
    function: Callable[[Tensor], Tensor], is_named: bool
) -> None:
    module, x = Of(function).eval(), torch.rand(5, 3)
    shapes = ({0: "n"},) if is_named else None
    model = burnish.compile(module, (x,), dynamic_shapes=shapes)
    for given in (x, x[:2]) if is_named else (x,):
        torch.testing.assert_close(model(given), module(given))
    assert function.__globals__.get("int") is None, "the names of the file are Python's again"
    assert function.__globals__.get("type") is None


def is_of_a_class(x: Tensor) -> Tensor:
    return x * 2 if x.__class__ is Tensor else x


def is_compiled(x: Tensor) -> Tensor:
    return x if torch.compiler.is_compiling() else x * 2


def has_a_flag(x: Tensor) -> Tensor:
    return x * 2 if (x > 0).all().item() is True else x


def has_a_word(x: Tensor) -> Tensor:
    return x * 2 if f"{x.shape[0]}" == "5" else x


@pytest.mark.parametrize("function", [is_of_a_class, is_compiled, has_a_flag])
@pytest.mark.parametrize("x", [torch.ones(5, 3), torch.linspace(-1, 1, 15).reshape(5, 3)])
def test_what_has_another_answer_while_a_module_is_traced_is_refused(
    function: Callable[[Tensor], Tensor], x: Tensor
) -> None:
    with pytest.raises(DiffersError, match="something else for these inputs"):
        burnish.compile(Of(function).eval(), (x,))


def test_so_is_a_named_size_as_text() -> None:
    with pytest.raises(DiffersError, match="something else for these inputs"):
        burnish.compile(Of(has_a_word).eval(), (torch.rand(5, 3),), dynamic_shapes=({0: "n"},))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_padded_rows_of_a_fast_layer_are_no_reason_to_refuse() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    module = nn.TransformerEncoder(layer, 1).eval()
    x, padding = torch.rand(2, 4, 8), torch.tensor([[False] * 4, [False, False, True, True]])
    model = burnish.compile(module)
    with torch.no_grad():
        found, expected = (call(x, src_key_padding_mask=padding) for call in (model, module))
    assert torch.backends.mha.get_fastpath_enabled()
    torch.testing.assert_close(found[0], expected[0], atol=1e-5, rtol=1e-4)


def test_random_numbers_are_drawn_as_without_a_check() -> None:
    torch.manual_seed(3)
    burnish.compile(Of(is_a_tensor).eval(), (torch.ones(2, 3),))
    drawn = torch.rand(2)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(2), drawn)


def test_programs_agree_in_imaginary_parts_too() -> None:
    z = torch.rand(3, dtype=torch.complex64)
    assert check_sizes._agree(z, z.clone())
    assert not check_sizes._agree(z, z.conj().resolve_conj())


def test_a_view_of_another_order_in_memory_is_a_copy() -> None:
    """As where a product is traced on tensors that have none, and gives it otherwise."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    turned = graph.call_function(torch.ops.aten.permute.default, (x, [1, 0]))
    graph.output(graph.call_function(torch.ops.aten.view.default, (turned, [6])))
    module = torch.fx.GraphModule(nn.Module(), graph)
    given = torch.arange(6.0).reshape(2, 3)
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        module(given)
    assert ProgramRun(module).run(given).tolist() == [0, 3, 1, 4, 2, 5]


class Sparse(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.to_sparse()


def test_results_that_are_not_compared_are_left_to_the_import() -> None:
    with pytest.raises(UnsupportedOpError, match="_to_sparse"):
        burnish.compile(Sparse().eval(), (torch.rand(2, 3),))
    assert not check_sizes._agree(torch.ones(2), 3)
    assert not check_sizes._agree(3, torch.full((1,), 3))
    assert check_sizes._agree(float("nan"), float("nan"))


def test_bags_of_a_named_number() -> None:
    """PyTorch itself ends the process where there are none, and a word to leave out."""
    module = nn.EmbeddingBag(20, 6, mode="sum", padding_idx=0).eval()
    words, begin = torch.arange(12) % 20, torch.tensor([0, 3, 3, 10])
    model = burnish.compile(module, (words, begin), dynamic_shapes=({0: "n"}, {0: "b"}))
    torch.testing.assert_close(model(words, begin[:2]), module(words, begin[:2]))

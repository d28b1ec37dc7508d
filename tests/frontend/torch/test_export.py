"""Exporting modules: training mode, bad examples, and Python branches on a size."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import burnish
from burnish.frontend.torch import export
from burnish.frontend.torch.check_sizes import run_program
from burnish.frontend.torch.export import check_eval_mode, export_module
from burnish.support.errors import FrontendError, ShapeMismatchError

X = torch.rand(1, 4)


class Calls(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def failure(module: nn.Module, *inputs: Any, shapes: Any = None) -> str:
    with pytest.raises(FrontendError) as caught:
        export_module(module.eval(), inputs, None, shapes)
    return str(caught.value)


# -- training mode -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("module", "named"),
    [
        (nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), "1 (Dropout)"),
        (nn.BatchNorm1d(4), "the module (BatchNorm1d)"),
        (nn.Sequential(nn.Sequential(nn.BatchNorm2d(4))), "0.0 (BatchNorm2d)"),
    ],
)
def test_training_mode_that_changes_the_result_is_refused(module: nn.Module, named: str) -> None:
    with pytest.raises(FrontendError) as caught:
        check_eval_mode(module.train())
    assert str(caught.value) == (
        f"{named} is in training mode, which changes its result. "
        "Call module.eval() before compiling."
    )
    check_eval_mode(module.eval())


def test_training_mode_without_effect_is_fine() -> None:
    own = nn.BatchNorm1d(4, track_running_stats=False)
    check_eval_mode(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0), own).train())


# -- examples ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.empty(2, device="meta"), "example input 0 is on meta; burnish compiles for the CPU"),
        (torch.eye(2).to_sparse(), "example input 0 has the layout torch.sparse_coo"),
        (torch.ones(2).to(torch.float8_e5m2), "example input 0: dtype torch.float8_e5m2 cannot be"),
    ],
)
def test_examples_are_dense_cpu_tensors(x: torch.Tensor, message: str) -> None:
    assert failure(nn.ReLU(), x).startswith(message)


def test_examples_inside_others_are_named() -> None:
    nested = {"a": [X, torch.ones(2).to(torch.float8_e5m2)]}
    assert failure(nn.ReLU(), nested).startswith("example input 0['a'][1]: dtype")


def test_a_bare_tensor_is_no_tuple_of_inputs() -> None:
    with pytest.raises(FrontendError, match=r"a tuple, \(x,\) for a single one; found a Tensor"):
        export_module(nn.ReLU(), X)  # type: ignore[arg-type]


# -- modules that do not export ------------------------------------------------------------------
def test_control_flow_on_data_does_not_export() -> None:
    message = failure(Calls(lambda x: x * 2 if x.sum() > 0 else x), X)
    assert message.startswith(f"Calls does not export at {__file__}:")
    assert ": message = failure(Calls(lambda x: x * 2 if x.sum() > 0 else x), X): Guard" in message
    assert "control flow that depends on data" in message
    assert "TORCH_LOGS" not in message


def test_errors_of_the_model_itself_are_passed_on() -> None:
    message = failure(Calls(lambda x: x @ x), X)
    assert "message = failure(Calls(lambda x: x @ x), X): RuntimeError: " in message
    assert "[1, 4] X [1, 4]" in message


def test_a_dim_that_cannot_vary_is_explained() -> None:
    message = failure(nn.Linear(4, 2), X, shapes=({1: "width"},))
    assert message.startswith("Linear does not export with width of any size: ")
    assert len(message.splitlines()) < 12


def test_branches_that_leave_a_single_size_are_explained() -> None:
    def odd_rows(x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        if n != 2 and n % 2 != 0:
            x = x + 1
        return x * 2 if (3 * n - 1) // n == 2 else x

    message = failure(Calls(odd_rows), torch.rand(5, 3), shapes=({0: "n"},))
    assert "does not export with n of any size" in message
    assert "a specialized value" in message


def test_warnings_of_the_model_pass_and_others_do_not() -> None:
    def warn(x: torch.Tensor) -> torch.Tensor:
        warnings.warn("mine", UserWarning, stacklevel=1)
        return x + 1

    with pytest.warns(UserWarning, match="mine"):
        export_module(Calls(warn).eval(), (X,))


# -- branches on a size ----------------------------------------------------------------------------
def test_a_branch_that_matters_at_size_1_is_refused() -> None:
    branch = Calls(lambda x: x * 2 if x.shape[0] == 1 else x)
    message = failure(branch, X, shapes=({0: "batch"},))
    assert message.startswith("forward() computes something else where batch is 1")


def test_of_a_branch_that_matters_at_size_0_that_size_is_refused() -> None:
    branch = Calls(lambda x: x.sum(0) + 1 if x.shape[0] == 0 else x.sum(0))
    model = burnish.compile(branch.eval(), (X,), dynamic_shapes=({0: "batch", 1: "width"},))
    assert model.report.notes[0] == "dim batch was exported for sizes of 1 and more."
    assert torch.equal(model(X), X.sum(0))
    assert not model(X[:, :0]).numel(), "the other dim may be 0 all the same"
    with pytest.raises(ShapeMismatchError, match="of batch from 1 and more"):
        model(X[:0])


def test_a_module_that_fails_at_size_0_is_no_judge() -> None:
    view = Calls(lambda x: x.view(x.shape[0], -1))
    export_module(view.eval(), (X,), None, ({0: "batch"},))


def test_a_branch_that_does_not_matter_is_fine() -> None:
    branch = Calls(lambda x: x.contiguous() * 2 if x.shape[0] == 1 else x * 2)
    program, plan = export_module(branch.eval(), (X,), None, ({0: "batch"},))
    assert plan.names == ("batch",)
    assert torch.equal(run_program(program, [X])[0], X * 2)


def test_a_size_its_user_excludes_may_differ() -> None:
    branch = Calls(lambda x: x * 2 if x.shape[0] == 1 else x)
    dim = Dim("batch", min=2, max=50)
    export_module(branch.eval(), (torch.rand(2, 4),), None, ({0: dim},))


def test_without_the_oblivious_rules_the_check_still_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(export, "symbolic_config", object())
    branch = Calls(lambda x: x * 2 if x.shape[0] == 1 else x)
    assert "computes something else" in failure(branch, X, shapes=({0: "batch"},))
    export_module(Calls(F.relu).eval(), (X,), None, ({0: "batch"},))


class Masks(nn.Module):
    """Attention with a buffer of as many rows as there may be positions, a part of which is taken:
    torch asks whether that lies in one piece, as all of it does."""

    def __init__(self, other: float = 0.0) -> None:
        super().__init__()
        self.register_buffer("mask", torch.ones(1, 1, 16, 16).tril())
        self.other = other

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[1]
        product = (x @ x.mT)[:, None]
        scores = product.masked_fill(self.mask[:, :, :n, :n] == 0, -1e9)
        return scores.softmax(-1) if n != 16 else scores.softmax(-1) + self.other


def test_as_many_positions_as_a_table_has_and_fewer() -> None:
    shapes, x = ({0: "batch", 1: "length"},), torch.randn(3, 16, 4)
    module = Masks().eval()
    model = burnish.compile(module, (x[:, :5],), dynamic_shapes=shapes)
    for n in (16, 15, 5, 1):
        torch.testing.assert_close(model(x[:, :n]), module(x[:, :n]))
    with pytest.raises(ShapeMismatchError, match="of length from 0 to 16"):
        model(torch.randn(3, 17, 4))


def test_a_branch_that_matters_at_the_size_of_a_table_is_refused() -> None:
    message = failure(Masks(1.0), torch.randn(2, 5, 4), shapes=({0: "batch", 1: "length"},))
    assert message.startswith("forward() computes something else where length is 16")


class Blocks(nn.Module):
    """Views of a part of a table, for which torch leaves out its size twice, the second time the
    other way round."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.rand(16, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        part = self.table[: x.shape[0], : x.shape[0]]
        return part.contiguous().view(-1)[: x.shape[0]] * x + part.reshape(-1)[-1]


def test_a_part_of_a_table_as_one_row() -> None:
    module, x = Blocks().eval(), torch.rand(16)
    model = burnish.compile(module, (x[:5],), dynamic_shapes=({0: "n"},))
    for n in (16, 15, 1):
        torch.testing.assert_close(model(x[:n]), module(x[:n]))


class At(nn.Module):
    """Does something else at one size."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] == self.size else x + 1


@pytest.mark.parametrize("size", [300, 3000])
def test_a_branch_at_one_large_size_is_seen(size: int) -> None:
    assert str(size) in failure(At(size), torch.rand(5), shapes=({0: "n"},))


class Chunks(nn.Module):
    """Sums in chunks of 40, of which the last is padded, as state space models compute theirs.
    ``more`` is added where none is."""

    def __init__(self, more: float = 0.0) -> None:
        super().__init__()
        self.more = more

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        missing = (40 - x.shape[1] % 40) % 40
        chunks = F.pad(x, (0, missing)).reshape(x.shape[0], -1, 40)
        sums = chunks.cumsum(-1) + chunks.sum(-1, keepdim=True).cumsum(1)
        found = sums.reshape(x.shape[0], -1)
        return found[:, : x.shape[1]] if missing else found + self.more


def test_chunks_of_a_length_with_and_without_a_rest_are_one_program() -> None:
    shapes = ({0: "rows", 1: "length"},)
    model = burnish.compile(Chunks(), (torch.rand(3, 100),), dynamic_shapes=shapes)
    (note,) = [n for n in model.report.notes if "takes other branches" in n]
    assert "compared with it at 40, 80, 120, 160, 280, 520, 1040." in note
    for size in (1, 7, 40, 41, 79, 80, 120, 121, 400):
        x = torch.rand(2, size)
        torch.testing.assert_close(model(x), Chunks()(x), rtol=1e-4, atol=1e-4)


def test_chunks_that_are_something_else_without_a_rest_are_refused() -> None:
    message = failure(Chunks(1.0), torch.rand(3, 100), shapes=({0: "rows", 1: "length"},))
    assert "something else where length is 1040" in message


class Whole(nn.Module):
    """Has a way of its own for lengths without a rest, and from some length on."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] % 8 == 0 and x.shape[0] >= 512 else x * 1


def test_a_branch_within_a_branch_is_seen() -> None:
    message = failure(Whole(), torch.rand(13), shapes=({0: "n"},))
    assert "something else where n is 1024" in message


class Sides(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 3 if x.shape[0] < 7 else x * 2


@pytest.mark.parametrize(("example", "other"), [(5, 7), (6, 9), (8, 6), (20, 1)])
def test_a_program_is_of_the_side_that_the_example_is_on(example: int, other: int) -> None:
    x = torch.rand(example, 2)
    model = burnish.compile(Sides(), (x,), dynamic_shapes=({0: "n"},))
    torch.testing.assert_close(model(x), Sides()(x))
    with pytest.raises(ShapeMismatchError, match="It was exported for these"):
        model(torch.rand(other, 2))


class Centered(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 1:
            x = x - x.mean(0)
        return x


def test_a_dim_of_1_that_is_something_else_is_left_out() -> None:
    model = burnish.compile(Centered(), (torch.rand(4, 3),), dynamic_shapes=({0: "rows"},))
    for rows in (2, 5):
        x = torch.rand(rows, 3)
        torch.testing.assert_close(model(x), Centered()(x))
    with pytest.raises(ShapeMismatchError, match="rows from 2 and more"):
        model(torch.rand(1, 3))


class TwoInputs(nn.Module):
    """Needs two rows of the second input, whatever the first has."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = x.sum(0) + 1 if x.shape[0] == self.size else x.sum(0)
        return total + y[0] * y[1]


def test_a_branch_is_seen_where_the_other_dims_must_be_more_than_1() -> None:
    inputs, shapes = (torch.rand(3, 4), torch.rand(5, 4)), ({0: "rows"}, {0: "others"})
    _, plan = export_module(TwoInputs(0).eval(), inputs, None, shapes)
    assert plan.least[0, 0] == 1
    message = failure(TwoInputs(1), *inputs, shapes=shapes)
    assert message.startswith("forward() computes something else where rows is 1")


class Words(nn.Module):
    """Makes zeros of word 0, as of padding."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.table, self.size = nn.Embedding(10, 4, padding_idx=0), size

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        rows = self.table(words)
        return rows * 2 if words.shape[0] == self.size else rows


def test_a_branch_is_seen_though_zeros_hide_it() -> None:
    message = failure(Words(1), torch.tensor([3, 4, 5]), shapes=({0: "n"},))
    assert message.startswith("forward() computes something else where n is 1")


def test_words_that_a_smaller_size_does_not_have_are_no_reason_to_look_away() -> None:
    class Rows(nn.Module):
        def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            return x[at] * 2 if x.shape[0] == 1 else x[at]

    inputs = (torch.rand(5, 4), torch.tensor([4, 3]))
    message = failure(Rows(), *inputs, shapes=({0: "rows"}, {0: "places"}))
    assert message.startswith("forward() computes something else where rows and places is 1")


class Rebinds(nn.Module):
    """Counts its calls in a buffer that each replaces."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls = self.calls + 1
        return x + self.calls


def test_checks_of_sizes_leave_a_modules_buffers_as_they_were() -> None:
    module = Rebinds().eval()
    held = module.calls
    export_module(module, (torch.rand(4),), None, ({0: "n"},))
    assert module.calls is held
    assert held.item() == 0


class Remembers(nn.Module):
    """Keeps what it made for each length, as tables of positions are."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[int, torch.Tensor] = {}
        self.last: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[1]
        if n not in self.tables:
            self.tables[n] = torch.arange(n) * 0.5
        self.last.append(x)
        return x + self.tables[n]


@dataclasses.dataclass
class Parts:
    """A result that torch does not know how to take apart."""

    value: torch.Tensor


class Looks(nn.Module):
    """Branches on a value of its own, and gives a dataclass."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("flags", torch.tensor([True, False]))

    def forward(self, x: torch.Tensor) -> Parts:
        return Parts(x + 1 if self.flags.any().item() else x)


def test_a_look_at_values_and_a_result_of_an_unknown_type() -> None:
    program, _ = export_module(Looks(), (X,))
    torch.testing.assert_close(run_program(program, [X])[0], X + 1)


@pytest.mark.filterwarnings("ignore:The tensor attributes")
def test_caches_keep_no_tensors_of_the_trace() -> None:
    module, x = Remembers(), torch.rand(2, 4)
    for shapes in (None, ({0: "n"},)):
        program, _ = export_module(module, (x,), None, shapes)
        assert not module.tables
        assert not module.last
        torch.testing.assert_close(run_program(program, [x])[0], x + torch.arange(4) * 0.5)
    torch.testing.assert_close(module(x), x + torch.arange(4) * 0.5)


class Packs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(4, 3, batch_first=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        rows: torch.Tensor = nn.utils.rnn.pad_packed_sequence(self.layer(packed)[0])[0]
        return rows


@pytest.mark.filterwarnings("ignore:The tensor attributes")
def test_packed_sequences_are_refused_by_name() -> None:
    with pytest.raises(FrontendError, match="Packs packs sequences"):
        export_module(Packs().eval(), (torch.rand(2, 5, 4), torch.tensor([5, 3])))


# -- sizes that torch cannot show to be fine ------------------------------------------------------
class Relative(nn.Module):
    """Scores of distances, whose rows are shifted by reshapes, as Transformer-XL does."""

    def __init__(self, step: float) -> None:
        super().__init__()
        self.step = step

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[0]
        distances = torch.arange(length, -length, self.step)
        scores = x.sum(1, keepdim=True) * distances.to(x.dtype)
        shifted = scores.reshape(2 * length, length)[1:].reshape(length, 2 * length - 1)
        return shifted[:, :length]


@pytest.mark.parametrize("step", [-1, -1.0])
def test_rows_shifted_by_reshapes_have_any_length(step: float) -> None:
    module, x = Relative(step).eval(), torch.rand(6, 3)
    model = burnish.compile(module, (x,), dynamic_shapes=({0: "length"},))
    for length in (1, 2, 5, 6, 17):
        x = torch.rand(length, 3)
        torch.testing.assert_close(model(x), module(x))


def test_sizes_of_another_branch_are_found_among_those_that_torch_leaves_open() -> None:
    def branches(x: torch.Tensor) -> torch.Tensor:
        length = x.shape[0]
        shifted = Relative(-1)(x)
        return shifted + 2 if (length * length) % (2 * length - 1) == 0 else shifted

    message = failure(Calls(branches), torch.rand(6, 3), shapes=({0: "length"},))
    assert message.startswith("forward() computes something else where length is 1")


class BothWays(nn.Module):
    """Rows and their reversals side by side on the axis of the batch, whose last size the module
    keeps, as speechbrain's recurrent layers."""

    def __init__(self) -> None:
        super().__init__()
        self.batch_size = 2
        self.layer = nn.Linear(3, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        both = torch.cat([x, x.flip(1)], dim=0)
        if self.batch_size != both.shape[0]:
            self.batch_size = both.shape[0]
        one, other = self.layer(both).chunk(2, dim=0)
        found = torch.cat([one, other.flip(1)], dim=2)
        last = torch.stack([found[:, -1, :]], dim=1)
        return found, last.reshape(last.shape[1] * 2, last.shape[0], 4)


def test_a_look_at_a_size_leaves_reshapes_of_it_to_any() -> None:
    module = BothWays().eval()
    program, plan = export_module(module, (torch.rand(2, 5, 3),), None, ({0: "batch"},))
    assert plan.names == ("batch",)
    for batch in (1, 2, 3, 6):
        x = torch.rand(batch, 5, 3)
        for found, expected in zip(run_program(program, [x]), module(x), strict=True):
            torch.testing.assert_close(found, expected)


def test_a_range_of_sizes_is_the_dims_bounds() -> None:
    def padded(x: torch.Tensor) -> torch.Tensor:
        rows = torch.arange(1.0).expand(len(x), 1)
        return F.pad(x, (4, 4), mode="reflect") + rows

    module = Calls(padded).eval()
    shapes = ({0: "batch", 1: "length"},)
    model = burnish.compile(module, (torch.rand(2, 9),), dynamic_shapes=shapes)
    for batch, length in ((1, 5), (2, 9), (4, 31)):
        x = torch.rand(batch, length)
        torch.testing.assert_close(model(x), module(x))
    with pytest.raises(ShapeMismatchError, match="5"):
        model(torch.rand(2, 4))


def test_a_multiple_of_a_size_that_a_branch_bounds() -> None:
    def upsampled(x: torch.Tensor) -> torch.Tensor:
        frames = torch.cat([x, x + 1, x * x])
        if frames.shape[0] >= 64:
            frames = frames.contiguous()
        return frames * 2

    module = Calls(upsampled).eval()
    model = burnish.compile(module, (torch.rand(2, 3),), dynamic_shapes=({0: "batch"},))
    for batch in (1, 2, 21):
        x = torch.rand(batch, 3)
        torch.testing.assert_close(model(x), module(x))
    with pytest.raises(ShapeMismatchError, match="21"):
        model(torch.rand(22, 3))

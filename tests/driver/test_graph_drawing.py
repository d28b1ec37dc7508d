"""The drawing of a graph: a box a call, lines around what they pass."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import burnish
from burnish.driver.graph_drawing import GraphNode, draw_graph, graph_nodes

MODULE = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 6), dtype="float32"), y: R.Tensor((4, 6), dtype="float32")):
        with R.dataflow():
            a = R.call_dps(cls.f, (x,), out_type=R.Tensor((4, 6), dtype="float32"))
            b = R.reshape(a, R.shape([24]))
            c = R.call_dps_packed("mine", (b, R.const([1], "int64")), R.Tensor((24,), "float32"))
            d = R.reshape(c, R.shape([4, 6]))
            e = R.add(d, x)
            R.output(d, e)
        return (d, e)

    @T.prim_func
    def f(x: T.Buffer((4, 6), "float32"), z: T.Buffer((4, 6), "float32")):
        for i, j in T.grid(4, 6):
            with T.block("z"):
                v, w = T.axis.remap("SS", [i, j])
                z[v, w] = x[v, w]
"""


def nodes() -> list[GraphNode]:
    return graph_nodes(burnish.parse(MODULE).graph_functions["main"])


def test_views_and_tuples_are_no_boxes() -> None:
    found = [(n.kind, n.label, n.reads) for n in nodes()]
    assert found == [
        ("input", "x", ()),
        ("input", "y", ()),
        ("kernel", "f", (0,)),
        ("function", "mine", (2,)),
        ("function", "add", (3, 0)),
        ("output", "result", (3, 4)),
    ]
    assert nodes()[2].type == "float32[4, 6]"
    assert nodes()[3].weights == 1
    assert nodes()[5].type == "float32[4, 6], float32[4, 6]"


def test_the_svg_is_whole_and_hot_where_the_time_goes() -> None:
    text = draw_graph(nodes(), {"f": 0.75})
    root = ElementTree.fromstring(text)
    name = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f".//{name}g")) == 6
    (link,) = root.findall(f"{name}a")
    assert link.attrib["href"] == "#kernel-f"
    shares = [t.text for t in root.iter(f"{name}text") if t.attrib.get("class") == "share"]
    assert shares == ["75.0%"]
    assert "opacity:0.75" in text


def test_lines_that_pass_boxes_do_not_lie_on_each_other() -> None:
    made = [GraphNode("input", str(i), "", "", ()) for i in range(3)]
    made += [GraphNode("function", "f", "", "", (0, 1)), GraphNode("function", "g", "", "", (2, 3))]
    text = draw_graph(made, {})
    # From 0 and 1 to 3, and from 2 to 4: the first two side by side.
    lanes = re.findall(r"H(\d+)q5", text)
    assert len(lanes) == 3
    assert lanes[0] != lanes[1]
    assert text.count('class="line"') == 4


def test_names_are_escaped_and_cut() -> None:
    text = draw_graph([GraphNode("input", "<&" + "x" * 60, "", "", ())], {})
    assert "&lt;&amp;" in text
    assert "…" in text
    ElementTree.fromstring(text)

"""YAML 1.2 with positions."""

import pytest

from healer.rules.yaml_positions import Mapping, Scalar, Sequence, YamlProblem, read_documents


def scalar(text: str, key: str = "a") -> Scalar:
    (document,) = read_documents(text)
    assert isinstance(document, Mapping)
    value = document.value(key)
    assert isinstance(value, Scalar)
    return value


@pytest.mark.parametrize("written", ["NO", "22:00", "yes", "off", "0o17", "1_000"])
def test_what_only_yaml_1_1_reads_as_something_else_stays_text(written: str) -> None:
    value = scalar(f"a: {written}\n")
    assert value.text == written
    assert value.boolean() is None
    assert value.integer() is None


def test_true_and_numbers_are_read_unless_quoted() -> None:
    assert scalar("a: true").boolean() is True
    assert scalar("a: False").boolean() is False
    assert scalar("a: 'true'").boolean() is None
    assert scalar("a: -12").integer() == -12
    assert scalar('a: "12"').integer() is None
    assert scalar("a: ~").is_null
    assert not scalar("a: ''").is_null


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a: sum(up) +  down", id="plain"),
        pytest.param("a: sum(up)\n  + down\n  - x", id="plain over lines"),
        pytest.param("a: 'it''s up + ''x'''", id="single quotes"),
        pytest.param('a: "sum(up) + down"', id="double quotes"),
        pytest.param("a: |-\n  sum(up)\n    + down\n\n  - x\n", id="literal block"),
        pytest.param("a: |2-  # why\n    sum(up)\n  + down\n", id="literal block with a header"),
        pytest.param("a: >-\n  sum(up)\n  + down\n\n  - x\n", id="folded block"),
        pytest.param("a: &here\n  sum(up)\n", id="anchor"),
        pytest.param("a: !tag 'sum(up)'\n", id="tag"),
        pytest.param("b: {a: sum(up), c: d}\na: x", id="flow"),
    ],
)
def test_every_character_is_found_where_it_stands(text: str) -> None:
    lines = text.split("\n")
    value = scalar(text)
    for offset, character in enumerate(value.text):
        line, column = value.position(offset)
        if not character.isspace():
            assert lines[line - 1][column - 1] == character


def test_escapes_count_as_the_character_they_make() -> None:
    value = scalar('a: "x\\n\\u00e9 \\"y\\" z"')
    assert value.text == 'x\né "y" z'
    assert value.position(value.text.index("y")) == (1, 17)
    assert value.position(value.text.index("z")) == (1, 21)


def test_the_end_of_a_text_is_behind_its_last_character() -> None:
    value = scalar("a: |\n  sum(\n    up +\n")
    assert value.position(len(value.text)) == (3, 9)


def test_repeated_keys_stay_visible() -> None:
    (document,) = read_documents("a: 1\nb: 2\na: 3\n")
    assert isinstance(document, Mapping)
    assert [(key.text, key.line) for key, _ in document.entries] == [("a", 1), ("b", 2), ("a", 3)]


def test_aliases_and_merge_keys_are_followed() -> None:
    (document,) = read_documents("base: &b {x: 1, y: 2}\nother:\n  <<: *b\n  y: 3\nlist: [*b]\n")
    assert isinstance(document, Mapping)
    other, listed = document.value("other"), document.value("list")
    assert isinstance(other, Mapping)
    assert isinstance(listed, Sequence)
    assert {key.text: value.text for key, value in other.entries if isinstance(value, Scalar)} == {"x": "1", "y": "3"}
    assert listed.items == (document.value("base"),)


def test_several_documents_are_separate() -> None:
    assert len(read_documents("a: 1\n---\nb: 2\n...\n---\n")) == 3


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        pytest.param("a:\n  b: [", (2, 7), "expected the node content", id="open list"),
        pytest.param("a: *x", (1, 4), "names no anchor", id="unknown alias"),
        pytest.param("a: b: c", (1, 5), "mapping values are not allowed", id="two colons"),
        pytest.param("a: 1\nb: \x01", (2, 4), "unacceptable character", id="control character"),
        pytest.param("a:\n\t- b", (2, 1), "cannot start any token", id="tab"),
        pytest.param("{[a]: b}", (1, 2), "a key must be plain text", id="list as key"),
        pytest.param("a: {<<: 1}", (1, 9), "<< needs a mapping", id="merge of a number"),
        pytest.param("[" * 5000, (1, 66), "nested deeper than 64", id="deep nesting"),
    ],
)
def test_what_is_not_yaml_is_shown_at_its_place(text: str, place: tuple[int, int], said: str) -> None:
    with pytest.raises(YamlProblem, match=said) as caught:
        read_documents(text)
    assert (caught.value.line, caught.value.column) == place


def test_an_alias_bomb_is_stopped() -> None:
    lines = ["a0: &a0 {" + ", ".join(f"k{n}: v" for n in range(100)) + "}"]
    lines += [f"m{n}: {{<<: [" + ", ".join(["*a0"] * 50) + "]}" for n in range(200)]
    assert len(read_documents("\n".join(lines))) == 1
    many = "\n".join(f"- {{<<: *a0, x{n}: 1}}" for n in range(6000))
    with pytest.raises(YamlProblem, match="more than"):
        read_documents(f"{lines[0]}\nlist:\n{many}\n")

"""Queries, qrels and runs as they come in files, and what each bad input gets."""

import gzip
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.errors import InvalidArgument, InvalidData
from tercet.evaluate import (
    Outcome,
    Qrels,
    Queries,
    Run,
    read_mteb,
    read_run,
    read_runs,
    read_trec,
    triplet_id,
    write_lists,
    write_mteb,
    write_trec,
)
from tercet.evaluate.run import strictly_falling


def put(path, text):
    data = text.encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("queries.jsonl", '{"_id": "a", "text": "one", "hops": 2}\n\n{"_id": "b", "text": "two", "hops": 3}\n'),
        ("questions.jsonl.gz", '{"id": "a", "question": "one", "hops": 2}\n{"id": "b", "question": "two", "hops": 3}'),
        ("q.tsv", "query-id\ttext\thops\na\tone\t2\nb\ttwo\t3\n"),
        ("q.tsv.gz", "a\tone\nb\ttwo\n"),
    ],
)
def test_queries_of_every_form(tmp_path, name, text):
    got = Queries.read(put(tmp_path / name, text))
    assert got.ids.to_pylist() == ["a", "b"]
    assert got.texts.to_pylist() == ["one", "two"]
    if "hops" in got.fields.column_names:
        assert [str(h) for h in got.column("hops").to_pylist()] == ["2", "3"]


def test_other_fields_are_kept_whatever_they_hold():
    got = Queries.of([{"id": 1, "text": "t", "gold": [1, 2], "mixed": 1}, {"id": 2, "text": "u", "mixed": "x"}])
    assert got.ids.to_pylist() == ["1", "2"]
    assert got.column("gold").to_pylist() == [[1, 2], None]
    assert got.column("mixed").to_pylist() == ["1", '"x"']
    assert got.take([1]).texts.to_pylist() == ["u"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}', r"line 2: the query id 'a' is there already \(.*line 1"),
        ('{"id": "a"}', r"line 1: expected one of .* got \['id'\]"),
        ('{"text": "a"}', r"line 1: expected one of"),
        ('{"id": " ", "text": "x"}', r"line 1: expected an id, got ' '"),
        ('{"id": 1.5, "text": "x"}', r"line 1: an id must be a string"),
        ('{"id": "a", "text": null}', r"line 1: expected a text as 'text', got None"),
        ("[1]", r"line 1: expected an object"),
        ("{", r"line 1: not valid JSON"),
        ("", r"no queries"),
    ],
)
def test_bad_queries(tmp_path, text, message):
    with pytest.raises(InvalidData, match=message):
        Queries.read(put(tmp_path / "q.jsonl", text))


def test_bad_query_files(tmp_path):
    with pytest.raises(InvalidArgument, match="no such file"):
        Queries.read(tmp_path / "q.jsonl")
    with pytest.raises(InvalidArgument, match="expected queries in a file ending in"):
        Queries.read(tmp_path / "q.xml")
    with pytest.raises(InvalidData, match="line 2: expected an id, a tab and a text, got 1 columns"):
        Queries.read(put(tmp_path / "q.tsv", "a\tone\nb\n"))
    (tmp_path / "q.tsv.gz").write_bytes(gzip.compress("".join(f"{i}\tone\n" for i in range(999)).encode())[:-9])
    with pytest.raises(InvalidData, match="damaged gzip file"):
        Queries.read(tmp_path / "q.tsv.gz")
    with pytest.raises(InvalidData, match="expected a row for each of 1 queries, got the shape"):
        Queries.of({"a": "x"}).with_vectors(np.zeros((2, 3)))


EXPECTED = {"a": {"d": 1, "e": 2}, "b": {"f": 1}}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("test.tsv", "query-id\tcorpus-id\tscore\na\td\t1\na\te\t2\nb\tf\t1\n"),
        ("qrels.txt", "a 0 d 1\na 0 e 2\nb 0 f 1\n"),
        ("qrels", "a 0 d 1\na\t0\te 2\nb 0 f 1\n"),
        ("q.jsonl.gz", '{"query-id": "a", "corpus-id": "d", "score": 1}\n{"query-id": "a", "corpus-id": "e", '
                       '"score": 2.0}\n{"query-id": "b", "corpus-id": "f", "score": 1}'),
        ("q.json", json.dumps(EXPECTED)),
    ],
)  # fmt: skip
def test_qrels_of_every_form(tmp_path, name, text):
    assert Qrels.read(put(tmp_path / name, text)).to_dict() == EXPECTED


def test_qrels_as_lists_of_gold(tmp_path):
    got = Qrels.read(put(tmp_path / "q.jsonl", '{"id": 7, "gold": [3, 1], "x": 0}\n{"id": 8, "gold": []}'))
    assert got.to_dict() == {"7": {"3": 1, "1": 1}, "8": {}}
    assert got.relevant.tolist() == [2, 0]
    facts = Qrels.read(put(tmp_path / "t.jsonl", '{"id": 7, "facts": [["a", "r s", "b"]]}'), gold="facts")
    assert facts.to_dict() == {"7": {triplet_id("a", "r s", "b"): 1}}
    assert triplet_id("a", "r s", "b") == '["a","r s","b"]'
    got.write(tmp_path / "w.tsv")
    assert Qrels.read(tmp_path / "w.tsv").to_dict() == {"7": {"3": 1, "1": 1}}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("q", "a 0 d 1\na 0 the document 1\n", r"line 2: .*ids without white space\), got 5 columns"),
        ("q", "a 0 d 1\na 0 d 1\n", r"line 2: 'd' is judged already for the query 'a' \(.*line 1\)"),
        ("q", "a 0 d high\n", r"line 1: expected an integer as the grade, got 'high'"),
        ("q", "a 0 d 0.5\n", r"line 1: expected an integer"),
        ("q", "", r"the qrels are empty"),
        ("q.tsv", "query-id\tcorpus-id\tscore\n", r"the qrels are empty"),
        ("q.tsv", "query-id\tdocument\na\td\n", r"line 1: expected a header with query-id, corpus-id, score"),
        ("q.tsv", "query-id\tcorpus-id\tscore\na\td\n", r"line 2: expected 3 columns between tabs, got 2"),
        ("q.jsonl", '{"id": 1, "gold": []}', r"the qrels are empty"),
        ("q.jsonl", '{"id": 1}', r"line 1: expected an id and a list 'gold'"),
        ("q.jsonl", '{"id": 1, "gold": 3}', r"line 1: expected 'gold' to be a list"),
        ("q.jsonl", '{"id": 1, "gold": [3, 3]}', r"line 1: '3' is judged already"),
        ("q.jsonl", '{"id": 1, "gold": [["a", "b"]]}', r"line 1: expected a triplet of three texts"),
        ("q.json", "[1]", r"expected a mapping of query ids"),
        ("q.json", "{", r"line 1: not valid JSON"),
    ],
)
def test_bad_qrels(tmp_path, name, text, message):
    with pytest.raises(InvalidData, match=message):
        Qrels.read(put(tmp_path / name, text))


RUN = {"q1": {"b": 0.5, "a": 0.5, "c": 0.7}, "q2": {"z": -1.0}}


def test_trec_run_orders_as_trec_eval_does(tmp_path):
    lines = "".join(f"{q} Q0 {d} 9 {s} sys\n" for q, found in RUN.items() for d, s in found.items())
    run = read_trec(put(tmp_path / "r.trec", lines))
    assert run.name == "sys"
    assert run.to_arrow()["id"].to_pylist() == ["c", "b", "a", "z"]  # ties by id, descending; ranks are ignored
    assert run.tied_at(2).tolist() == [True, False]
    assert run.score.tolist() == [0.7, 0.5, 0.5, -1.0]
    np.testing.assert_array_equal(run.strict_scores[:2], np.float32([0.7, 0.5]))
    assert run.strict_scores[2] < np.float32(0.5)


def test_written_runs_come_back(tmp_path):
    run = Run.of_dict("mine", RUN)
    write_trec(run, tmp_path / "r.trec")
    write_mteb(run, tmp_path / "r.json")
    write_lists(run, tmp_path / "r.jsonl")
    for got in (read_run(tmp_path / n) for n in ("r.trec", "r.json", "r.jsonl")):
        assert (got.name, got.queries.to_pylist()) == ("mine", ["q1", "q2"])
        assert got.to_arrow()["id"].to_pylist() == ["c", "b", "a", "z"]
    assert not read_trec(tmp_path / "r.trec").tied_at(2).any()  # written scores fall strictly
    assert (tmp_path / "r.trec").read_text().splitlines()[0] == "q1 Q0 c 1 0.7 mine"


def test_distances_are_negated():
    run = Run.of_dict("d", {"q": {"near": 0.1, "far": 0.9}}, distances=True)
    assert run.to_arrow()["id"].to_pylist() == ["near", "far"]
    assert run.score.tolist() == [-0.1, -0.9]
    assert run.scores_are == "negated distances"
    with pytest.raises(InvalidData, match="a higher score at rank 2 than before it; are they distances"):
        Run.of_arrays("d", ["q"], np.array([0, 2]), np.array([0, 1]), ["near", "far"], np.array([0.1, 0.9]))


def test_white_space_in_ids_is_refused_or_escaped(tmp_path):
    run = Run.of_lists("r", {"q 1": ["name:United States", "50%"], "q2": ["a\u2003b"]})
    with pytest.raises(InvalidData, match=r"query ids hold white space.*'q 1'"):
        write_trec(run, tmp_path / "r.trec")
    write_trec(run, tmp_path / "r.trec", white_space="escape")
    assert (tmp_path / "r.trec").read_text().startswith("q%201 Q0 name:United%20States 1 -1 r\n")
    got = read_trec(tmp_path / "r.trec", escaped=True)
    assert got.to_arrow()["id"].to_pylist() == ["name:United States", "50%", "a\u2003b"]
    assert got.queries.to_pylist() == ["q 1", "q2"]
    with pytest.raises(InvalidArgument, match="run name"):
        write_trec(Run.of_lists("my run", {"q": ["d"]}), tmp_path / "x.trec")
    with pytest.raises(InvalidArgument, match="white_space"):
        write_trec(run, tmp_path / "x.trec", white_space="replace")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q Q0 d 1 0.5 s\nq Q0 my d 2 0.4 s\n", r"line 2: expected 6 columns .*got 7"),
        ("q Q0 d 1 0.5 s\nq Q0 d 2 0.4 s\n", r"line 2: the query 'q' has the document 'd' already on line 1"),
        ("q Q0 d 1 best s\n", r"line 1: expected a number as the score, got 'best'"),
        ("q Q0 d 1 nan s\n", r"line 1: expected a number as the score, got 'nan'"),
        ("\n", r"the run is empty"),
    ],
)
def test_bad_trec_runs(tmp_path, text, message):
    with pytest.raises(InvalidData, match=message):
        read_trec(put(tmp_path / "r.trec", text))


def test_lists_with_nulls_and_repeats(tmp_path):
    path = put(tmp_path / "r.jsonl", '{"run": "a", "subset": 5, "id": 1, "retrieved": [3, null, 3, 4, null]}\n')
    with pytest.raises(InvalidData, match=r"line 1: the document 3 is there twice"):
        read_runs(path)
    run = read_runs(path, by=("run", "subset"), repeats="first")["a-5"]
    assert run.to_arrow()["id"].to_pylist() == ["3", None, "4", None]
    assert run.to_dict() == {"1": {"3": -1.0, "4": -3.0}}
    twice = put(tmp_path / "t.jsonl", '{"run": "a", "id": 1, "retrieved": []}\n' * 2)
    with pytest.raises(InvalidData, match=r"line 2: the run 'a' has the query '1' already"):
        read_runs(twice)
    two = put(tmp_path / "two.jsonl", '{"run": "a", "id": 1, "retrieved": []}\n{"run": "b", "id": 1, "retrieved": []}')
    with pytest.raises(InvalidArgument, match="holds the runs 'a', 'b'"):
        read_run(two)
    assert list(read_runs(two)) == ["a", "b"]
    assert read_runs(two)["a"].state.tolist() == [Outcome.empty]
    for text, message in (("", "holds no run"), ('{"id": 1}', "line 1: expected an id and a list 'retrieved'")):
        with pytest.raises(InvalidData, match=message):
            read_runs(put(tmp_path / "bad.jsonl", text))


def test_mteb_predictions(tmp_path):
    made = {"mteb_model_meta": {"model_name": "org/model"}, "default": {"test": RUN}}
    run = read_mteb(put(tmp_path / "p.json", json.dumps(made)))
    assert (run.name, len(run)) == ("org/model", 2)
    with pytest.raises(InvalidData, match="expected one subset and split, got 'dev', 'test'"):
        read_mteb(put(tmp_path / "p.json", json.dumps({"default": {"dev": RUN, "test": RUN}})))
    with pytest.raises(InvalidData, match=r"expected \{query: \{document: score\}\}"):
        read_mteb(put(tmp_path / "p.json", '{"a": 1}'))
    with pytest.raises(InvalidData, match="expected a number as the score of 'd', got None"):
        read_mteb(put(tmp_path / "p.json", '{"a": {"d": null}}'))


def test_runs_refuse_what_they_cannot_be():
    with pytest.raises(InvalidData, match="repeated query ids: 'q'"):
        Run.of_arrays("r", ["q", "q"], np.array([0, 0, 0]), np.zeros(0), [], None)
    with pytest.raises(InvalidData, match="the query 'q' has the document 'd' twice"):
        Run.of_arrays("r", ["q"], np.array([0, 2]), np.array([0, 0]), ["d"], None)
    with pytest.raises(InvalidData, match="the document 'd' is there twice, again at rank 3"):
        Run.of_lists("r", {"q": ["d", "e", "d"]})
    with pytest.raises(InvalidData, match="has a score that isn't a number"):
        Run.of_arrays("r", ["q"], np.array([0, 1]), np.array([0]), ["d"], np.array([np.nan]))
    with pytest.raises(InvalidData, match="don't fit the offsets"):
        Run.of_arrays("r", ["q"], np.array([0, 2]), np.array([0]), ["d"], None)


FLOATS = st.floats(-(2.0**90), 2.0**90, width=32, allow_subnormal=False)
TINY = np.finfo(np.float32).tiny


def below(number: np.float32) -> np.float32:
    """The next smaller number that isn't subnormal."""
    if number == 0:
        return -TINY
    return np.float32(0) if number == TINY else np.nextafter(number, np.float32(-np.inf))


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.lists(FLOATS | st.sampled_from([0.0, -0.0, 1.0, float(TINY), -float(TINY)]), max_size=8),
        min_size=1,
        max_size=5,
    )
)
def test_strict_scores_fall_and_differ_only_where_they_must(lists):
    lists = [sorted(row, reverse=True) for row in lists]
    score = np.float32([s for row in lists for s in row])
    query = np.repeat(np.arange(len(lists)), [len(row) for row in lists])
    got = strictly_falling(score, query)
    last: dict[int, np.float32] = {}
    for q, given_score, made in zip(query.tolist(), score, got, strict=True):
        expected = given_score if q not in last else min(given_score, below(last[q]))
        assert made == expected
        last[q] = made

"""The load generator: arrivals keep their times, latencies count from them, and the rate found is the right one."""

import json
import time
from concurrent.futures import Future
from threading import Thread

import numpy as np
import pyarrow.parquet as pq
import pytest

from bench.arrivals import all_at_once, one_by_one, open_loop, poisson
from bench.cli import main
from bench.serve import figures, largest_rate, within
from tercet.errors import QueueFull


def answered(value=None):
    future = Future()
    future.set_result(value)
    return future


def test_poisson_arrivals_are_seeded_ascending_and_as_many_as_the_rate_says():
    due = poisson(1000.0, 20.0, seed=1)
    assert np.array_equal(due, poisson(1000.0, 20.0, seed=1))
    assert np.all(np.diff(due) >= 0)
    assert due[-1] < 20.0
    assert abs(len(due) - 20_000) < 5 * 20_000**0.5
    gaps = np.diff(due)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.05)  # exponential


def test_a_latency_counts_from_the_moment_a_query_was_due():
    def slow(i):
        time.sleep(0.05)  # a sender that is held up
        return answered()

    sent = open_loop(slow, np.array([0.0, 0.01, 0.02]))
    assert sent.status.tolist() == ["ok"] * 3
    assert sent.latency_s[0] >= 0.05
    assert sent.latency_s[2] >= 0.13 - 0.001  # three times 50 ms since 0, due at 20 ms


def test_what_is_refused_or_fails_has_no_latency():
    def submit(i):
        if i == 1:
            raise QueueFull("full")
        future = Future()
        if i == 2:
            future.set_exception(TimeoutError())
        else:
            future.set_result(None)
        return future

    sent = all_at_once(submit, 4)
    assert sent.status.tolist() == ["ok", "refused", "TimeoutError", "ok"]
    assert np.isnan(sent.latency_s).tolist() == [False, True, True, False]
    assert figures(sent)["status"] == {"TimeoutError": 1, "ok": 2, "refused": 1}


def test_one_in_flight():
    flying = []

    def submit(i):
        assert not any(not f.done() for f in flying)
        future = Future()
        flying.append(future)
        Thread(target=lambda: (time.sleep(0.002), future.set_result(None))).start()
        return future

    sent = one_by_one(submit, 5)
    assert (sent.latency_s >= 0.002).all()


@pytest.mark.parametrize("truth", [37.0, 500.0, 990.0])
def test_bisection_finds_the_largest_rate(truth):
    found = largest_rate(lambda rate: rate <= truth, 1000.0)
    assert truth - 30.0 <= found <= truth


def test_bisection_gives_up():
    asked = []
    assert not largest_rate(asked.append, 1000.0)
    assert len(asked) < 10


def test_a_rate_is_borne_when_all_are_answered_in_time_and_in_step():
    good = {"status": {"ok": 900}, "p99_ms": 40.0, "answered_qps": 99.0, "queries": 900, "due_s": 9.0}
    assert within(good, 50.0)
    for change in ({"p99_ms": 60.0}, {"answered_qps": 80.0}, {"status": {"ok": 899, "refused": 1}}, {"p99_ms": None}):
        assert not within({**good, **change}, 50.0)


def test_the_command(tmp_path, capsys):
    out = tmp_path / "run"
    given = ["serve", "--workload", "uniform:300:900", "--dimension", "16", "--seconds", "0.3", "--rates", "100",
             "--bound-ms", "500", "--out", str(out), "--json"]  # fmt: skip
    assert main(given) == 0
    summary = json.loads((out / "summary.json").read_text())
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == summary
    assert summary["sustained_qps"] > 0
    assert summary["share_of_offline"] == pytest.approx(
        summary["sustained_qps"] / np.mean(summary["offline_qps"]), 0.01
    )
    raw = pq.read_table(out / "latency.parquet")
    assert raw.num_rows == sum(row["queries"] for row in summary["rows"])
    assert {"cold", "single stream", "server", "confirmed"} <= set(raw.column("scenario").to_pylist())
    assert main(["serve", "--out", str(out)]) == 2  # never overwritten
    assert main(["serve", "--store", str(tmp_path), "--out", str(tmp_path / "x")]) == 2

"""Studies from a terminal."""

import json
from pathlib import Path

import numpy as np
import pandas
import xarray as xr
from described import SPEC
from typer.testing import CliRunner

import performative as pf
from performative.cli import app
from performative.study.spec import describe


def run(*words, code=0):
    result = CliRunner().invoke(app, ["study", *map(str, words)], env={"COLUMNS": "120"})
    assert result.exit_code == code, result.output
    return result.output


def number(asked):
    return "--deployment", asked["id"]


def demand(prices, n, seed):
    noise = np.random.default_rng(seed).normal(size=(n, 2))
    return np.array([6.0, 5.0]) - np.asarray(prices) + 0.1 * noise


def test_a_study_from_the_terminal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("spec.toml").write_text(SPEC)
    assert "study eu created in prices.db" in run("new", "spec.toml", "--store", "prices.db")
    store = ("--store", "prices.db")
    assert "ask for the next decisions" in run("status", *store)
    assert "Missing option '--deployment'" in run("tell", "spec.toml", *store, code=2)
    Path("observed.csv").write_text("a,b\n1,2\n")
    assert "there is no event 1" in run("tell", "--yes", "observed.csv", "--deployment", 1, *store, code=1)
    asked = json.loads(run("ask", "--json", *store))
    assert asked["samples"] == 5
    assert json.loads(run("ask", "--json", *store)) == asked
    shown = run("ask", *store)
    assert f"deployment {asked['id']}" in shown
    assert "slack: cap" in shown
    pandas.DataFrame(demand(asked["decisions"][0], 5, 0), columns=["a", "b"]).to_csv("observed.csv", index=False)
    assert "the study knows no names" in run("tell", "--yes", "observed.csv", *number(asked), *store, code=1)
    shown = run("tell", "--in-order", "observed.csv", *number(asked), *store, code=1)
    assert shown.splitlines()[0] == f"observed.csv: 5 samples for deployment {asked['id']}"
    assert "nothing was reported, since nobody can be asked here: look at what was read, and add --yes" in shown
    assert "reported; next is round 1" in run("tell", "--yes", "observed.csv", "--in-order", *number(asked), *store)
    assert "reported; next is round 1" in run(
        "tell", "--yes", "observed.csv", *number(asked), *store
    )  # again, accepted once
    pandas.read_csv("observed.csv")[["b", "a"]].to_csv("turned.csv", index=False)
    assert "reported; next is round 1" in run("tell", "--yes", "turned.csv", *number(asked), *store)
    asked = json.loads(run("ask", "--json", *store))
    assert f"deployment {asked['id']} canceled" in run("cancel", "--reason", "a holiday", *number(asked), *store)
    asked = json.loads(run("ask", "--json", *store))
    Path("observed.json").write_text(json.dumps(demand(asked["decisions"][0], 7, 1).tolist()))
    assert "observed.json must name its columns (a, b" in run(
        "tell", "--yes", "observed.json", *number(asked), *store, code=1
    )
    assert "reported; next is round 2" in run("tell", "--yes", "observed.json", "--in-order", *number(asked), *store)
    asked = json.loads(run("ask", "--json", *store))
    frame = pandas.DataFrame(demand(asked["decisions"][0], 5, 2), columns=["a", "b"])
    frame.assign(decision=0).to_parquet("observed.parquet")
    frame.rename(columns={"a": "c"}).to_csv("other.csv", index=False)
    assert "must have the columns a, b, in any order, but missing: a; unknown: c" in run(
        "tell", "other.csv", *number(asked), *store, code=1
    )
    assert "reported; next is round 3" in run("tell", "--yes", "observed.parquet", *number(asked), *store)
    last = asked
    log = run("log", *store).splitlines()
    assert [line.split()[3] for line in log] == ["create", "ask", "tell", "ask", "cancel", "ask", "tell", "ask", "tell"]
    assert "a holiday" in log[4]
    lines = [json.loads(line) for line in run("log", "--json", *store).splitlines()]
    assert lines[6]["samples"] == [demand(lines[5]["decisions"][0], 7, 1).tolist()]
    asked = json.loads(run("ask", "--json", *store))
    frame.assign(a=[3e9, *frame["a"][1:]]).to_csv("typo.csv", index=False)
    held = run("tell", "--yes", "typo.csv", *number(asked), *store, code=1)
    assert "a: 3e+09 in line 2 of typo.csv is unlike the others: about " in held
    assert "tell them with confirm=True (--confirm)" in held
    run("cancel", "--reason", "a typo", *number(asked), *store)
    status = run("status", *store)
    assert "constraint cap: slack" in status
    assert "3 deployments reported" in status
    assert "effect     too early, 1 more deployment" in status
    numbers = json.loads(run("status", "--json", *store))
    assert numbers["told"] == 3
    assert np.shape(numbers["slack_history"]) == (3, 1)
    assert numbers["now"]["risk"] is None
    assert numbers["now"]["reason"].startswith("too early, ")
    assert run("why", *store).splitlines()[1].startswith("the plan counts on a ")
    assert json.loads(run("why", "--json", *store))["numbers"]["action"] in ("explore", "exploit")
    assert "events: 11, reports: 3" in run("verify", *store)
    run("plot", *store, "--out", "study.png")
    assert Path("study.png").read_bytes()[:4] == b"\x89PNG"
    for name in ("study.nc", "study.csv", "study.parquet"):
        assert "3 deployments" in run("export", *store, "--out", name)
    with xr.open_dataset("study.nc", engine="netcdf4") as past:
        assert past["samples"].values.tolist() == [5, 7, 5]
    table = pandas.read_csv("study.csv")
    assert table["samples"].tolist() == [5, 7, 5]
    np.testing.assert_allclose(table[["theta_0", "theta_1"]].values[2], last["decisions"][0], rtol=1e-12)
    np.testing.assert_allclose(table[["mean_a", "mean_b"]].values[2], frame[["a", "b"]].mean(), rtol=1e-12)


def test_pairs_of_decisions_are_told_by_a_column(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("spec.toml").write_text(
        SPEC[: SPEC.index("[method]")] + '[method]\ntype = "apda"\nwarmup = 4\nexploration = 0.1'
    )
    store = ("--store", "prices.db")
    run("new", "spec.toml", *store)
    asked = json.loads(run("ask", "--json", *store))
    Path("observed.json").write_text(json.dumps([demand(asked["decisions"][0], 4, 0).tolist()]))
    run("tell", "--yes", "observed.json", *number(asked), *store)
    asked = json.loads(run("ask", "--json", *store))
    assert len(asked["decisions"]) == 2
    parts = [
        pandas.DataFrame(demand(row, 3, i)).add_prefix("z").assign(decision=i)
        for i, row in enumerate(asked["decisions"])
    ]
    wrong = pandas.concat([parts[0], parts[1].assign(decision=2)])
    wrong.to_csv("wrong.csv", index=False)
    assert "the column 'decision' must hold 0 to 1" in run("tell", "--yes", "wrong.csv", *number(asked), *store, code=1)
    pandas.concat([parts[0], parts[1][:2]]).to_csv("uneven.csv", index=False)
    assert "the same number of samples" in run("tell", "--yes", "uneven.csv", *number(asked), *store, code=1)
    pandas.concat(parts).to_csv("observed.csv", index=False)
    assert "reported; next is round 2" in run("tell", "--yes", "observed.csv", "--in-order", *number(asked), *store)


def test_errors_are_lines_and_change_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("bad.toml").write_text(SPEC.replace('name = "eu"', "").replace("samples = 5", "samples = 0"))
    printed = run("new", "bad.toml", "--store", "prices.db", code=1)
    assert printed.splitlines() == [
        "error: name: must be given",
        "error: method.samples: must be a whole number from 1 to 33554432, but got 0",
    ]
    assert not Path("prices.db").exists()
    assert run("ask", "--store", "prices.db", code=1) == (
        "error: prices.db does not exist; create a study with `performative study new SPEC --store prices.db`\n"
    )
    assert run("new", "nowhere.toml", "--store", "prices.db", code=1) == (
        "error: nowhere.toml does not exist; write a description of the study there\n"
    )
    Path("spec.toml").write_text(SPEC)
    run("new", "spec.toml", "--store", "prices.db")
    assert "already has a study 'eu'" in run("new", "spec.toml", "--store", "prices.db", code=1)
    run("ask", "--store", "prices.db")
    for name, text, message in (
        ("a.csv", "x,y\n1,nan\n", "must be finite"),
        ("b.csv", "x\n1\n", "the study knows no names"),
        ("c.json", "{", "is not valid JSON"),
        ("d.json", '"text"', "must be numbers"),
        ("g.json", "[[1e400, 1]]", "must be finite"),
        ("h.json", f"[[1{'0' * 400}, 1]]", "must be numbers"),
        ("i.json", "[" * 100_000, "is not valid JSON"),
        ("e.txt", "1 2", "must end in"),
        ("f.csv", "x,y\n", "must hold at least one sample"),
    ):
        Path(name).write_text(text)
        assert message in run("tell", "--yes", name, "--deployment", 1, "--store", "prices.db", code=1)
    Path("other.toml").write_text(SPEC.replace('"eu"', '"us"'))
    run("new", "other.toml", "--store", "prices.db")
    for words in (("plot", "--out", "a.gif"), ("export", "--out", "a.xls")):
        assert "`--out` must end in" in run(*words, "--store", "prices.db", "--name", "eu", code=1)
    assert "prices.db holds several studies; choose one with `--name`: eu, us" in run(
        "ask", "--store", "prices.db", code=1
    )
    assert "has no study 'asia'" in run("ask", "--store", "prices.db", "--name", "asia", code=1)
    assert "events: 1, reports: 0" in run("verify", "--store", "prices.db", "--name", "us")
    pf.Study.create("own.db", "own", describe(SPEC).method).close()
    assert "was not created from a description" in run("status", "--store", "own.db", code=1)


def test_a_users_loss_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my_losses_here.py").write_text(
        "import jax.numpy as jnp\ndef dear(theta, z):\n    return -jnp.sum(theta * z)\n"
    )
    Path("spec.toml").write_text(
        SPEC.replace('type = "revenue"', 'type = "function"\nfunction = "my_losses_here:dear"')
    )
    run("new", "spec.toml", "--store", "prices.db")
    asked = json.loads(run("ask", "--json", "--store", "prices.db"))
    assert len(asked["decisions"]) == 1


PAST = """
[history]
file = "past.csv"
decisions = ["p1", "p2"]
data = ["a", "b"]
count = "days"
"""


def test_a_study_with_past_deployments(tmp_path, monkeypatch):
    """The file is read beside the description, wherever the command runs; a change to it is noticed, and it may go."""
    home = tmp_path / "home"
    home.mkdir()
    past, store = home / "past.csv", ("--store", tmp_path / "prices.db")
    (home / "spec.toml").write_text(SPEC.replace("samples = 5", "samples = 5\nstart = [1.5, 1.0]") + PAST)
    assert "history.file: must be a file beside the description" in run("new", home / "spec.toml", *store, code=1)
    rows = "p1,p2,a,b,days\n1,1,5,4,7\n2,1,4,4,7\n1,2,5,3,5\n"
    past.write_text(rows)
    monkeypatch.chdir(home)
    run("new", "spec.toml", *store)
    monkeypatch.chdir(tmp_path)
    asked = json.loads(run("ask", "--json", *store))
    assert asked["decisions"] == [[1.5, 1.0]]
    (tmp_path / "observed.csv").write_text("b,a\n4,4.5\n")
    past.write_text(rows.replace("5,4,7", "5,4,6"))
    changed = run("tell", "--yes", "observed.csv", *number(asked), *store, code=1)
    assert "method.history.counts: stored [7.0, 7.0, 5.0], but got [6.0, 7.0, 5.0]" in changed
    past.unlink()
    assert "reported; next is round 1" in run("tell", "--yes", "observed.csv", *number(asked), *store)
    assert "verified bit for bit; events: 3, reports: 1" in run("verify", *store)
    assert "round 1" in run("status", *store)

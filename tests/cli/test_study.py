"""Studies from a terminal."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas
import pytest
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
    rehearsed = run("rehearse", "spec.toml")
    assert os.listdir() == ["spec.toml"]
    assert rehearsed.startswith("rehearsal: 20 simulated deployments under each of 3 reactions; nothing is stored\n")
    assert "  budget: " in rehearsed
    assert run("new", "spec.toml", "--store", "prices.db") == f"{rehearsed}\nstudy eu created in prices.db\n"
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
    assert "room left in cap: " in shown
    assert "slack: cap" in run("ask", "--theory", *store)
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
    assert "room left in cap: " in status
    assert "3 deployments reported" in status
    assert "now, and against the start  too early, 1 more deployment\n" in status
    theory = run("status", "--theory", *store)
    assert "constraint cap: slack" in theory
    assert "effect     too early, 1 more deployment" in theory
    numbers = json.loads(run("status", "--json", *store))
    assert numbers["told"] == 3
    assert np.shape(numbers["slack_history"]) == (3, 1)
    assert numbers["now"]["risk"] is None
    assert numbers["now"]["reason"].startswith("too early, ")
    assert run("why", *store).splitlines()[1].startswith("expects ")
    assert run("why", "--theory", *store).splitlines()[1].startswith("the plan counts on a ")
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


def test_a_study_in_the_users_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    named = SPEC.replace("upper = [4.0, 4.0]", 'upper = [4.0, 4.0]\ncolumns = ["milk", "bread"]\nunits = "EUR"')
    worded = named.replace('"revenue"', '"revenue"\nshow = "profit"\nunit = "EUR"\nper = "shop"')
    Path("spec.toml").write_text(worded.replace('name = "eu"', 'name = "eu"\nperiod = "week"') + "start = [2.0, 1.0]\n")
    store = ("--store", "prices.db")
    run("new", "spec.toml", *store)
    asked = run("ask", *store).splitlines()
    assert asked[:6] == [
        "deployment 1, week 1: 5 rows wanted",
        "         deploy",
        "  milk    2 EUR",
        "  bread   1 EUR",
        "  room left in cap: 1",
        "why: begins at the start, as it always does",
    ]
    Path("observed.json").write_text(json.dumps([[3.0, 4.0], [3.0, 2.0], [4.0, 3.0]]))
    told = run("tell", "--yes", "observed.json", "--deployment", 1, *store)
    assert "deployment 1 reported; next is week 2: ask for its decisions" in told
    run("ask", *store)
    lines = [line.split("  ")[-1].strip() for line in run("log", *store).splitlines()]
    assert lines[1] == "week 1, 5 rows of milk 2 EUR, bread 1 EUR"
    assert lines[2].startswith("deployment 1 (week 1), 3 rows, profit 9.667 EUR a shop, best guess milk ")
    assert lines[3].startswith("week 2, 5 rows of milk ")
    status = run("status", *store)
    assert status.startswith("study eu: 1 week reported\n")
    assert "deployed now" in status
    assert "  week by week                9.667\n" in status
    with pf.Study.open("prices.db", "eu", readonly=True) as study:
        assert status == f"{study.status()}\n"
    theory = "".join(run(command, "--theory", *store) for command in ("status", "ask", "why", "log"))
    for word in ("multiplier", "slack", "θ_t", "risk"):
        assert word in theory
        assert word not in status + "\n".join(asked + lines) + run("why", *store)


def test_pairs_of_decisions_are_told_by_a_column(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("spec.toml").write_text(
        SPEC[: SPEC.index("[method]")] + '[method]\ntype = "apda"\nwarmup = 4\nexploration = 0.1'
    )
    store = ("--store", "prices.db")
    run("new", "--no-rehearsal", "spec.toml", *store)
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
    run("new", "--no-rehearsal", "spec.toml", "--store", "prices.db")
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
    run("new", "--no-rehearsal", "other.toml", "--store", "prices.db")
    for words in (("plot", "--out", "a.gif"), ("export", "--out", "a.xls")):
        assert "`--out` must end in" in run(*words, "--store", "prices.db", "--name", "eu", code=1)
    assert "prices.db holds several studies; choose one with `--name`: eu, us" in run(
        "ask", "--store", "prices.db", code=1
    )
    assert "has no study 'asia'" in run("ask", "--store", "prices.db", "--name", "asia", code=1)
    assert "events: 1, reports: 0" in run("verify", "--store", "prices.db", "--name", "us")
    pf.Study.create("own.db", "own", describe(SPEC).method).close()
    assert "was not created from a description" in run("status", "--store", "own.db", code=1)


def test_what_fails_in_a_rehearsal_makes_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("half_a_loss_here.py").write_text(
        "import jax.numpy as jnp\ndef up_to_two(theta, z):\n    return -jnp.sum(theta * z) * jnp.sqrt(2.0 - theta[0])\n"
    )
    text = SPEC.replace('type = "revenue"', 'type = "function"\nfunction = "half_a_loss_here:up_to_two"')
    text = text.replace('type = "safe_apda"\nsamples = 5', 'type = "one_point"\nexploration = 0.2\nstart = [1.7, 1.7]')
    Path("spec.toml").write_text(text)
    for words in (("rehearse", "spec.toml"), ("new", "spec.toml", "--store", "prices.db")):
        line = run(*words, code=1)
        assert line.startswith("error: rehearsal, reaction none: `loss` must be finite, but its mean is nan at [")
        assert line.endswith(
            "; if data are not like that, [rehearsal] with mean = [...] and spread = [...] says what they are like\n"
        )
    assert not Path("prices.db").exists()
    assert run("new", "spec.toml", "--no-rehearsal", "--store", "prices.db") == "study eu created in prices.db\n"


OWN = SPEC.replace('type = "revenue"', 'type = "function"\nfunction = "my_losses_here:dear"')


def test_a_users_loss_is_imported_from_pythons_path_and_when_that_is_allowed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my_losses_here.py").write_text(
        "import jax.numpy as jnp\ndef dear(theta, z):\n    return -jnp.sum(theta * z)\n"
    )
    Path("spec.toml").write_text(OWN)
    store, path = ("--store", "prices.db"), [*sys.path]
    refused = run("new", "spec.toml", *store, code=1)
    assert "`loss.function` names 'my_losses_here:dear', which cannot be imported: ModuleNotFoundError" in refused
    assert "put `PYTHONPATH=FOLDER` before the command, `PYTHONPATH=.` for the folder you are in" in refused
    assert sys.path == path
    with monkeypatch.context() as own:
        own.syspath_prepend(tmp_path)  # as PYTHONPATH=. does
        run("new", "--no-rehearsal", "spec.toml", *store)
        asked = json.loads(run("ask", "--json", *store))
        Path("observed.csv").write_text("a,b\n4.5,4\n")
        for words in (("tell", "--yes", "--in-order", "observed.csv", *number(asked)), ("status",), ("verify",)):
            printed = run(*words, *store, code=1)  # `tell` shows what was read before
            assert printed[printed.index("error") :] == (
                "error: study 'eu' needs my_losses_here:dear, code that its file names and that is not run unless you say so: "
                "if you trust the file, pass `allow_code=True` (`--allow-code` on the command line), or pass the method itself\n"
            )
        assert "reported; next is round 1" in run(
            "tell", "--yes", "--in-order", "observed.csv", *number(asked), *store, "--allow-code"
        )
        assert "1 deployment reported" in run("status", *store, "--allow-code")
    sys.modules.pop("my_losses_here")
    assert "PYTHONPATH=FOLDER" in run("verify", *store, "--allow-code", code=1)
    assert sys.path == path


LOOK = """
import sys
import time
from typer.testing import CliRunner
from performative.cli import app

path, asked = [*sys.path], ("--deployment", 1)
for words in (
    ("log",), ("status",), ("ask",), ("why",), ("note", "seen"), ("export",), ("export", "--out", "a.csv"), ("plot",),
    ("verify",), ("tell", "--yes", "observed.csv", *asked), ("cancel", "--reason", "no", *asked), ("ask",), ("new", "other.toml")
):
    result = CliRunner().invoke(app, ["study", *map(str, words), "--store", "prices.db"])
    print(words[0], result.exit_code, type(result.exception).__name__)
print(sys.path == path, "helper" in sys.modules)
"""


def test_nothing_beside_a_store_is_imported(tmp_path, monkeypatch):
    """A store that somebody sent, with modules beside it that bear the names of one it names and of one the library uses."""
    home = tmp_path / "theirs"
    home.mkdir()
    helper = home / "helper.py"
    helper.write_text("import jax.numpy as jnp\ndef dear(theta, z):\n    return -jnp.sum(theta * z)\n")
    (home / "spec.toml").write_text(OWN.replace("my_losses_here", "helper"))
    with monkeypatch.context() as own:
        own.syspath_prepend(home)
        with pf.Study.from_spec(home / "prices.db", home / "spec.toml") as study:
            study.ask()
    for name in ("helper", "xarray", "pandas", "matplotlib", "tomllib"):
        (home / f"{name}.py").write_text(f"open('{name} was run', 'w').close()\nraise SystemExit('{name} was run')\n")
    (home / "observed.csv").write_text("a,b\n4.5,4\n")
    (home / "other.toml").write_text(OWN.replace("my_losses_here", "nowhere"))
    environment = os.environ | {"PYTHONPATH": str(Path(pf.__file__).parent.parent), "COLUMNS": "120"}
    ran = subprocess.run(  # -P leaves the working directory out, as in the installed command
        [sys.executable, "-P", "-c", LOOK], cwd=home, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.stdout.splitlines() == [
        "log 0 NoneType",
        "status 1 SystemExit",
        "ask 0 NoneType",
        "why 0 NoneType",
        "note 0 NoneType",
        "export 0 NoneType",
        "export 0 NoneType",
        "plot 0 NoneType",
        "verify 1 SystemExit",
        "tell 1 SystemExit",
        "cancel 0 NoneType",
        "ask 0 NoneType",
        "new 1 SystemExit",
        "True False",
    ], ran.stderr
    assert [*home.glob("*was run")] == []


def test_a_forged_description_names_no_code_that_is_run(tmp_path):
    """Whatever a forged description calls a function is refused, too."""
    text = SPEC.replace('type = "box"', 'type = "function"\nfunction = "antigravity:fly"')
    method = describe(SPEC).method
    with pf.Study.create(tmp_path / "prices.db", "eu", method, spec=text) as study:
        study.ask()
    with (
        pf.Study.open(tmp_path / "prices.db", "eu") as study,
        pytest.raises(pf.StudyError, match="needs antigravity:fly, code"),
    ):
        study.status()
    assert "antigravity" not in sys.modules


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
    run("new", "--no-rehearsal", "spec.toml", *store)
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


def test_a_warning_about_the_file_is_a_line(tmp_path):
    path = tmp_path / "prices.db"
    with pf.Study.create(path, "eu", describe(SPEC).method, spec=SPEC) as study:
        study.note("one")
        study.note("two")
        log = path.with_name("prices.db-wal").read_bytes()
        content = path.read_bytes()
    path.write_bytes(content)
    path.with_name("prices.db-wal").write_bytes(log[:-9] + bytes([log[-9] ^ 1]) + log[-8:])
    lines = run("log", "--store", path).splitlines()
    assert sum(line.startswith("warning: the last event in ") for line in lines) == 1
    assert not any(line.endswith("two") for line in lines)


def test_a_signed_study_and_a_copy_of_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("spec.toml").write_text(SPEC)
    store = ("--store", "prices.db")
    run("new", "--no-rehearsal", "spec.toml", *store)
    made = run("key", "--out", "key")
    assert Path("key").stat().st_mode & 0o777 == 0o600
    secret = Path("key").read_bytes()
    assert "exists" in run("key", "--out", "key", code=1)
    assert Path("key").read_bytes() == secret
    name = made.split()[1]
    assert "but is signed by nobody" in run("verify", *store, "--key", "key", code=1)
    assert run("sign", *store, "--key", "key") == f"signed with the key {name} up to event 0\n"
    digest = run("verify", *store).splitlines()[-1].removeprefix("digest: ")
    run("ask", *store)
    lines = run("verify", *store, "--key", "key", "--against", digest).splitlines()
    assert lines[:3] == [
        f"signed with the key {name} up to event 0",
        f"nothing was changed up to event 1, the last one when the digest was {digest}",
        "verified bit for bit; events: 3, reports: 0",
    ]
    assert lines[3] != f"digest: {digest}"
    Path("short").write_text("secret")
    assert "`key` must have at least 32 bytes, but has 6" in run("sign", *store, "--key", "short", code=1)
    Path("other").write_bytes(secret[::-1])
    assert f"but is signed by {name} alone" in run("verify", *store, "--key", "other", code=1)
    assert "No such file" in run("verify", *store, "--key", "none", code=1)
    assert "never had the digest" in run("verify", *store, "--against", "0" * 64, code=1)
    assert f"all events before this one, with the key {name}" in run("log", *store)
    assert run("copy", "--from", "prices.db", "--to", "copy.db") == "copied to copy.db and verified: eu\n"
    assert "copy.db exists; a copy replaces nothing" in run("copy", "--from", "prices.db", "--to", "copy.db", code=1)
    assert run("log", "--store", "copy.db") == run("log", *store)


def test_the_log_says_where_the_clock_was_set_back(tmp_path, monkeypatch):
    path = tmp_path / "prices.db"
    with pf.Study.create(path, "eu", describe(SPEC).method, spec=SPEC) as study:
        for at in (9e9, 9e9 - 600.0, 9e9):
            monkeypatch.setattr(time, "time", lambda at=at: at)
            study.note("now")
    lines = run("log", "--store", path).splitlines()
    assert ["set back" in line for line in lines] == [False, False, True, False]
    assert lines[2].endswith("now  (the clock was set back by 0:10:00)")


def test_a_typo_is_retracted_and_reported_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("spec.toml").write_text(SPEC)
    store = ("--store", "prices.db")
    run("new", "--no-rehearsal", "spec.toml", *store)
    asked = json.loads(run("ask", "--json", *store))
    observed = demand(asked["decisions"][0], 5, 0)
    Path("typo.json").write_text(json.dumps([[3e9, 1.0], *observed[1:].tolist()]))
    Path("right.json").write_text(json.dumps(observed.tolist()))
    run("tell", "--yes", "--confirm", "typo.json", *number(asked), *store)
    assert "already reported with other samples" in run("tell", "--yes", "right.json", *number(asked), *store, code=1)
    printed = run("retract", "--reason", "a typo", "--as", "Ada", *number(asked), *store)
    assert "the report of deployment 1 is retracted" in printed
    assert "0 deployments reported" in run("status", *store)
    words = ("tell", "--yes", "right.json", "--deployed", "3.5,2.5", *number(asked), *store)
    assert "`--deployed` must be numbers such as" in run(*words[:4], "3.5;2", *words[5:], code=1)
    assert "violates cap by 2; it is learned from all the same" in run(*words)
    log = run("log", *store).splitlines()
    assert [line.split()[3] for line in log] == ["create", "ask", "tell", "retract", "tell"]
    assert "deployment 1: a typo (Ada), best guess" in log[3]
    assert "deployed [3.5, 2.5], which violates cap by 2, best guess" in log[4]
    assert "warning: constraint cap was violated by 1 of 1 deployments" in run("status", *store)
    assert "events: 5, reports: 1" in run("verify", *store)
    run("export", *store, "--out", "study.csv")
    assert pandas.read_csv("study.csv")["mean_0"].max() < 10.0


def test_proposals_are_approved_and_declined(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("wrong.toml").write_text("approval = 1\n" + SPEC)
    assert "error: approval: " in run("new", "wrong.toml", "--store", "prices.db", code=1)
    Path("spec.toml").write_text("approval = true\n" + SPEC.replace("samples = 5", "samples = 1\nstart = [2.5, 1.0]"))
    store = ("--store", "prices.db")
    run("new", "--no-rehearsal", "spec.toml", *store)
    shown = run("ask", *store)
    assert "proposal 1, round 0: 1 row wanted; it waits for approval" in shown
    assert "next: performative study approve --store prices.db --deployment 1" in shown
    assert not json.loads(run("ask", "--json", *store))["approved"]
    same = run("decline", "--reason", "too dear", "--as", "Ada", "--deployment", 1, *store)
    assert "warning: the next proposal will be the same as 1" in same
    words = ("decline", "--reason", "too dear", "--deployment", 3, *store)
    run("ask", *store)
    assert "`--upper` must be a name or a place and a bound" in run(*words, "--upper", "milk", code=1)
    assert "`--upper` must be a name or a place and a bound" in run(*words, "--upper", "milk=dear", code=1)
    assert "must say which number of a decision it is" in run(*words, "--upper", "milk=2", code=1)
    assert "proposal 3 declined" in run(*words, "--upper", "0=2", "--as", "Ada")
    assert json.loads(run("ask", "--json", *store))["decisions"][0][0] <= 2.0
    number = ("--deployment", 5, *store)
    Path("observed.json").write_text("[[1.0, 2.0]]")
    refused = run("tell", "--yes", "observed.json", *number, code=1)
    assert refused.startswith("error: deployment 5 must be approved before it is reported")
    assert "violates cap by 2" in run("approve", "--decisions", "3,3", *number, code=1)
    assert "number 0    1.99 " in run("approve", "--decisions", "1.99,1.49", "--as", "Grace", *number)
    Path("observed.json").write_text(json.dumps(demand([1.99, 1.49], 1, 0).tolist()))
    run("tell", "--yes", "observed.json", *number)
    log = [line.split("  ", 3)[-1] for line in run("log", *store).splitlines()]
    assert log[2].endswith("deployment 1: too dear (Ada)")
    assert log[4].endswith("deployment 3: too dear (Ada), limits [-inf, -inf] to [2, inf]")
    assert log[6].endswith("deployment 5 as [1.99, 1.49] (Grace)")
    assert "events: 8, reports: 1" in run("verify", *store)


def test_a_study_is_amended_once_what_changes_was_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = SPEC.replace('type = "safe_apda"\nsamples = 5', 'type = "repeated_gradient"\nstart = [1.0, 1.0]')
    Path("spec.toml").write_text(text)
    Path("other.toml").write_text(text.replace('"eu"', '"us"'))
    Path("new.toml").write_text(
        text.replace("bound = 4.0", "bound = 1.5")
        .replace("start = [1.0, 1.0]", "start = [0.75, 0.75]")
        .replace('"revenue"', '"revenue"\ncost = [0.5, 0.5]')
    )
    store = ("--store", "prices.db")
    run("new", "--no-rehearsal", "spec.toml", *store)
    asked = json.loads(run("ask", "--json", *store))
    Path("observed.json").write_text(json.dumps(demand(asked["decisions"][0], 1, 0).tolist()))
    run("tell", "--yes", "observed.json", *number(asked), *store)
    run("ask", *store)
    assert "`name` must be that of the study" in run("amend", "other.toml", "--reason", "no", *store, code=1)
    assert "an amendment must change something" in run("amend", "spec.toml", "--reason", "no", *store, code=1)
    words = ("amend", "new.toml", "--reason", "the supplier", "--as", "Ada", *store)
    asked_back = CliRunner().invoke(app, ["study", *words], env={"COLUMNS": "120"}, input="n\n")
    assert asked_back.exit_code == 0
    shown = asked_back.output
    assert "amend the study? [y/N]" in shown
    assert "Aborted" in run(*words, code=1)  # nobody answers
    assert "constraints[0].bound: 4.0 -> 1.5" in shown
    assert "loss.cost: nothing -> [0.5, 0.5]" in shown
    assert "next decision: [1" in shown
    assert "\nwhat was deployed last: [1, 1]\n" in shown
    assert shown.count("\nreaction ") == 3
    assert "reaction" not in CliRunner().invoke(app, ["study", *words, "--no-rehearsal"], input="n\n").output
    assert len(run("log", *store).splitlines()) == 4
    assert "study eu amended" in run(*words, "--yes")
    assert "room left in cap: -0.545" in run("ask", *store)  # what is open, under the new cap
    run("tell", "--yes", "observed.json", "--deployment", 3, *store)
    assert "the supplier (Ada), best guess" in run("log", *store).splitlines()[4]
    assert "2 deployments reported" in run("status", *store)
    assert "events: 6, reports: 2" in run("verify", *store)
    assert "by their digests" not in run("verify", *store)

"""A new user with a file that nobody has described: one command writes a config, the next one fits it."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from browser import broken_links, faults
from runs import read_table, snakemake, succeed
from tfglm.data.reader import uniform

ROWS = 3000


def clinic() -> pd.DataFrame:
    """Patients, as a clinic might export them."""
    random = np.random.default_rng(2)
    visits = pd.DataFrame(
        {
            "Patient ID": np.arange(ROWS) + 70_000,
            "Admission": (pd.Timestamp("2023-01-01") + pd.to_timedelta(random.integers(0, 700, ROWS), "D")).strftime(
                "%d/%m/%Y"
            ),
            "Ward": random.choice(["A&E", "Cardiology", "Surgery"], ROWS),
            "Age (years)": random.integers(18, 95, ROWS),
            "Weight": random.normal(75, 12, ROWS).round(1),
        }
    )
    eta = -3 + 0.04 * visits["Age (years)"] + 0.5 * (visits["Ward"] == "Surgery")
    visits["Readmitted"] = np.where(random.random(ROWS) < 1 / (1 + np.exp(-eta)), "Yes", "No")
    return visits


def test_a_new_file_has_its_tables_and_pages_after_two_commands(tmp_path):
    visits = clinic()
    known = visits["Weight"] >= 55
    exported = visits.assign(Weight=visits["Weight"].where(known))
    exported.to_csv(tmp_path / "clinic.csv", index=False, na_rep="?", sep=";", decimal=",", encoding="latin-1")
    # A config that is no use to anybody is not even read.
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.yaml").write_text("data: [")
    printed = succeed(tmp_path, "init", "--config", "csv=clinic.csv")
    assert "All 3,000 rows of clinic.csv, layout config/clinic.layout.yaml:" in printed
    (command,) = re.findall(r"^Next: snakemake --cores 4 --snakefile \S+ (.+)$", printed, re.MULTILINE)
    assert command == "--configfile config/clinic.yaml"
    succeed(tmp_path, *command.split())
    assert f"{command}</pre>" in (tmp_path / "results" / "clinic" / "index.html").read_text()
    compare(tmp_path, visits)
    pages = sorted((tmp_path / "results").rglob("*.html"))
    assert {page.name for page in pages} == {
        "index.html",
        "coefficients.html",
        "metrics.html",
        "rows.html",
        "columns.html",
    }
    assert list(broken_links(pages)) == []
    assert faults(pages) == []


def compare(folder, visits: pd.DataFrame) -> None:
    """The table against statsmodels, on the rows that train."""
    used = (uniform(1, "clinic", 2, ROWS) < 0.8) & (visits["Weight"] >= 55)
    rows = visits[used]
    days = pd.to_datetime(rows["Admission"], format="%d/%m/%Y").dt
    factors = {"Ward": rows["Ward"], "C(month)": days.month, "C(weekday)": days.isocalendar().day}
    covariates = {("Intercept", ""): np.ones(len(rows))}
    for term, values in factors.items():
        covariates |= {(term, str(level)): values == level for level in sorted(values.unique())[1:]}
    covariates |= {("Age_years", ""): rows["Age (years)"], ("Weight", ""): rows["Weight"]}
    fit = sm.GLM(rows["Readmitted"] == "Yes", pd.DataFrame(covariates).astype(float), sm.families.Binomial()).fit()
    table = read_table(folder, "Readmitted_yes", Path("results/clinic")).loc[list(covariates)]
    assert table["estimate"].to_numpy() == pytest.approx(fit.params.to_numpy(), rel=1e-6)
    assert table["classical_std_error"].to_numpy() == pytest.approx(fit.bse.to_numpy(), rel=1e-5)
    # Those by date are others, and none is missing.
    assert (table["std_error"] / table["classical_std_error"]).between(0.8, 1.25).all()


def test_a_file_that_cannot_be_fitted_says_why(tmp_path):
    (tmp_path / "x.csv").write_text("a b\n1 2\n")
    done = snakemake(tmp_path, "init", "--config", "csv=x.csv")
    assert done.returncode == 1 and not (tmp_path / "config").exists()
    assert re.fullmatch(
        r"error: x\.csv: has a single column, `a b`.*\n( .*\n)*"
        r"Failed: Inspecting x\.csv; its log: logs/init\.log\n",
        done.stdout,
    )


@pytest.mark.parametrize("arguments", [["init"], ["init", "--config", "csv="], ["init", "--config", "csv=[a, b]"]])
def test_without_a_file_the_message_says_how_to_name_one(tmp_path, arguments):
    done = snakemake(tmp_path, *arguments)
    assert done.returncode == 1 and "snakemake --cores 1 init --config csv=flights.csv" in done.stdout


def test_response_formula_and_output_are_keys_and_no_other_key_is(tmp_path):
    clinic().to_csv(tmp_path / "clinic.csv", index=False)
    line = ["init", "--config", "csv=clinic.csv"]
    done = snakemake(tmp_path, *line, "respnse=Weight")
    assert done.returncode == 1
    assert "`init` has no key `respnse`; its keys are csv, response, formula, output, header" in done.stdout
    assert "`init` needs a text for formula" in snakemake(tmp_path, *line, "formula=").stdout
    printed = succeed(tmp_path, *line, "formula=Weight ~ Age_years + Ward", "output=first/weight of all.yaml")
    assert "--configfile 'first/weight of all.yaml'" in printed
    assert "formula: Weight ~ Age_years + Ward" in (tmp_path / "first" / "weight of all.yaml").read_text()

"""A new user with a file that nobody has described: one command writes a config, the next one fits it."""

import re

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

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


def test_a_new_file_has_its_first_table_after_two_commands(tmp_path):
    visits = clinic()
    known = visits["Weight"] >= 55
    visits.assign(Weight=visits["Weight"].where(known)).to_csv(tmp_path / "clinic.csv", index=False, na_rep="?")
    # A config that is no use to anybody is not even read.
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.yaml").write_text("data: [")
    printed = succeed(tmp_path, "init", "--config", "csv=clinic.csv")
    assert "All 3,000 rows of clinic.csv, layout config/clinic.layout.yaml:" in printed
    (command,) = re.findall(r"^Next: snakemake --cores 4 --snakefile \S+ (.+)$", printed, re.MULTILINE)
    assert command == "--configfile config/clinic.yaml"
    succeed(tmp_path, "results/models/Readmitted_yes/coefficients.csv", *command.split())
    compare(tmp_path, visits)


def compare(folder, visits: pd.DataFrame) -> None:
    """The table against statsmodels, on the rows that train."""
    used = (uniform(1, "clinic", 2, ROWS) < 0.8) & (visits["Weight"] >= 55)
    rows = visits[used]
    covariates = pd.DataFrame(
        {
            "Cardiology": rows["Ward"] == "Cardiology",
            "Surgery": rows["Ward"] == "Surgery",
            "Age_years": rows["Age (years)"],
            "Weight": rows["Weight"],
        }
    ).astype(float)
    fit = sm.GLM(rows["Readmitted"] == "Yes", sm.add_constant(covariates), sm.families.Binomial()).fit(cov_type="HC0")
    table = read_table(folder, "Readmitted_yes")
    places = [("Intercept", ""), ("Ward", "Cardiology"), ("Ward", "Surgery"), ("Age_years", ""), ("Weight", "")]
    assert table.loc[places, "estimate"].to_numpy() == pytest.approx(fit.params.to_numpy(), rel=1e-6)
    hc1 = fit.bse.to_numpy() * np.sqrt(len(rows) / (len(rows) - len(places)))
    assert table.loc[places, "std_error"].to_numpy() == pytest.approx(hc1, rel=1e-5)


def test_a_file_that_cannot_be_fitted_says_why(tmp_path):
    (tmp_path / "x.csv").write_text("a;b\n1;2\n")
    done = snakemake(tmp_path, "init", "--config", "csv=x.csv")
    assert done.returncode == 1 and "error: x.csv: its columns are separated by semicolons" in done.stdout
    assert "Traceback" not in done.stdout and not (tmp_path / "config").exists()


@pytest.mark.parametrize("arguments", [["init"], ["init", "--config", "csv="], ["init", "--config", "csv=[a, b]"]])
def test_without_a_file_the_message_says_how_to_name_one(tmp_path, arguments):
    done = snakemake(tmp_path, *arguments)
    assert done.returncode == 1 and "snakemake --cores 1 init --config csv=flights.csv" in done.stdout

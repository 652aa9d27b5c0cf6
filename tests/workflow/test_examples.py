"""The ready analyses of config/examples, as far as a plan."""

from runs import REPOSITORY, configure, planned


def test_each_example_has_a_plan(tmp_path):
    configure(tmp_path)
    examples = (REPOSITORY / "config" / "examples").glob("*.yaml")
    plans = {path.stem: planned(tmp_path, "--configfile", str(path)) for path in examples}
    assert {
        name: {rule: plan.get(rule, 0) for rule in ("chief", "train", "evaluate", "compare_models")}
        for name, plan in plans.items()
    } == {"wide_and_deep": {"chief": 1, "train": 2, "evaluate": 3, "compare_models": 1}}

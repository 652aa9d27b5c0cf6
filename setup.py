"""What pyproject.toml cannot say: an installed package has the workflow of this checkout too, as `tfglm.checkout`."""

from setuptools import find_packages, setup

setup(packages=[*find_packages("scripts"), "tfglm.checkout"], package_dir={"": "scripts", "tfglm.checkout": "."})

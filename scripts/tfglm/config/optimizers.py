"""The optimizer of a network and its learning rate."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tfglm.config.base import FROM_TEXT, Count, Section

Rate = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False), FROM_TEXT]
Positive = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False), FROM_TEXT]
NotNegative = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False), FROM_TEXT]
Steps = Annotated[Count, Field(le=10**12)]
Epochs = Annotated[Count, Field(le=100_000)]
LearningRate = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False), FROM_TEXT]


def option(choices: str, description: str, **bounds: Any) -> Any:
    """A key that a `Choice` has with these choices alone. Those with an exclamation mark need it."""
    has: dict[str, Any] = {choice.rstrip("!"): choice.endswith("!") for choice in choices.split()}
    named = ", ".join(f"`{choice}`" for choice in has)
    return Field(default=None, description=f"For {named}: {description}", json_schema_extra={"choices": has}, **bounds)


class Choice(Section):
    """A section whose first key decides which others it has."""

    @model_validator(mode="after")
    def _options_that_it_has(self) -> Any:
        fields: dict[str, Any] = dict(type(self).model_fields)
        first = next(iter(fields))
        choice = getattr(self, first)
        options = {key: field.json_schema_extra["choices"] for key, field in fields.items() if field.json_schema_extra}
        known = [key for key in fields if key != first and choice in options.get(key, [choice])]
        for key, choices in sorted(options.items()):
            if choice not in choices and getattr(self, key) is not None:
                raise ValueError(f"{first} `{choice}` has no `{key}`; it has {', '.join(known)}")
            if choices.get(choice) and getattr(self, key) is None:
                raise ValueError(f"{first} `{choice}` needs `{key}`; add it")
        return self


class ScheduleConfig(Choice):
    """A learning rate that changes during the training, with Keras' names."""

    schedule: Literal["constant", "cosine", "exponential", "piecewise", "plateau"]
    """How the learning rate changes: `cosine` falls like a cosine, `exponential` by a factor, `piecewise` is constant
    between boundaries, `plateau` falls when the loss on the `evaluate` rows no longer does. `constant` is for
    `warmup_steps` alone."""
    initial_learning_rate: LearningRate | None = option(
        "constant! cosine! exponential! plateau!", "the learning rate at the start, after a warm-up."
    )
    warmup_steps: Steps | None = option(
        "constant! cosine exponential piecewise",
        "steps in which the learning rate rises from 0 to its start. The schedule follows.",
    )
    decay_steps: Steps | None = option(
        "cosine exponential!",
        "steps in which it falls to its end (default: the rest of the training), or by its factor.",
    )
    alpha: Annotated[float, Field(ge=0, le=1), FROM_TEXT] | None = option(
        "cosine", "its end, as a share of the start. Default: 0."
    )
    decay_rate: Annotated[float, Field(gt=0, le=1), FROM_TEXT] | None = option("exponential!", "its factor.")
    staircase: bool | None = option("exponential", "whether it falls all at once.")
    boundaries: list[Steps] | None = option(
        "piecewise!", "steps after which it takes the next value.", min_length=1, max_length=1000
    )
    values: list[LearningRate] | None = option(
        "piecewise!", "the learning rates, one more than boundaries.", max_length=1001
    )
    factor: Annotated[float, Field(gt=0, lt=1), FROM_TEXT] | None = option(
        "plateau", "what multiplies the learning rate. Default: 0.1."
    )
    patience: Epochs | None = option("plateau", "epochs without a smaller loss before it acts. Default: 10.")
    min_learning_rate: LearningRate | None = option("plateau", "the smallest learning rate.")

    @property
    def first(self) -> float:
        """The learning rate at the start, after a warm-up."""
        return self.initial_learning_rate or (self.values or [0.0])[0]

    @model_validator(mode="after")
    def _values_between_boundaries(self) -> "ScheduleConfig":
        boundaries, values = self.boundaries or [], self.values or []
        if boundaries != sorted(set(boundaries)):
            raise ValueError(f"boundaries: {boundaries} do not rise; write each step once, in order")
        if boundaries and len(values) != len(boundaries) + 1:
            raise ValueError(
                f"values: there are {len(values)} for {len(boundaries)} boundaries; write {len(boundaries) + 1}"
            )
        return self


class OptimizerConfig(Choice):
    """The optimizer, with Keras' names; options that are not given have Keras' defaults."""

    name: Literal["sgd", "adam", "adamw", "nadam", "adamax", "lion", "adagrad", "adadelta", "rmsprop", "ftrl"] = "adam"
    """The rule that turns a gradient into a step."""
    learning_rate: LearningRate | ScheduleConfig = 0.001
    """Length of the steps: a number, or a schedule."""
    clipnorm: Positive | None = None
    """The largest norm of the gradient of each weight; larger ones are scaled down."""
    global_clipnorm: Positive | None = None
    """The largest norm of the gradient of all weights together; a larger one is scaled down."""
    clipvalue: Positive | None = None
    """The largest absolute value in a gradient."""
    weight_decay: NotNegative | None = None
    """How much of a weight each step takes away, times the learning rate."""
    use_ema: bool | None = None
    """Whether predictions use the moving average of each weight. The held-out loss is of these averages."""
    ema_momentum: Rate | None = None
    """Decay of these averages. Default: 0.99."""
    lazy: bool | None = None
    """Whether a step changes only the rows of an embedding that its batch has. Default: for embeddings of 65,536
    numbers or more."""
    centered: bool | None = option("rmsprop", "whether it divides by the standard deviation of the gradients.")
    momentum: Rate | None = option("sgd rmsprop", "momentum.")
    nesterov: bool | None = option("sgd", "whether the momentum is Nesterov's.")
    beta_1: Rate | None = option("adam adamw nadam adamax lion", "decay of the mean of the gradients.")
    beta_2: Rate | None = option("adam adamw nadam adamax lion", "decay of the mean of the squared gradients.")
    rho: Rate | None = option("adadelta rmsprop", "decay of the mean of the squared gradients.")
    epsilon: NotNegative | None = option(
        "adam adamw nadam adamax adagrad adadelta rmsprop", "a small number that is added to a divisor."
    )
    amsgrad: bool | None = option("adam adamw", "whether it divides by the largest mean so far.")
    initial_accumulator_value: NotNegative | None = option("adagrad ftrl", "initial value of the sum of squares.")
    learning_rate_power: Annotated[float, Field(ge=-10, le=0, allow_inf_nan=False), FROM_TEXT] | None = option(
        "ftrl", "how fast the steps become shorter."
    )
    l1_regularization_strength: NotNegative | None = option("ftrl", "Lasso penalty.")
    l2_regularization_strength: NotNegative | None = option("ftrl", "Ridge penalty.")
    beta: NotNegative | None = option("ftrl", "a number that is added to the root of the sum of squares.")

    @property
    def given(self) -> dict[str, Any]:
        """What Keras is told, besides the learning rate."""
        return self.model_dump(exclude={"name", "learning_rate", "lazy"}, exclude_none=True)

    @property
    def schedule(self) -> ScheduleConfig | None:
        """How the learning rate changes; None if it does not."""
        return self.learning_rate if isinstance(self.learning_rate, ScheduleConfig) else None

    @property
    def first_rate(self) -> float:
        """The learning rate at the start."""
        return self.schedule.first if self.schedule else float(self.learning_rate)  # type: ignore[arg-type]

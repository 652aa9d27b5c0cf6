"""The watchdog of a chief, which starts it."""

from tfglm.roles import watchdog

if __name__ == "__main__":
    watchdog.main()

"""What kelvin raises and warns of."""


class KelvinError(Exception):
    """Something failed; the message says what, and what to do."""


class InputError(KelvinError, ValueError):
    """What was asked for makes no sense, or the data cannot be used; the message says why, and what to do."""


class KelvinWarning(UserWarning):
    """Something to read before a result is believed."""

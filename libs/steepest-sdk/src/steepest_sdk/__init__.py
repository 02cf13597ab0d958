"""The SDK of a training script: report, save, resume.

    import steepest_sdk

    run = steepest_sdk.start(save=model.save, load=model.load)
    for step in run.steps(1000):
        run.report(step, loss=train_one_step())

``save`` and ``load`` get a ``pathlib.Path``: an empty folder to write to, or a saved one to read. Outside Steepest the
same script trains from the first step to the last, and the SDK does nothing.
"""

from steepest_sdk.run import Run, start
from steepest_sdk.stop import EXIT_STOPPED

__all__ = ["EXIT_STOPPED", "Run", "start"]

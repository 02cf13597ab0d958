"""Horovod's TensorFlow 2 examples: ``Step #10`` and a loss between tabs, printed by each rank under MPI's tag.

It owns that line; the tag is a prefix.
"""

from steepest.training_logs.format import PAIRS_COLON, Format, headed

FORMAT = Format(
    name="horovod",
    shape="[1,0]<stdout>:Step #10\tLoss: 0.924903",
    needles=(b"Step #",),
    read=headed(rb"\bStep #(?P<step>\d{1,15})\s{1,4}(?=[Ll]oss: )", PAIRS_COLON),
)

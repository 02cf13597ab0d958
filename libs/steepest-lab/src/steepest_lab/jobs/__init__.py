"""Small trainings on real data, for the demo and as examples; each runs in one thread and needs only NumPy.

``python -m steepest_lab.jobs.<name> [--steps N | --epochs N] [--seed N] [--work X]``

| name | model and data | evaluation function | its curve |
|---|---|---|---|
| ``linear`` | linear regression, diabetes | squared error | falls immediately, then flat |
| ``softmax`` | logistic regression, digits; **only prints** | nats | falls fast, then more and more slowly |
| ``mlp`` | multi-layer perceptron, digits; **prints**, SDK for checkpoints | nats | falls fast and far |
| ``parallel`` | the same by any number of processes together, as a gang; SDK | nats | falls fast and far |
| ``gangs.parameter_server`` | the same by a server and its workers, as a gang; SDK | nats | falls fast and far |
| ``streamed`` | softmax on random features, enlarged digits **from a storage server** | nats | falls fast, then slowly |
| ``vae`` | variational auto-encoder, digits | negative evidence bound, nats | falls fast, then slowly for a long time |
| ``gru`` | recurrent network that reads digits row by row | nats | a plateau, then a fall |
| ``rnn`` | likewise, with tanh units and no gates | nats | falls fast, then more and more slowly |
| ``birnn`` | likewise, from both ends | nats | falls fast and far |
| ``dynamic_rnn`` | likewise, only the first four to eight rows | nats | falls fast, then slowly for a long time |
| ``charlm`` | recurrent language model, texts letter by letter | nats per letter | slow to the end |
| ``mixture`` | Gaussian mixture by expectation maximisation, digits | negative log-likelihood, nats | one drop, then flat |
| ``faulty`` | linear regression that hangs, diverges or idles once; SDK | squared error | falls immediately, then flat |
| ``factorisation`` | matrix factorisation, digits with missing pixels | squared error | steps |

The data are files of the scikit-learn package; ``steepest-lab`` installs it and NumPy.
"""

import os

# A job runs in one thread. NumPy's linear algebra reads these variables when it is imported, which is after this package.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ.setdefault(_variable, "1")

"""Small trainings on real data, for the demo and as examples to learn from; each runs in one thread on NumPy alone.

``python -m steepest.demo_jobs.<name> [--steps N | --epochs N] [--seed N] [--work X]``

| name | model and data | evaluation function | its curve |
|---|---|---|---|
| ``linear`` | linear regression, diabetes | squared error | falls at once, then flat |
| ``softmax`` | logistic regression, digits; **only prints** | nats | falls fast, then ever slower |
| ``mlp`` | multi-layer perceptron, digits; **prints**, SDK for checkpoints | nats | falls fast and far |
| ``vae`` | variational auto-encoder, digits | negative evidence bound, nats | falls fast, then slowly for long |
| ``gru`` | recurrent network that reads digits row by row | nats | a plateau, then a fall |
| ``charlm`` | recurrent language model, texts letter by letter | nats a letter | slow to the end |
| ``mixture`` | Gaussian mixture by expectation maximisation, digits | negative log-likelihood, nats | one drop, then flat |
| ``factorisation`` | matrix factorisation, digits with gaps | squared error | stairs |

The data are the files that scikit-learn ships; ``steepest[demo]`` brings them and NumPy.
"""

import os

# NumPy's linear algebra reads these when it is imported, which is after this package: a job is one thread.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ.setdefault(_variable, "1")

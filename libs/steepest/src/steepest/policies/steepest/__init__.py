"""The policy ``steepest``: what fair sharing leaves to spare is spent where value per core-second is steepest.

Every job is promised its end under fair sharing (:mod:`~steepest.policies.steepest.fair.fair_pool`), plus a small share of
its completion time. What must run now to keep all promises runs now (:mod:`~steepest.policies.steepest.must_run`); the rest
of each node goes to the jobs whose next core-second is worth most, in learning or in their end
(:func:`~steepest.policies.steepest.learning.worth`).

Why this is safe. On one server whose jobs can each use all of it, an order in which no job ends after its end under
processor sharing exists at any time, and any order may be used as long as the slack stays positive: the Fair Sojourn
Protocol (Friedman & Henderson, SIGMETRICS 2003) is the best known member of that family, Pri (arXiv:1506.09158)
generalises it, and PSBS (Dell'Amico, Carra & Michiardi, IEEE Trans. Computers 2016) adds what to do when sizes are wrong.
Jobs that cannot use the whole node break the argument; working as late as possible before each due time, which is how
real-time systems steal slack (Lehoczky & Ramos-Thuel, RTSS 1992), restores it on one node with known sizes and no arrivals.
There is no proof with arrivals, moves and wrong sizes: the invariant ``fair-end`` measures what comes of them.
"""

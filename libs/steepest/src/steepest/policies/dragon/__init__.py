"""DRAGON: gangs start whole, close together, and are scaled with the load (Lin, Yeh and Chou, CLOSER 2019).

The paper's text was not at hand: the rules are those of its authors' two published programs, named in
:class:`~steepest.events.dragon_parameters.DragonGeneration`, and of the later one's description.
"""

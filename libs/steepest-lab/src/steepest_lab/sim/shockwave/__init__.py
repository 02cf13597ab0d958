"""Shockwave's benchmark (Zheng et al., NSDI 2023): its jobs, its simulator's rules, its peers, and our rule."""

"""Paying for contributions, and how far honesty is the best policy under a way of paying.

``money`` divides exactly, ``rewards`` holds the rules, ``paying`` applies one to a scored round,
``cross_group`` shares a budget without making rivals of the clients; ``truthfulness`` computes what
a lie could gain at most, ``lies`` and ``audit`` search for the lie that gains most.
"""

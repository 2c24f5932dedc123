"""Paying for contributions, and how far honesty is the best policy under a way of paying.

``money`` divides exactly, ``rewards`` says what a rule is, has those that divide a budget, and pays
a scored round; ``tariffs`` has the other rules, ``registry`` all of them by name. ``cross_group``
shares a budget without making rivals of the clients; ``truthfulness`` computes what a lie could
gain at most, ``lies`` and ``audit`` search for the lie that gains most.
"""

"""Click logs: who was shown what, what they had liked before, and whether they clicked.

`events` is what every file format is read into, `log` turns events into features, histories and the
split by time; one file per format. Users become the clients of a federation.
"""

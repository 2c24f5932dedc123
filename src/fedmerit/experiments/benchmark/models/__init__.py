"""Federations of models that nobody tuned the default on, as plain PyTorch loops around a server.

`registry` lists the tasks, one small file per kind of model; `training` has what a client does,
`combine` what a server without scores does.
"""

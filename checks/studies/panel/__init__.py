"""What a panel finds, by study; each goes on where it was stopped.

`python -m checks.studies.panel worth --dataset digits --out docs/results` and so on: `worth` (does
it rank clients as exact Shapley values do?), `attacks` (who is found, and what is the model worth
then?), `liars` (what do judges earn by lying?), `flags` (who is accused without a reason?),
`error` (the same by simulation, at the edge of what is no harm), `cost` (traffic and time). Seeds
were fixed before any of them was run; what was tried before used seeds 900 to 907.
"""

"""What a panel finds, by study; each goes on where it was stopped.

`python -m checks.studies.panel worth --dataset digits --out docs/results` and so on: `worth` (does
it rank clients as exact Shapley values do?), `attacks` (who is found, and what is the model worth
then?), `liars` (what do judges earn by lying?), `flags` (who is accused without a reason?). Seeds
were fixed before any of them was run; what was tried before used seeds 900 to 902.
"""

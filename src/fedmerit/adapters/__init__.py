"""What adapters to federation engines share: clients' arrays, their replies, a round, its record.

=============  ===================================================================================
`layout`       arrays by name <-> one vector; what is wrong with a client's arrays
`replies`      rows of usable replies; what clients wrote, as text that can be stored
`settling`     a round settled, or skipped with a reason
`recording`    the ledger of a run
`summary`      what a round and a run come to, in numbers and in words
=============  ===================================================================================
"""

"""From a ledger to what one unit of privacy is exposed to, and the costs that add up."""

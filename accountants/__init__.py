"""From a ledger to proved upper bounds: one fold, one file a formula, every rounding upwards."""

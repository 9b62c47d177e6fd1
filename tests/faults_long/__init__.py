"""Load of many clients over hours of faults, whose histories are audited: ``make faults-long``."""

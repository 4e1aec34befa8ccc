"""What people read of a plan beside its decisions: bars, times, money, curves, reasons."""

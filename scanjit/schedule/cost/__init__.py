"""What things cost. All choices of the scheduler that compare costs ask here."""
